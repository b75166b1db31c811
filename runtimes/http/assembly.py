"""A gateway process put together: the wired ports, the live copy, and in the embedded default the scheduler's host."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from functools import partial

from adapters.local.grants import GrantedWrite, open_grant, write_grant
from adapters.ray.tokens import tail_token
from core.policies import policy
from ports.errors import Unavailable
from ports.nodes import NodeState
from ports.units import Instant
from runtimes.demo_fleet import demo_nodes
from runtimes.http.services import Permit, Services
from runtimes.http.tails import AgentTails
from runtimes.http.watch import Watch
from runtimes.settings import Blobs, Scheduler, Settings
from runtimes.wiring import Wired, wire


def gateway_services(settings: Settings, url: str) -> Services:
    """Called in the process that serves, after its fork. url: under which nodes reach this gateway."""
    wired = wire(settings, url)
    host = wired.host(settings) if settings.scheduler is Scheduler.EMBEDDED else None
    trouble = (lambda: host.trouble) if host is not None else str
    watch = Watch(wired.house.workloads, wired.house.nodes, policy(wired.house.terms.placement))

    def stop() -> None:
        if host is not None:
            host.stop()
        wired.close()

    return Services(
        settings,
        wired.house,
        watch,
        AgentTails(partial(tail_token, wired.secret)),
        check_grant=partial(_permit, wired.secret),
        upload_grants=partial(write_grant, wired.secret, url.rstrip("/")),
        not_ready=partial(_not_ready, wired, watch, _demo_names(settings), trouble),
        trouble=trouble,
        versions={"ray": _installed("ray")},
        rounds=host.rounds if host is not None else tuple,
        spool=settings.state_dir.absolute() if settings.blobs is Blobs.FOLDER else None,  # the disk that is to hold it anyway
        on_start=host.start if host is not None else _nothing,
        on_stop=stop,
    )


def _nothing() -> None:
    return None


def _permit(secret: bytes, method: str, path: str, query: str, now: Instant) -> Permit:
    opened = open_grant(secret, method, path, query, now)
    return Permit(opened.key, opened.max_size if isinstance(opened, GrantedWrite) else 0)


def _demo_names(settings: Settings) -> frozenset[str]:
    return frozenset(node.name for node in demo_nodes(settings.demo_fleet)) if settings.demo else frozenset()


def _not_ready(wired: Wired, watch: Watch, expected: frozenset[str], trouble: Callable[[], str]) -> list[str]:
    """expected: nodes that are known to be on their way; an ask that only they could hold would be refused before.
    trouble: why the cluster can't be asked. It is no reason by itself: agents that are known need no cluster."""
    reasons = []
    try:
        if wired.leadership.holder() is None:
            reasons.append("No scheduler is running.")
        nodes = watch.fleet().nodes
    except Unavailable as error:
        return [str(error)]
    if not any(node.record.status.state is NodeState.READY for node in nodes):
        reasons.append("No node is ready." if nodes else "No node has joined yet.")
        reasons += [f"The cluster can't be asked: {why}." for why in (trouble(),) if why]
    elif missing := expected - {node.record.name for node in nodes if node.gpus}:
        reasons.append(f"{len(missing)} of the {len(expected)} nodes of the demo have not joined yet.")
    return reasons


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
