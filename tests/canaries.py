"""Canaries: the secrets with which every process of the suites runs, all recognisable, and the search for them in what is left.

A rig looks into all of its sinks when it ends: what was written, stored, answered. A secret is looked for as it is, in base64 at any
offset and in hex, also across the borders of blocks; a beginning of one is a find, too. What is found is told by its name, never
by its value. Where a secret may be is a list, with the reason for each place (`ALLOWED`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from attrs import field, frozen

MARK = "-".join(("canary", "b7e41f", ""))  # in no source file as a whole: these travel as the code of jobs
ADMIN_TOKEN = f"{MARK}admin-token"
PLATFORM_TOKEN = f"{MARK}platform-token"
CONTROL_TOKEN = f"{MARK}control-token"
S3_SECRET = f"{MARK}secret-key-of-the-bucket"
POD_TOKEN = f"{MARK}token-of-a-pod"
API_KEY = f"{MARK}key-of-the-platform"
RUN_SECRET = f"{MARK}environment-of-a-run"
WRONG_TOKEN = f"{MARK}token-of-a-stranger"
RUN_VARIABLE = "SECRET_OF_THE_TESTS"  # in the environment of every run

_NAMED = {
    "ADMIN_TOKEN": ADMIN_TOKEN,
    "PLATFORM_TOKEN": PLATFORM_TOKEN,
    "the control service's token": CONTROL_TOKEN,
    "S3_SECRET_KEY": S3_SECRET,
    "a pod's token": POD_TOKEN,
    "a user's API key": API_KEY,
    "a variable of a run": RUN_SECRET,
    "a token that was refused": WRONG_TOKEN,
}
_PART = "a part of a secret"
_GRANT = "a grant"
_SIGNED = re.compile(rb"(?i)sig(?:nature)?(?:=|%3d|\"\s*:\s*\")[0-9a-f]{64}(?![0-9a-f])")
_SIGNS = (b"sig=", b"sig%3", b"ignature")  # far quicker to look for than what they begin
OVERLAP = 4096  # bytes of a block that are looked at again with the next: no secret is longer
Sink = tuple[str, Iterable[bytes]]


@frozen
class Allowed:
    """sink, canary: patterns of their names. why: what makes it right that the secret is there."""

    sink: str
    canary: str
    why: str


_OF_RUN = "a variable of a run"
ALLOWED = (
    Allowed("*state/secret", "the house's secret", "the file that keeps it, readable by its owner alone"),
    Allowed("*state/gridweave.db*", _OF_RUN, "the spec of a job, from which its run gets its environment"),
    Allowed("kubernetes/gridweavejobs/*/spec", _OF_RUN, "likewise; whoever may read these objects acts as the scheduler"),
    Allowed("*agents/*/runs/*/prepare.json", _OF_RUN, "the command to a node, kept until the run is forgotten; mode 0600"),
    Allowed("*agents/*/runs/*/launch.json", _OF_RUN, "what the supervisor starts the run with; mode 0600"),
    Allowed("*agents/*/runs/*/prepare.json", _GRANT, "an agent's own permission for one run, on its own node; it ends by itself"),
)


def forms(value: str) -> Iterator[bytes]:
    """How it may be written down: as it is, within base64 at each offset, in hex."""
    data = value.encode()
    yield data
    yield data.hex().encode()
    for offset in range(3):
        first = -(-offset * 8 // 6)  # characters that also hold bits of what stands before
        last = (offset + len(data)) * 8 // 6
        yield base64.b64encode(b"\0" * offset + data)[first:last]


@frozen
class Canaries:
    """more: secrets that were made while a rig ran (tokens, keys), by name."""

    more: Mapping[str, str] = field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        short = [name for name, value in self.more.items() if len(value) < 16]
        assert not short, f"too short to be told from chance: {short}"

    def within(self, block: bytes) -> set[str]:
        """Names of those that are in it."""
        found = {name for name, value in self.more.items() if any(form in block for form in forms(value))}
        if any(form in block for form in forms(MARK)):
            found |= {name for name, value in _NAMED.items() if any(form in block for form in forms(value))} or {_PART}
        if any(sign in block for sign in _SIGNS) and _SIGNED.search(block):
            found.add(_GRANT)
        return found

    def search(self, sinks: Iterable[Sink], allowed: Iterable[Allowed] = ALLOWED) -> Searched:
        """Look into each of them once."""
        rules, found, seen, size = tuple(allowed), list[str](), list[str](), 0
        for name, blocks in sinks:
            seen.append(name)
            kept, names = b"", self.within(name.encode("utf-8", "surrogateescape"))
            for block in blocks:
                size += len(block)
                names |= self.within(kept + block)
                kept = (kept + block)[-OVERLAP:]
            right = {each for each in names for rule in rules if fnmatchcase(name, rule.sink) and fnmatchcase(each, rule.canary)}
            found += [f"{each} in {name}" for each in sorted(names - right)]
        return Searched(tuple(found), tuple(seen), size)


@frozen
class Searched:
    """found: what is where. seen: names of the sinks. size: bytes that were looked at."""

    found: tuple[str, ...]
    seen: tuple[str, ...]
    size: int

    def check(self, *wanted: str) -> None:
        """Raises AssertionError if anything was found, or nothing was looked at whose name is like each of `wanted`."""
        assert not self.found, "secrets are where they must not be:\n" + "\n".join(self.found)
        missed = [pattern for pattern in wanted if not any(fnmatchcase(name, pattern) for name in self.seen)]
        assert not missed, f"the search for secrets did not see {missed}"
