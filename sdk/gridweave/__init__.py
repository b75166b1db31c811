"""Gridweave: run a Python function on exact GPUs of a shared cluster, as if it ran here.

    import gridweave as gw

    @gw.function(vram="8GB")
    def square(x):
        return x * x

    if __name__ == "__main__":
        square.remote(7)

Importing this package needs the standard library only, and it imports what talks to the gateway when that is first used:
the part that defines decorated functions travels with modules that import it, and a node has neither httpx nor rich.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Any

from gridweave.errors import Cancelled, GridweaveError, JobFailed, NotFound, Refused, RemoteError, Unavailable
from gridweave.functions import Function, function, run
from gridweave.version import __version__

if TYPE_CHECKING:
    from gridweave.client import Client
    from gridweave.defaults import use
    from gridweave.jobs import Job

__all__ = [
    "Cancelled",
    "Client",
    "Function",
    "GridweaveError",
    "Job",
    "JobFailed",
    "NotFound",
    "Refused",
    "RemoteError",
    "Unavailable",
    "__version__",
    "function",
    "run",
    "use",
]

__path__ = pkgutil.extend_path(__path__, __name__)  # on a node: the rest, if the job's own environment has it
_LATER = {"Client": "gridweave.client", "Job": "gridweave.jobs", "use": "gridweave.defaults"}


def __dir__() -> list[str]:
    """What is offered here, also what is imported later."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import what needs more than the standard library on first use."""
    if name not in _LATER:
        raise AttributeError(f"module 'gridweave' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
