"""A pickle travels between equal Pythons only: who has another one is told before anything is queued."""

from __future__ import annotations

import platform

import cloudpickle  # type: ignore[import-untyped]
import pytest

from tests.e2e.rig import Rig
from tests.e2e.submits import body

CLOUDPICKLE = cloudpickle.__version__.partition(".")[0]
MAJOR, MINOR, _ = platform.python_version_tuple()


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"python": f"{MAJOR}.{int(MINOR) + 1}.0"}, "Python"),
        ({"python": f"{MAJOR}.{int(MINOR) - 1}.9"}, "Python"),
        ({"cloudpickle": "2.2.1"}, "cloudpickle"),
        ({"cloudpickle": "4.0.0"}, "cloudpickle"),
    ],
    ids=str,
)
def test_other_versions_are_refused_at_submit_with_both_and_what_to_do(rig: Rig, client: dict[str, str], named: str) -> None:
    """The error on the node would be "unknown opcode"."""
    user = rig.user()
    said = user.direct.post("/v1/jobs/submit", json=body(client={"python": platform.python_version(), "cloudpickle": "3.1.1"} | client))
    assert 409 == said.status_code, said.text
    problem = said.json()
    assert "/problems/version-mismatch" == problem["type"]
    assert f"{named} {client[named.lower()]}" == problem["client"]
    assert problem["cluster"].startswith(f"{named} ")
    assert problem["remedy"]
    assert [] == list(user.client.jobs())


@pytest.mark.parametrize("client", [{"python": f"{MAJOR}.{MINOR}.99"}, {"cloudpickle": f"{CLOUDPICKLE}.99.0"}], ids=str)
def test_versions_that_understand_each_other_pass(rig: Rig, client: dict[str, str]) -> None:
    """Nobody upgrades for a patch release."""
    user = rig.user()
    said = user.direct.post("/v1/jobs/submit", json=body(client=body()["client"] | client))
    assert 202 == said.status_code, said.text


def test_the_clusters_versions_are_told(rig: Rig) -> None:
    """So that a user can look before he submits."""
    said = rig.user().client.server_version()
    assert f"{MAJOR}.{MINOR}" == ".".join(said["python"].split(".")[:2])
    assert CLOUDPICKLE == said["cloudpickle"].split(".")[0]
    assert said["ray"]
