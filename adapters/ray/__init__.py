"""The cluster on Ray: which nodes there are, an agent on each, and the local Ray of the embedded default.

Only `driver` imports ray, and only in a child process: a driver that loses its head hangs or exits without a word.
"""
