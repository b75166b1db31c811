"""The embedded default's durable state: two SQLite files, shared safely by any number of threads and processes.

`gridweave.db` holds workloads, node records, tariffs and the epoch; `credits.db` holds the journal of money.
"""
