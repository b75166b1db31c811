"""A fleet and a trace in, numbers out: the ledger that production uses, under a clock and a dice that are handed in."""
