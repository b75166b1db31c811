"""What a person who starts a gateway on a terminal is told: where it is, what it is wired to, what takes time, what to type next, and
at its end how long that may take."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from core.inventory import Fleet
from ports.errors import Unavailable
from ports.nodes import NodeState
from runtimes.demo_fleet import demo_nodes
from runtimes.http.services import Services
from runtimes.settings import Scheduler, Settings

LOOK_EVERY_S = 0.5
PATIENCE = 10


def _print(line: str) -> None:
    print(line, flush=True)


class Welcome:
    """Made before the workers are forked; one of them says when the fleet is ready. url: of this gateway. patience: looks
    from the first ready node on until the others are waited for no longer."""

    def __init__(self, settings: Settings, url: str, folder: Path, say: Callable[[str], None] = _print, patience: int = PATIENCE) -> None:
        self._settings, self._url, self._folder = settings, url, folder
        self._say, self._patience = say, patience
        self._expected = len(demo_nodes(settings.demo_fleet)) if settings.demo else 1
        self._first = multiprocessing.get_context("fork").Semaphore(1)
        self._first_to_stop = multiprocessing.get_context("fork").Semaphore(1)

    def begin(self) -> None:
        self._say(f"  state folder: {self._folder}")
        self._say(f"  {wiring(self._settings)}")
        if self._settings.scheduler is Scheduler.EXTERNAL:
            self._say("  waiting for a scheduler and its nodes; it is started by: python -m runtimes.batch schedule")
        elif not self._settings.demo:
            self._say(f"  connecting to Ray at {self._settings.ray_head_address}")
        elif (self._folder / "ray").exists():
            self._say("  starting a local Ray (about 10 s)")
        else:
            self._say("  making the nodes' Python environment and starting a local Ray (the first time about half a minute)")

    def joined(self, services: Services) -> Services:
        """The same services; when they have started, a thread waits beside them for the fleet."""

        def start() -> None:
            services.on_start()
            if self._first.acquire(block=False):
                threading.Thread(target=self._wait, args=(services,), name="welcome", daemon=True).start()

        return evolve(services, on_start=start)

    def parting(self, stop: Callable[[], None]) -> Callable[[], None]:
        """The same stop; the first process that is asked to says so."""

        def said() -> None:
            if self._first_to_stop.acquire(block=False):
                grace = self._settings.shutdown_grace_seconds
                self._say(f"  stopping: no new work is taken; open requests have up to {grace} s to end, at Ctrl-C none")
            stop()

        return said

    def ready(self, fleet: Fleet) -> str:
        """The last line."""
        nodes = [node for node in fleet.nodes if node.record.status.state is NodeState.READY]
        gpus = sum(len(node.gpus) for node in nodes)
        return f"  ready: {_count(gpus, 'GPU')} on {_count(len(nodes), 'node')}; try: GRIDWEAVE_URL={self._url} gridweave gpus"

    def _wait(self, services: Services) -> None:
        looks, pause = 0, threading.Event()
        while not services.stopping.is_set():
            try:
                fleet = services.watch.fleet() if not services.reasons() else None
            except Unavailable:
                fleet = None
            if fleet is not None:
                looks += 1
                here = sum(node.record.status.state is NodeState.READY for node in fleet.nodes)
                if here >= self._expected or looks > self._patience:
                    self._say(self.ready(fleet))
                    return
            pause.wait(LOOK_EVERY_S)


def wiring(settings: Settings) -> str:
    """Which adapters serve, without addresses that may hold a secret."""
    ray = "local" if settings.demo else settings.ray_head_address
    parts = {
        "store": settings.store.value,
        "blobs": settings.blobs.value,
        "Ray": "the scheduler's" if settings.scheduler is Scheduler.EXTERNAL else ray,
        "credits": f"on ({settings.credits.value})" if settings.credits_enabled else "off",
    }
    return ", ".join(f"{name}: {value}" for name, value in parts.items())


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
