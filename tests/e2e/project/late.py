"""Imported inside a function only."""

ANSWER = 42
