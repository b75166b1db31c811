"""Bytes by key, and grants: narrow, short-lived permissions that travel to an agent instead of a secret.

Layout (schema 1): `uploads/<user hash>/<sha256>` waits for a submit;
`jobs/<id>/inputs-<uid>.function|args|code|working_dir` are inputs; `jobs/<id>/<attempt>/result`,
`.../logs/<rank>/<n>` are outputs; `jobs/<id>/manifest.json` names the attempt that counts. `endpoints/<id>/logs/<n>` is where
the log of a served model has its place; nothing writes there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from attrs import field, frozen

from ports.blob_keys import segment
from ports.units import Instant

INPUTS = ("function", "args", "code", "working_dir")
_INPUT = "inputs-"  # begins the names of a job's inputs


def job_prefix(job_id: str) -> str:
    """An id that could be no folder is hashed, so that none reaches into another's."""
    return f"jobs/{segment(job_id)}/"


def input_key(job_id: str, uid: str, name: str) -> str:
    """Of that object alone: a key whose job was refused may make another of the same id, and what clears up after the
    first one may come late. In no folder of their own: where blobs are files, to make one costs as much as the rest of a submit."""
    return f"{job_prefix(job_id)}{_INPUT}{segment(uid)}.{name}"


def is_input(name: str) -> bool:
    """Whether that is the last segment of an input's key."""
    return name.startswith(_INPUT) and name.rpartition(".")[2] in INPUTS


def run_prefix(job_id: str, attempt: int) -> str:
    return f"{job_prefix(job_id)}{attempt}/"


def log_key(job_id: str, attempt: int, rank: int, n: int) -> str:
    """Chunks count from 0; nine digits, so that they sort as they count."""
    return f"{run_prefix(job_id, attempt)}logs/{rank}/{n:09d}"


def endpoint_log_key(endpoint_id: str, n: int) -> str:
    """A chunk of an endpoint's log, which goes on over its restarts: they count from 0, and never anew."""
    return f"endpoints/{segment(endpoint_id)}/logs/{n:09d}"


@frozen
class BlobInfo:
    """size: bytes. sha256: hex, "" where the store does not keep it. modified: for retention."""

    key: str
    size: int
    modified: Instant
    sha256: str = ""


@frozen
class Grant:
    """A permission that works without any other credential.

    method: "GET" (url names the object), "PUT" (the object's name below the granted prefix is appended to url
    where it says `{name}`), "POST" (form upload; `fields` go along, the key is prefix + name).
    max_size: bytes of one object. expires: after it the grant is refused.
    """

    method: str
    url: str
    prefix: str
    max_size: int
    expires: Instant
    fields: dict[str, str] = field(factory=dict)


class BlobStore(Protocol):
    """Raises Unavailable when the store does not answer. Keys are relative paths of [A-Za-z0-9._-] segments."""

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        """Store all of `data` or nothing. only_new: raises AlreadyExists if the key is taken."""
        ...

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Blocks of bytes. Raises NotFound at the call if there is no such key."""
        ...

    def join(self, keys: Iterable[str]) -> Iterator[bytes]:
        """The blobs at these keys as one stream, fetched ahead where that helps. Raises NotFound where one is missing, Invalid for
        a key that is none."""
        ...

    def stat(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """In one folder by key; what comes first of a folder and its neighbours is the store's own order."""
        ...

    def copy(self, source: str, target: str) -> BlobInfo:
        """Raises NotFound if there is no source."""
        ...

    def delete(self, key: str) -> None:
        """No error if there is none."""
        ...

    def grant_read(self, key: str, expires: Instant) -> Grant: ...

    def grant_write(self, prefix: str, max_size: int, expires: Instant) -> Grant: ...
