"""The embedded blob store: a folder."""
