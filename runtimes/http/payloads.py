"""Inline payloads become uploads of their user, so that submit finds every input in the same place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from core.callers import Caller
from core.house import House
from core.inventory import Fleet
from core.names import upload_key
from core.submit import Submitted, submit
from ports.errors import AlreadyExists
from runtimes.http.bodies.jobs import Received


def store(house: House, user: str, inline: Mapping[str, bytes]) -> None:
    """Raises Unavailable. Storing the same bytes again changes nothing."""
    for digest, data in inline.items():
        key = upload_key(user, digest)
        if house.blobs.stat(key) is None:
            try:
                house.blobs.put(key, [data], only_new=True)
            except AlreadyExists:
                continue


def store_and_submit(house: House, caller: Caller, said: Received, fleet: Fleet) -> Submitted:
    """Raises what submit raises; what it would refuse at sight is refused before anything is stored."""
    return submit(house, caller, said.submission, fleet, partial(store, house, caller.user, said.inline))
