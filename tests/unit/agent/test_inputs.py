"""What a run still has to fetch comes by the newest grants: whoever served the older ones may be gone."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gridweave_agent.client import AgentStaleEpoch

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


def nowhere() -> str:
    """The address of a server that has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def stranded(node: Node, mark: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The prepare command of a run whose inputs can't be fetched, once the agent says so; and grants by which they could be."""
    path = str(mark)

    def work() -> str:
        with open(path, "a") as marks:
            marks.write("once\n")
        return "done"

    command = node.prepared(work)
    good: dict[str, Any] = command["inputs"]
    gone = nowhere()
    command["inputs"] = {name: {**grant, "url": f"{gone}/in/{grant['sha256']}"} for name, grant in good.items()}
    assert node.client.commands(node.epoch, [command])[0]["ok"]
    report = node.until(command["run"], lambda report: report["fetch_error"])
    assert "preparing" == report["state"]
    assert "can't be reached" in report["fetch_error"]
    assert gone not in report["fetch_error"]
    return command, good


def test_a_fetch_goes_on_with_the_grants_of_a_successor(fresh: Node, tmp_path: Path) -> None:
    """The gateway that served the inputs died; the one that took over has another address."""
    command, good = stranded(fresh, mark := tmp_path / "mark")
    run = command["run"]
    fresh.client.hello(fresh.epoch + 1)
    fresh.epoch += 1
    assert fresh.ask("grant", run, output=command["output"], inputs=good)["ok"]
    assert "" == fresh.until(run, lambda report: report["state"] == "ready")["fetch_error"]
    assert fresh.client.commands(fresh.epoch, [{**command, "inputs": good}])[0]["ok"], "it is known"
    assert fresh.ask("go", run)["ok"]
    assert "done" == fresh.result(run)
    assert "once\n" == mark.read_text()


def test_a_renewal_of_a_term_that_is_over_changes_nothing(fresh: Node, tmp_path: Path) -> None:
    """A paused gateway that wakes up would send the run to where nobody serves it."""
    command, good = stranded(fresh, tmp_path / "mark")
    run, stale = command["run"], fresh.epoch
    fresh.client.hello(stale + 1)
    with pytest.raises(AgentStaleEpoch):
        fresh.ask("grant", run, output=command["output"], inputs=good)
    fresh.epoch += 1
    assert "preparing" == fresh.report(run)["state"]
    assert fresh.ask("grant", run, output=command["output"], inputs=good)["ok"]
    with pytest.raises(AgentStaleEpoch):
        fresh.client.commands(stale, [{"kind": "grant", "run": run, "output": command["output"], "inputs": command["inputs"]}])
    assert "ready" == fresh.until(run, lambda report: report["state"] in ("ready", "gone"))["state"]


def test_an_agent_that_is_started_anew_knows_the_newest_grants(fresh: Node, tmp_path: Path) -> None:
    """Both the gateway and the agent may die while a run is set up."""
    command, good = stranded(fresh, tmp_path / "mark")
    fresh.end()
    fresh.start()
    fresh.until(command["run"], lambda report: report["fetch_error"])
    fresh.ask("grant", command["run"], output=command["output"], inputs=good)
    fresh.restart()
    assert "ready" == fresh.until(command["run"], lambda report: report["state"] in ("ready", "gone"))["state"]


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"size": 7}])
def test_a_grant_for_another_object_is_refused(fresh: Node, tmp_path: Path, change: dict[str, Any]) -> None:
    """A renewal gives another way to the same bytes, and never other bytes."""
    command, good = stranded(fresh, tmp_path / "mark")
    answer = fresh.ask("grant", command["run"], output=command["output"], inputs={"args": {**good["args"], **change}})
    assert (False, "inputs.args: a grant for another object than the run was prepared with") == (answer["ok"], answer["error"])
    answer = fresh.ask("grant", command["run"], output=command["output"], inputs={"extra": good["args"]})
    assert not answer["ok"]


def test_a_renewal_without_inputs_leaves_them_as_they_are(fresh: Node, tmp_path: Path) -> None:
    """A scheduler of an older release renews the permission to upload only."""
    command, good = stranded(fresh, tmp_path / "mark")
    assert fresh.ask("grant", command["run"], output=command["output"])["ok"]
    assert fresh.report(command["run"])["fetch_error"]
    assert fresh.ask("grant", command["run"], output=command["output"], inputs=good)["ok"]
    assert "ready" == fresh.until(command["run"], lambda report: report["state"] in ("ready", "gone"))["state"]
