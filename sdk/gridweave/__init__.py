"""The client of Gridweave: a function goes in; logs, result and bill come out."""
