"""What a key of a blob may look like, in every store. Only such names become paths or objects, so no key leaves its folder or bucket."""

from __future__ import annotations

import base64
import hashlib
import re

from ports.errors import Invalid

_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]{1,200}"
_KEY = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}")
_PLAIN = re.compile(r"(?!x-)[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
LONGEST = 1000
_REMEDY = "Give 1 to 16 segments of A-Z a-z 0-9 . _ - (not . or ..), at most 200 characters each, parted by single slashes."


def is_key(text: str) -> bool:
    return len(text) <= LONGEST and _KEY.fullmatch(text) is not None


def checked_key(text: str) -> str:
    """Raises Invalid."""
    if not is_key(text):
        raise Invalid(f"{text!r:.80} is no key of a blob.", "key", _REMEDY, text)
    return text


def checked_prefix(prefix: str) -> str:
    """What may be listed by: text after a folder, if there is one. Raises Invalid."""
    folder, slash, _ = prefix.rpartition("/")
    if slash:
        checked_key(folder)
    return prefix


def checked_folder(prefix: str) -> str:
    """A prefix that ends in a slash: all keys of one folder. Raises Invalid."""
    if not prefix.endswith("/") or not is_key(prefix[:-1]):
        raise Invalid(f"{prefix!r:.80} is no folder of blobs.", "prefix", f"End it in a slash. {_REMEDY}", prefix)
    return prefix


def segment(text: str) -> str:
    """Any text as one segment of a blob's key: itself where it can be, else its hash. No two texts share one."""
    if _PLAIN.fullmatch(text) is not None:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return f"x-{base64.b32encode(digest).decode().lower().rstrip('=')}"
