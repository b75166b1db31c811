"""Gateways on one state folder serve one fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from ports.errors import Invalid
from runtimes.presence import Presence

FLEET, OTHER = "1x1xL4-24GB:org", "2x4xA100-80GB:org"


def test_a_second_gateway_serves_the_same_fleet(tmp_path: Path) -> None:
    """They share one scheduler, which has one fleet."""
    first, second = Presence(tmp_path, FLEET), Presence(tmp_path, FLEET)
    assert (False, True) == (first.leave(), second.leave())


@pytest.mark.parametrize(("there", "given"), [(FLEET, OTHER), (FLEET, ""), ("", FLEET)])
def test_another_fleet_is_refused_while_somebody_is_there(tmp_path: Path, there: str, given: str) -> None:
    """Both fleets are named, with the ways out; whoever was there stays."""
    first = Presence(tmp_path, there)
    with pytest.raises(Invalid) as caught:
        Presence(tmp_path, given)
    assert "--demo-fleet" == caught.value.field
    assert there in str(caught.value)
    assert given in str(caught.value)
    assert "STATE_DIR" in caught.value.remedy
    assert first.leave()


def test_whoever_comes_alone_may_bring_another_fleet(tmp_path: Path) -> None:
    """The demo is started again with more GPUs."""
    Presence(tmp_path, FLEET).leave()
    second = Presence(tmp_path, OTHER)
    with pytest.raises(Invalid):
        Presence(tmp_path, FLEET)
    assert second.leave()
