"""A pod's identity, as EKS gives it: an agent beside the pod that has the keys, for whoever has the pod's token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.canaries import POD_TOKEN
from tests.s3.seaweed import ACCESS_KEY, SECRET_KEY


@contextmanager
def pod_identity_agent(folder: Path) -> Iterator[dict[str, str]]:
    """An agent that gives the keys of the bucket to whoever has the pod's token; gives the environment of such a pod."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Authorization") == POD_TOKEN
            keys = {"AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "Token": "", "Expiration": "2099-01-01T00:00:00Z"}
            data = json.dumps(keys if known else {"message": "who are you?"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    (folder / "token").write_text(POD_TOKEN)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        uri = f"http://127.0.0.1:{server.server_address[1]}/v1/credentials"
        yield {"AWS_CONTAINER_CREDENTIALS_FULL_URI": uri, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token")}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
