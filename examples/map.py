"""Many jobs at once: results come in order, each as soon as it is there. Leaving the loop cancels what is left.

python examples/map.py
"""

import gridweave as gw
from collatz import steps_to_one  # a module beside this file: it travels along


@gw.function(vram="2GB", name="steps")
def steps(start: int) -> int:
    return steps_to_one(start)


if __name__ == "__main__":
    for start, found in enumerate(steps.map(range(1, 41)), 1):
        print(f"{start:>3} {'*' * found} {found}")
