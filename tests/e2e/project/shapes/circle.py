from pathlib import Path


def area(radius: float) -> float:
    return float(Path(__file__).with_name("pi.txt").read_text()) * radius * radius
