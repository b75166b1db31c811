"""The moves of a job's status: see `ports.lifecycle`, where the controller library of the Kubernetes adapter finds them too."""

from ports.lifecycle import (
    FREE,
    GIVEN_UP,
    allocated,
    cancel_asked,
    closed,
    closing,
    ended,
    in_arrears,
    nothing_to_store,
    requeued,
    result_pending,
    running,
    setting_up,
    stored,
    verdict,
    who_cancels,
)

__all__ = [
    "FREE",
    "GIVEN_UP",
    "allocated",
    "cancel_asked",
    "closed",
    "closing",
    "ended",
    "in_arrears",
    "nothing_to_store",
    "requeued",
    "result_pending",
    "running",
    "setting_up",
    "stored",
    "verdict",
    "who_cancels",
]
