"""A function that needs a package which the nodes do not have: named in env, it is installed there once and then cached."""

import gridweave as gw


@gw.function(vram="1GB", env={"pip": ["humanize>=4"], "env_vars": {"GREETING": "hello from the node"}})
def describe(size: int) -> str:
    import os

    import humanize  # imported where it is needed: this machine need not have it

    return f"{os.environ['GREETING']}: {humanize.naturalsize(size, binary=True)}"


if __name__ == "__main__":
    print(describe.remote(80 * 1024**3))
