"""What map.py imports."""


def steps_to_one(start: int) -> int:
    """How often a number is halved, or tripled and raised by one, until it is 1."""
    steps, n = 0, start
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps
