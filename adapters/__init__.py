"""One package per library that Gridweave leans on; none knows another, and none knows `core`."""
