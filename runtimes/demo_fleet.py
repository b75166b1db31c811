"""The imaginary fleet of the demo: what `--demo-fleet` says, as nodes that the local Ray pretends to have."""

from __future__ import annotations

from adapters.ray.labels import demo_fleet
from ports.cluster import ClusterNode

FLEET_GRAMMAR = 'nodes as in "2x4xA100-80GB:org,1x2xL4-24GB:provider:acme" (<nodes>x<GPUs>x<MODEL>-<n>GB:<owner>)'


def demo_nodes(text: str) -> tuple[ClusterNode, ...]:
    """Raises Invalid, naming the part that can't be read."""
    return demo_fleet(text, "--demo-fleet")


def checked_fleet(text: str) -> str:
    """The same text, if it is a fleet. Raises Invalid."""
    demo_nodes(text)
    return text
