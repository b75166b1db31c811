"""The grammar of a node's labels, and of a demo fleet, which says the same of nodes that don't exist.

gridweave.io/node=<name>   gridweave.io/owner=org|provider.<id>   gridweave.io/gpus=4xA100-80GB_2xL4-24GB
gridweave.io/demo=true     this raylet carries every virtual node of the demo fleet
2x4xA100-80GB:org,1x2xL4-24GB:provider:acme     two nodes of four GPUs, and one of two that is acme's
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ports.cluster import ClusterNode
from ports.errors import Invalid
from ports.nodes import ORG, Gpu
from ports.units import MIB_PER_GB, Mib

NODE = "gridweave.io/node"
OWNER = "gridweave.io/owner"
GPUS = "gridweave.io/gpus"
DEMO = "gridweave.io/demo"
RAY_NODE_ID = "ray.io/node-id"

MAX_GPUS = 64  # of one node
MAX_NODES = 100  # of a demo fleet: each is a process
_GROUP = re.compile(r"([0-9]{1,3})x([A-Za-z0-9][A-Za-z0-9.-]{0,40}?-([0-9]{1,5})GB)", re.ASCII)
_PROVIDER = re.compile(r"provider[.:]([A-Za-z0-9](?:[A-Za-z0-9_.@-]{0,61}[A-Za-z0-9])?)", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_FAMILIES = (
    ("nvidia", re.compile(r"(?:[ABHLPTV][0-9]{1,4}[A-Z]?|G[BH][0-9]{3}|RTX.*|GTX.*|Tesla.*|Quadro.*|TITAN.*)", re.ASCII | re.IGNORECASE)),
    ("amd", re.compile(r"(?:MI[0-9]{2,3}[A-Z]?|RX.*|Radeon.*)", re.ASCII | re.IGNORECASE)),
    ("intel", re.compile(r"(?:Max.*|Flex.*|Arc.*|PVC|Gaudi.*)", re.ASCII | re.IGNORECASE)),
)


def parse_gpus(text: str, name: str = GPUS) -> tuple[Gpu, ...]:
    """Imaginary GPUs from "4xA100-80GB_2xL4-24GB", counted from 0. Raises Invalid."""
    found: list[Gpu] = []
    for group in text.split("_"):
        match = _GROUP.fullmatch(group)
        if match is None or int(match[1]) == 0 or int(match[3]) == 0:
            raise Invalid(f"{name} is not a list of GPUs: {group!r:.60}.", name, "Write <count>x<MODEL>-<n>GB, as in 4xA100-80GB.", text)
        total = Mib(int(match[3]) * MIB_PER_GB)
        found += [Gpu(len(found) + n, match[2], vendor_of(match[2]), total) for n in range(int(match[1]))]
    if len(found) > MAX_GPUS:
        raise Invalid(f"{name} names {len(found)} GPUs.", name, f"A node has at most {MAX_GPUS}.", text)
    return tuple(found)


def vendor_of(model: str) -> str:
    """The maker of a model ("A100-80GB"): nvidia, amd, intel; "unknown" for a family that is none of theirs."""
    family = model.split("-")[0]
    return next((vendor for vendor, pattern in _FAMILIES if pattern.fullmatch(family)), "unknown")


def parse_owner(text: str, name: str = OWNER) -> str:
    """ "org" or "provider:<id>" from a label (`provider.<id>`: a label can't hold a colon) or a fleet. Raises Invalid."""
    if text == ORG:
        return ORG
    match = _PROVIDER.fullmatch(text)
    if match is None:
        raise Invalid(f"{name} is not an owner: {text!r:.60}.", name, "Write org or provider.<user id>.", text)
    return f"provider:{match[1]}"


def described(labels: Mapping[str, str], host: str, alive: bool) -> ClusterNode:
    """The node that a raylet's labels describe. What can't be read is told in `problem`."""
    problems: list[str] = []
    name, owner, gpus = labels.get(NODE, host.lower()), "", None
    if not _NAME.fullmatch(name):
        problems.append(f"{NODE} is not a name: {name!r:.60}. Write lower-case letters, digits, dots and dashes, at most 63.")
    try:
        owner = parse_owner(labels[OWNER]) if OWNER in labels else ""
    except Invalid as error:
        problems.append(str(error))
    try:
        gpus = parse_gpus(labels[GPUS]) if GPUS in labels else None
    except Invalid as error:
        problems.append(str(error))
    return ClusterNode(name, alive, owner, gpus, dict(labels), " ".join(problems))


def demo_fleet(text: str, name: str = "demo-fleet") -> tuple[ClusterNode, ...]:
    """Virtual nodes from "2x4xA100-80GB:org,1x2xL4-24GB:provider:acme", named after their owners. Raises Invalid."""
    fleet: list[ClusterNode] = []
    named: Counter[str] = Counter()
    for part in text.split(","):
        times, cross, rest = part.strip().partition("x")
        gpus_text, colon, owner_text = rest.partition(":")
        if not cross or not colon or not re.fullmatch(r"[1-9][0-9]{0,2}", times, re.ASCII):
            remedy = "Write <nodes>x<GPUs>x<MODEL>:<owner>, as in 2x4xA100-80GB:org."
            raise Invalid(f"{name} is not a fleet: {part!r:.60}.", name, remedy, text)
        gpus, owner = parse_gpus(gpus_text, name), parse_owner(owner_text, name)
        stem = re.sub(r"[^a-z0-9]+", "-", owner.removeprefix("provider:").lower()).strip("-")
        for _ in range(int(times)):
            named[stem] += 1
            fleet.append(ClusterNode(f"{stem}-{named[stem]}", True, owner, gpus, {DEMO: "true"}))
    if len(fleet) > MAX_NODES:
        raise Invalid(f"{name} has {len(fleet)} nodes.", name, f"It may have at most {MAX_NODES}: each is a process.", text)
    return tuple(fleet)
