"""What the text of an argument becomes where the function says what it takes, and an option that was meant for the function."""

from __future__ import annotations

import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli, Program, Project

TRAIN = """
from typing import Optional
import functools

def train(steps: int = 1, lr: float = 0.1, *, flag: bool = False, seed: int | None = None, deep: Optional[bool] = None, any=None):
    return steps, lr, flag, seed, deep, any

def many(*sizes: int, **flags: bool):
    return sizes, flags

def either(x: int | str, y: bool | list = False):
    return x, y

def kwonly(*, lr=1.0):
    return lr

def injected(function):
    @functools.wraps(function)
    def inner(*args):
        return function("db", *args)
    return inner

@injected
def query(db: str, x: int):
    return db, x
"""
POSTPONED = """
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elsewhere import Unknown

def later(flag: bool, seed: int | None = None, other: Unknown = None):
    return flag, seed, other
"""


@pytest.mark.parametrize(
    ("function", "words", "value"),
    [
        ("train", ["3", "1e-3", "flag=true"], "(3, 0.001, True, None, None, None)"),
        ("train", ["07", "inf", "flag=FALSE", "seed=None", "deep=False"], "(7, inf, False, None, False, None)"),
        ("train", ["lr=1", "seed=5", "any=false"], "(1, 1, False, 5, None, 'false')"),
        ("many", ["1", "2", "a=true", "b=False"], "((1, 2), {'a': True, 'b': False})"),
        ("either", ["true", "y=false"], "('true', 'false')"),
        ("query", ["many"], "('db', 'many')"),
    ],
)
def test_an_annotated_parameter_gets_what_it_says(
    gateway: Gateway, project: Project, command: Program, function: str, words: list[str], value: str
) -> None:
    """`flag=false` as the text 'false' is true. What is not annotated, or allows more, gets what was written."""
    project(work=TRAIN)
    done = command("submit", f"work.py:{function}", *words)
    assert (0, f"{value}\n") == (done.returncode, done.stdout), done.stderr


def test_annotations_that_nobody_can_evaluate_still_tell(gateway: Gateway, project: Project, command: Program) -> None:
    """`from __future__ import annotations` beside a name that only a type checker knows is common."""
    project(work=POSTPONED)
    assert "(False, 4, None)\n" == command("submit", "work.py:later", "false", "seed=4").stdout
    assert 2 == command("submit", "work.py:later", "false", "seed=no").returncode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["flag=maybe"], "train() takes flag as bool, and 'maybe' is none.\nWrite true or false."),
        (["flag=1"], "train() takes flag as bool, and '1' is none.\nWrite true or false."),
        (["many"], "train() takes steps as int, and 'many' is none.\nGive a whole number, such as 7."),
        (["1.5"], "train() takes steps as int, and '1.5' is none.\nGive a whole number, such as 7."),
        (["True"], "train() takes steps as int, and 'True' is none.\nGive a whole number, such as 7."),
        (["None"], "train() takes steps as int, and 'None' is none.\nGive a whole number, such as 7."),
        (["seed=x"], "train() takes seed as int, and 'x' is none.\nGive a whole number, such as 7."),
        (["lr=0,1"], "train() takes lr as float, and '0,1' is none.\nGive a number, such as 0.1."),
    ],
)
def test_text_that_an_annotation_rules_out_is_refused_before_it_is_sent(
    gateway: Gateway, project: Project, command: Program, words: list[str], said: str
) -> None:
    """Else a GPU is paid for to find out."""
    project(work=TRAIN)
    done = command("submit", "work.py:train", *words)
    assert (2, "", f"error: {said}\n") == (done.returncode, done.stdout, done.stderr)
    assert {} == dict(gateway.calls)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lr", "0.1"], "Unknown option: --lr.\nAn argument of the function is written without dashes: lr=0.1."),
        (["--lr=0.1"], "Unknown option: --lr.\nAn argument of the function is written without dashes: lr=0.1."),
        (["--batch-size"], "Unknown option: --batch-size.\nAn argument of the function is written without dashes: batch_size=VALUE."),
        (["--vrm", "8GB"], "Unknown option: --vrm. Did you mean --vram?\n"),
    ],
)
def test_an_option_that_submit_does_not_know_may_be_meant_for_the_function(
    cli: Cli, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """It is how other programs take it, and no option of ours is much like it."""
    assert 2 == cli(["submit", "work.py:kwonly", *words])
    assert capsys.readouterr().err.startswith(f"error: {said}")
