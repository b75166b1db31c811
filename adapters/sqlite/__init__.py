"""The embedded stores: workloads, credits and tariffs in one SQLite file."""
