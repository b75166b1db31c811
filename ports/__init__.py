"""The shared language: value types that cross a wall, Protocols, errors. Imports nothing of ours."""
