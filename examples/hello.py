"""The shortest one: a function runs on 8 GB of a GPU, its log appears here, its value comes back.

python examples/hello.py
gridweave submit examples/hello.py:square 7
"""

import gridweave as gw


@gw.function(vram="8GB")
def square(x: int) -> int:
    print("squaring", x)
    return x * x


if __name__ == "__main__":
    print("here:", square(7))
    print("on the cluster:", square.remote(7))
