"""The examples do what they say. (pip_env.py needs a node that installs; the end-to-end tests run it.)"""

from __future__ import annotations

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
