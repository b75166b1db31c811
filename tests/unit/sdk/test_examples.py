"""The examples do what they say. (pip_env.py needs a node that installs; the end-to-end tests run it.)"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hello.py", ["here: 49", "on the cluster: 49"]),
        (
            "exceptions.py",
            ["made here: True", "caught NobodyThere", "its cause was ZeroDivisionError", "Remote traceback"],
        ),
        ("map.py", ["  1  0\n  2 * 1\n", " 40 ******** 8\n"]),
    ],
)
def test_an_example_runs(gateway: Gateway, python: Program, name: str, words: list[str]) -> None:
    """They are the first thing that is copied."""
    done = python(str(EXAMPLES / name))
    assert (0, "") == (done.returncode, done.stderr)
    assert [] == [each for each in words if each not in done.stdout]


def test_examples_may_be_submitted(gateway: Gateway, command: Program) -> None:
    """As their first lines say."""
    assert "49\n" == command("submit", str(EXAMPLES / "hello.py:square"), "7").stdout.partition("\n")[2]
    done = command("submit", str(EXAMPLES / "exceptions.py:divide"), "1", "0")
    assert 1 == done.returncode
    assert "ZeroDivisionError: division by zero" in done.stdout
    assert "nobody is there for 1 apple(s)" in done.stderr


def test_the_demo_ends_quietly_on_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And stops its gateway all the same."""
    demo = importlib.import_module("runtimes.http.demo")  # by a computed name: or the gateway's packages would travel with these tests
    stopped = []

    @contextmanager
    def gateway() -> Iterator[str]:
        try:
            yield "http://127.0.0.1:9"
        finally:
            stopped.append(True)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_gateway", gateway)
    monkeypatch.setattr(demo, "_step", interrupted)
    assert (130, [True]) == (demo.main(), stopped)
    assert "Stopped by Ctrl-C" in capsys.readouterr().out
