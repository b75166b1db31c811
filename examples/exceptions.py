"""An exception that the function raises is raised here, as itself, with its cause and the traceback of the node.

python examples/exceptions.py
gridweave submit examples/exceptions.py:divide 1 0
"""

import gridweave as gw
from sharing import NobodyThere, Portion, Size  # a module beside this file: it travels along


@gw.function(vram="1GB")
def divide(apples: int, guests: int) -> Portion:
    print("sharing", apples, "apples among", guests)
    try:
        each = apples / guests
    except ZeroDivisionError as error:
        raise NobodyThere(apples) from error
    return Portion(each, Size.LARGE if each >= 1 else Size.SMALL)


if __name__ == "__main__":
    print("equal to what is made here:", divide.remote(6, 4) == Portion(1.5, Size.LARGE))
    try:
        divide.remote(1, 0)
    except NobodyThere as error:
        print(f"caught {type(error).__name__}: {error}; its cause was {type(error.__cause__).__name__}")
        print(*error.__notes__, sep="\n")
