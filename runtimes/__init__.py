"""Processes: they read settings, wire adapters to use cases, and translate. Nothing is decided here."""
