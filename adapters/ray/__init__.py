"""Ray: nodes, and carrying agents to them."""
