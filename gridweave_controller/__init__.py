"""The controller library by the name under which it is known: `from gridweave_controller import crd`."""

from adapters.k8s import crd

__all__ = ["crd"]
