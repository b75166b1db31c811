"""Two directions of mistrust: what a user sent is unpickled by his own process alone, and that process finds no secret of ours."""

from __future__ import annotations

import fnmatch
import os
import pickle
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
from gridweave.jobs import Job

from adapters.ray.tokens import command_token, tail_token
from tests import sinks
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN, RUN_VARIABLE
from tests.e2e.gateways import ROOT
from tests.e2e.rig import NODES, Rig, User
from tests.e2e.secrecy import canaries
from tests.e2e.submits import body, inline

# What a canary does where it is unpickled: it writes down which process that is.
_SINGS = "import os\nwith open({path!r}, 'a') as file: file.write(os.readlink('/proc/self/ns/pid') + ' ' + str(os.getpid()) + '\\n')"


class Canary:
    """Sings when it is unpickled; it becomes `value`."""

    def __init__(self, path: Path, value: str = "None") -> None:
        self.code = f"(lambda: [exec({_SINGS.format(path=str(path))!r}), {value}])()[1]"

    def __reduce__(self) -> Any:
        return eval, (self.code,)


def sung(path: Path) -> list[str]:
    """Where it sang: PID namespace and pid."""
    return path.read_text().splitlines() if path.exists() else []


def ours() -> set[str]:
    """Every process of this machine, as canaries would name it: gateway, scheduler, Ray, agents and all that serve them."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(f"{os.readlink(f'/proc/{pid}/ns/pid')} {pid}")
        except OSError:
            continue
    return found


def submit(user: User, **said: Any) -> Job:
    answer = user.direct.post("/v1/jobs/submit", json=body(**said))
    assert 202 == answer.status_code, answer.text
    return Job(answer.json()["id"], user.client)


@pytest.mark.parametrize("part", ["function", "args"])
def test_what_a_user_sends_is_unpickled_in_his_own_process_only(rig: Rig, tmp_path: Path, part: str) -> None:
    """Whoever unpickles runs what the sender likes."""
    path, user = tmp_path / "canary", rig.user()
    tmp_path.chmod(0o777)
    before = ours()
    value = "(lambda: 'sung')" if part == "function" else "((), {})"
    job = submit(user, **{part: pickle.dumps(Canary(path, value)), **({} if part == "function" else {"function": lambda: "sung"})})
    assert "sung" == job.result(timeout=60)
    assert 1 == len(sung(path))
    assert not set(sung(path)) & (before | ours())


@pytest.mark.parametrize("way", ["returned", "raised", "printed", "as an environment value"])
def test_what_comes_back_is_never_unpickled_on_its_way(rig: Rig, tmp_path: Path, way: str) -> None:
    """The user's code chooses these bytes, and the gateway, scheduler and agent carry them."""
    path, user = tmp_path / "canary", rig.user()
    canary = pickle.dumps(Canary(path), protocol=0)

    def sends(way: str, canary: bytes) -> Any:
        import sys

        class Payload:
            def __reduce__(self) -> Any:
                import pickle

                return pickle.loads, (canary,)

        class PayloadError(Exception):
            def __reduce__(self) -> Any:
                import pickle

                return pickle.loads, (canary,)

        if way == "returned":
            return Payload()
        if way == "raised":
            raise PayloadError("unpickle me")
        sys.stdout.buffer.write(canary)
        return None

    text = canary.decode("ascii")
    env = {"env_vars": {"CANARY": text}} if way == "as an environment value" else {}
    args = cloudpickle.dumps(((way, canary), {}))
    job = submit(user, function=sends, args=args, env=env)
    status = user.ended(job)
    assert ("Failed" if way == "raised" else "Completed") == status["phase"]
    raw = user.direct.get(f"/v1/jobs/{job.id}/result")
    assert 200 == raw.status_code
    for route in ("status", "logs", "logs?follow=true"):
        assert 200 == user.direct.get(f"/v1/jobs/{job.id}/{route}").status_code
    assert [] == sung(path)
    if way == "returned":
        pickle.loads(raw.content)  # noqa: S301 - that is what a canary is for
        assert 1 == len(sung(path)), "the canary can sing"


def test_broken_pickles_fail_the_job_and_nothing_else(rig: Rig) -> None:
    """They come from broken clients every day."""
    user = rig.user()
    for part in ("function", "args"):
        job = submit(user, **{part: b"\x80\x05 this is no pickle"})
        status = user.ended(job)
        assert ("Failed", "Raised") == (status["phase"], status["exit"]["kind"])
        assert "UnpicklingError" in status["exit"]["message"]
    job = submit(user, code=inline(b"this is no zip"))
    status = user.ended(job)
    assert ("Failed", "SetupFailed") == (status["phase"], status["exit"]["kind"])
    assert "code" in status["exit"]["message"]


def test_user_code_finds_no_secret_and_no_module_of_ours(rig: Rig) -> None:
    """With one of them it could act as the platform, or as another user."""

    def look() -> dict[str, Any]:
        import importlib
        import os
        import sys

        found = []
        for name in ("core", "ports", "adapters", "runtimes", "gridweave_agent", "gridweave"):
            try:
                importlib.import_module(name)
                found.append(name)
            except ImportError:
                continue
        seen = [dict(os.environ), sys.argv, sys.path, sorted(os.listdir("."))]
        files = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for part in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{pid}/{part}", "rb") as file:
                        files.append(file.read().decode(errors="replace"))
                except OSError:
                    continue
        descriptors = {}
        for fd in os.listdir("/proc/self/fd"):
            try:
                descriptors[fd] = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
        return {"modules": found, "seen": repr(seen), "files": files, "environ": dict(os.environ), "path": sys.path, "fds": descriptors}

    user = rig.user()
    own = {"env_vars": {RUN_VARIABLE: "what a run is given is its user's, and this one gives it back"}}
    found = user.spawn(look, owner="org", env=own).result(timeout=60)
    secret = (rig.gateway.state / "secret").read_bytes()
    secrets = [PLATFORM_TOKEN, ADMIN_TOKEN, secret.decode()]
    secrets += [make(secret, node) for node in NODES for make in (command_token, tail_token)]
    everything = repr(found)
    assert [] == [each for each in secrets if each in everything]
    assert [] == found["modules"]
    assert [] == [name for name in found["environ"] if name.startswith(("RAY_", "S3_", "PLATFORM", "ADMIN", "GRIDWEAVE_TEST"))]
    assert [] == [each for each in found["path"] if each.startswith(str(ROOT))]


def test_secrets_are_in_no_log_of_the_gateway(rig: Rig) -> None:
    """Logs are read by more people than secrets."""
    user = rig.user()
    user.ended(user.spawn(lambda: None, env={"env_vars": {"PASSWORD": "correct-horse-battery"}}))
    log = rig.gateway.log
    secret = (rig.gateway.state / "secret").read_text()
    hidden = [PLATFORM_TOKEN, ADMIN_TOKEN, secret, "correct-horse-battery", command_token(secret.encode(), "org-big")]
    assert [] == [each for each in hidden if each in log]


def test_the_search_at_the_end_finds_what_is_rightly_there(rig: Rig) -> None:
    """A search that would find nothing anywhere would look just as well."""
    known = canaries(rig.gateway.state, NODES)
    with rig.witness():
        found = known.search(sinks.files(rig.gateway.state, "state"), allowed=()).found
    places = {
        "the house's secret in state/secret",
        "a variable of a run in state/gridweave.db*",
        "a variable of a run in state/agents/*/runs/*/prepare.json",
        "a grant in state/agents/*/runs/*/prepare.json",
    }
    assert [] == [place for place in places if not fnmatch.filter(found, place)]
