"""The version of the server. It stands here and nowhere else: pyproject.toml reads it from here, so that a source tree that is run
without being installed has it too."""

VERSION = "0.1.0"
