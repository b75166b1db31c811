"""Inline payloads become uploads of their user, so that submit finds every input in the same place."""

from __future__ import annotations

from collections.abc import Mapping

from core.callers import Caller
from core.history import recall
from core.house import House
from core.inventory import Fleet
from core.names import job_id, upload_key
from core.owners import pools
from core.quotes import check_fits
from core.submit import Submitted, check_versions, submit
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
    wanted = said.submission
    if said.inline and recall(house, job_id(caller.user, wanted.key)) is None:
        check_versions(house, fleet, wanted.python, wanted.cloudpickle)
        check_fits(fleet, wanted.ask, pools(caller.user, caller.plan, wanted.ask.owner))
    store(house, caller.user, said.inline)
    return submit(house, caller, wanted, fleet)
