"""What runs on a node: starts, watches and kills runs there."""
