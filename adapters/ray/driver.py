"""The child process that alone imports ray. Commanded by lines of JSON; it may hang or die, and nobody minds.

The first line in is {"address","namespace","package"}; the first line out is {"id":0,...}. Then requests
{"id","op",...} are answered in any order by {"id","value"} or {"id","error"}. The end of its input is its end.
What ray prints goes to stderr: stdout belongs to the answers.
"""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_THREADS = 16  # requests at once; more wait in line
_PR_SET_PDEATHSIG = 1
_LOOK_S = 2.0  # one look at an agent; a call to one whose node is dead is not answered at all
_PAUSE_S = 0.1  # between two looks


class Driver:
    """A connection to the cluster. Its methods are the operations, their arguments come from the request."""

    def __init__(self, address: str, namespace: str, package: str) -> None:
        import ray
        import ray.cloudpickle
        import ray.util

        from adapters.ray import stub

        self._ray, self._namespace = ray, namespace
        self._package = base64.b64decode(package)
        with tempfile.TemporaryDirectory() as nowhere:  # a driver's working folder enters the workers' sys.path
            os.chdir(nowhere)
            sys.argv[:] = [os.path.join(nowhere, "driver")]  # and so does its script's
            ray.init(address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
            os.chdir("/")
        ray.cloudpickle.register_pickle_by_value(stub)  # type: ignore[no-untyped-call]
        self._stub = ray.remote(stub.AgentStub)

    def ping(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        """Every raylet that the cluster knows, also dead ones."""
        return [
            {"id": row["NodeID"], "alive": row["Alive"], "host": row["NodeManagerHostname"], "labels": row.get("Labels") or {}}
            for row in self._ray.nodes()  # type: ignore[no-untyped-call]
        ]

    def ensure_agent(self, node: str, identity: str, selector: dict[str, str], config: dict[str, Any], within_s: float) -> dict[str, Any]:
        """Where the agent of that identity listens; started if there is none, and any other of that node is ended."""
        deadline = time.monotonic() + within_s
        name = f"agent/{node}/{identity}"
        for other in self._ray.util.list_named_actors():
            if other.startswith(f"agent/{node}/") and other != name:
                self._ray.kill(self._ray.get_actor(other), no_restart=True)
        while True:
            if not any(row["alive"] and selector.items() <= row["labels"].items() for row in self.nodes()):
                raise LookupError(f"no live node has the label {selector}")
            try:
                return self._described(self._found(name) or self._started(name, selector, config))
            except (self._ray.exceptions.ActorUnavailableError, self._ray.exceptions.GetTimeoutError):
                if time.monotonic() >= deadline:  # until then Ray may be bringing it back
                    raise
                time.sleep(_PAUSE_S)

    def _found(self, name: str) -> Any:
        try:
            return self._ray.get_actor(name, namespace=self._namespace)
        except ValueError:
            return None

    def _started(self, name: str, selector: dict[str, str], config: dict[str, Any]) -> Any:
        options = {
            "name": name,
            "namespace": self._namespace,
            "lifetime": "detached",
            "max_restarts": -1,
            "max_task_retries": 0,
            "num_cpus": 0,
            "num_gpus": 0,
            "label_selector": selector,
        }
        return self._stub.options(**options).remote(self._package, json.dumps(config).encode())

    def _described(self, actor: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._ray.get(actor.describe.remote(), timeout=_LOOK_S))
        return answer


class Answers:
    """The other end of our stdout, which is taken away from everything else in this process."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, request: int, **answer: Any) -> None:
        with self._lock:
            print(json.dumps({"id": request, **answer}), file=self._out, flush=True)

    def of(self, request: int, ask: Callable[[], Any]) -> bool:
        """Answer with what `ask` gives or raises; whether it gave something."""
        try:
            self.send(request, value=ask())
        except Exception as error:
            self.send(request, error=f"{type(error).__name__}: {_last_line(error)}")
            return False
        return True


def _last_line(error: Exception) -> str:
    """Of a remote error's text, which holds a whole traceback: the line that says what was wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


def serve() -> None:
    """Connect, then answer until the input ends. Never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers, pool = Answers(), ThreadPoolExecutor(_THREADS)
    made: list[Driver] = []

    def connect(settings: dict[str, Any]) -> None:
        def driver() -> bool:
            made.append(Driver(**settings))
            return True

        if not answers.of(0, driver):
            os._exit(1)

    def answer(request: int, op: str, arguments: dict[str, Any]) -> None:
        connected.result()
        answers.of(request, lambda: getattr(made[0], op)(**arguments))

    connected = pool.submit(connect, json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        message = json.loads(line)
        pool.submit(answer, message.pop("id"), message.pop("op"), message)
    os._exit(0)  # not by `ray.shutdown`: a head that hangs would keep us


if __name__ == "__main__":
    serve()
