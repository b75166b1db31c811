"""Kubernetes as the source of truth: workloads, node records, tariffs, the epoch and the Lease as objects of one namespace.

Nothing but `runtimes` imports this package, and nothing here decides: each write is a compare-and-swap by
resourceVersion, and the rules that no writer may break are in `ports`, and once more in the schemas of `k8s/`.
"""
