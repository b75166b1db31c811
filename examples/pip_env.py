"""A function that needs a package which the nodes do not have: named in env, it is installed there once and then cached.

python examples/pip_env.py
gridweave submit examples/pip_env.py:rows
"""

import gridweave as gw


@gw.function(vram="1GB", env={"pip": ["humanize>=4"], "env_vars": {"GREETING": "hello from the node"}})
def rows(count: int = 4) -> list[str]:
    import os

    import humanize  # imported where it is needed: this machine need not have it

    print(os.environ["GREETING"], "with humanize", humanize.__version__)
    return [humanize.naturalsize(1024**power, binary=True) for power in range(1, count + 1)]


if __name__ == "__main__":
    print(rows.remote())
