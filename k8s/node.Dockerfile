# An image of Ray nodes for Gridweave: agents are carried there by Ray, so nothing of ours is installed. Build from the root.
ARG RAY=2.60.0
FROM rayproject/ray:${RAY}-py311
ARG RAY
RUN pip install --no-cache-dir "cloudpickle==3.*" "boto3>=1.35" "botocore>=1.32" "uv>=0.13"
COPY runtimes/check_image.py /usr/local/bin/gridweave-check-image
RUN python /usr/local/bin/gridweave-check-image --python 3.11 --ray "${RAY}" --cloudpickle 3
