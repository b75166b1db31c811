"""The search for secrets when a house ends: once while it still stands, in all that it says and that its nodes keep meanwhile,
and once in what it has left when every process is gone."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path

from adapters.ray.tokens import command_token, tail_token
from tests import sinks
from tests.canaries import Canaries, Sink
from tests.e2e.gateways import Gateway

OF_RAY = ("ray/*/logs/gcs_server*", "ray/*/logs/raylet*", "ray/*/logs/worker*")


def canaries(state: Path, nodes: Collection[str] = (), **more: str) -> Canaries:
    """With the secret that a gateway has made in its state folder, and the tokens of agents that follow from it."""
    secret = (state / "secret").read_bytes()
    known = {"the house's secret": secret.decode(), **more}
    for node in nodes:
        known |= {f"the command token of {node}": command_token(secret, node), f"the tail token of {node}": tail_token(secret, node)}
    return Canaries(known)


def check_standing(gateway: Gateway, known: Canaries, ray: Path | None = None, *more: Iterable[Sink]) -> None:
    """All that a running gateway says, and its state folder as it lies there meanwhile. ray: the home of its local Ray, whose logs
    are looked at, too. more: what else there is to look at."""
    wanted = ["http/metrics for nobody", "http/openapi.json", "http/nowhere for stranger", "bundle!settings.json", "state/gateway.log"]
    parts = [
        sinks.answers(gateway.url, gateway.settings.get("ADMIN_TOKEN", "")),
        sinks.bundle(gateway.state, gateway.settings, gateway.arguments),
    ]
    parts.append(sinks.files(gateway.state, "state"))
    if ray is not None:
        parts.append(sinks.files(Path(json.loads((ray / "ray.json").read_text())["temp"]), "ray"))
        wanted += [*OF_RAY, "state/*agents/*/epoch.json"]
    known.search(chain(*parts, *more)).check(*wanted)


def check_left(home: Path, known: Canaries, seen: Collection[bytes] = (), *wanted: str) -> None:
    """All files below `home`, and the errors that its platform has passed on. wanted: names of what must be among them."""
    known.search([*sinks.errors(seen), *sinks.files(home, "home")]).check(*wanted)
