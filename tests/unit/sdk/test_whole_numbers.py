"""Options that are whole numbers: the parser would round, and two GPUs cost twice what one does."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from cyclopts import App

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli


@pytest.mark.parametrize("given", ["1.5", "0.6", "2.0", "1e3", "0x10", "many", "", "9" * 5000])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["estimate"], "--gpus"),
        (["submit", "absent.py:f"], "--gpus"),
        (["ps"], "--limit"),
        (["logs", "job-1"], "-n"),
        (["bill"], "--limit"),
    ],
)
def test_what_is_no_whole_number_is_refused(
    gateway: Gateway, cli: Cli, capsys: pytest.CaptureFixture[str], command: list[str], option: str, given: str
) -> None:
    """It says which value, and what would be right; nothing was asked of the gateway."""
    assert 2 == cli([*command, option, given])
    said = capsys.readouterr()
    assert f"error: {option} cannot be {given!r:.80}.\nGive a whole number, such as 2.\n" == said.err
    assert ("", {}) == (said.out, dict(gateway.calls))


def test_whole_numbers_are_taken(gateway: Gateway, cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those with a sign, which the command itself then judges."""
    assert 0 == cli(["estimate", "--gpus", "+2"])
    assert 0 == cli(["ps", "--limit=3"])
    capsys.readouterr()
    assert 2 == cli(["logs", "job-1", "-n=-1"])
    assert "error: --tail cannot be -1.\nGive a number of lines.\n" == capsys.readouterr().err


def test_no_option_of_any_command_leaves_whole_numbers_to_the_parser() -> None:
    """One that is added later must not round either."""
    from gridweave.commands.app import app
    from gridweave.commands.numbers import WHOLE
    from gridweave.commands.options import Hardware

    functions = [each for command in _commands(app) for each in [command.default_command] if each is not None]
    numbers = [hint for each in [*functions, Hardware] for hint in _hints(each) if int in (hint, *_flat(hint))]
    assert 4 == len(numbers)
    assert [] == [hint for hint in numbers if WHOLE not in getattr(hint, "__metadata__", ())]


def _commands(app: App) -> list[App]:
    below = [app[name] for name in app if not name.startswith("-")]
    return [*below, *(each for command in below for each in _commands(command))]


def _hints(of: object) -> list[object]:
    hints = get_type_hints(of, include_extras=True)
    hints.pop("return", None)
    return list(hints.values())


def _flat(hint: object) -> list[object]:
    return [inner for each in get_args(hint) for inner in (each, *_flat(each))]
