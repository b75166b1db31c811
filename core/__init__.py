"""Decisions and use cases. No clock, no randomness, no thread, no environment: all of them come in as arguments."""
