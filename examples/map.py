"""Many jobs at once: results come in order, each as soon as it is there. Leaving the loop cancels what is left."""

import time

import gridweave as gw


@gw.function(vram="2GB", name="lengths")
def collatz(start: int) -> int:
    """Steps until 1."""
    steps, n = 0, start
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    time.sleep(0.1)
    return steps


if __name__ == "__main__":
    for start, steps in enumerate(collatz.map(range(1, 21)), 1):
        print(f"{start:>3} {'*' * steps} {steps}")
