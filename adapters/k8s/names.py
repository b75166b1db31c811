"""Names and labels of objects: what users type never becomes one, only its hash.

A label selector is made of hashes alone, so nothing that a user typed can change what it selects. The original is
an annotation, and in the spec.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

from adapters.k8s.client import GROUP
from ports.workloads import JobFilter

ID = f"{GROUP}/id"
USER = f"{GROUP}/user"
NAME = f"{GROUP}/name"
INITIAL = f"{GROUP}/initial-status"
WRITE = f"{GROUP}/write"
FINALIZER = f"{GROUP}/settle"
_OWN_LABEL = f"label.{GROUP}/"
_HASHED = re.compile(r"x-[a-z2-7]{26}", re.ASCII)  # of objects whose id is no name that Kubernetes would take
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(\.{_PART})*", re.ASCII)
_LONGEST = 253


def digest(text: str) -> str:
    """26 characters of [a-z2-7]: a valid label value and part of a name."""
    data = text.encode("utf-8", "surrogatepass")
    return base64.b32encode(hashlib.sha256(data).digest()).decode().lower()[:26]


def object_name(key: str) -> str:
    """The name of the object for that id: the id itself where it is one, else its hash. No two ids share a name.

    So an object that somebody made by hand, under any name that Kubernetes takes, is found by it.
    """
    if len(key) <= _LONGEST and _NAME.fullmatch(key) is not None and _HASHED.fullmatch(key) is None:
        return key
    return f"x-{digest(key)}"


def label_key(key: str) -> str:
    return _OWN_LABEL + digest(key)


def labels(user: str, name: str, own: Mapping[str, str]) -> dict[str, str]:
    """Of an object."""
    return {USER: digest(user), NAME: digest(name), **{label_key(key): digest(value) for key, value in own.items()}}


def selector(which: JobFilter) -> str:
    """The label selector that finds at least what `which` wants."""
    terms = {label_key(key): digest(value) for key, value in which.labels.items()}
    if which.user is not None:
        terms[USER] = digest(which.user)
    if which.name is not None:
        terms[NAME] = digest(which.name)
    return ",".join(f"{key}={value}" for key, value in sorted(terms.items()))
