"""`gridweave-credits`: the credit service and metering over HTTP, from the SQLite journal of the embedded default."""
