"""The moves of a job's status: see `ports.lifecycle`, where the controller library of the Kubernetes adapter finds them too."""

from ports.lifecycle import (
    FREE,
    allocated,
    closed,
    closing,
    ended,
    in_arrears,
    nothing_to_store,
    requeued,
    running,
    setting_up,
    stored,
    verdict,
)

__all__ = [
    "FREE",
    "allocated",
    "closed",
    "closing",
    "ended",
    "in_arrears",
    "nothing_to_store",
    "requeued",
    "running",
    "setting_up",
    "stored",
    "verdict",
]
