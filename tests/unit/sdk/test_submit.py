"""What `submit` can be told: files of packages, arguments by name, variables and labels."""

from __future__ import annotations

import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project

SHOW = """
def show(a, b=2, *, c=None):
    return a, b, c

def loose(*args, **kwargs):
    return args, kwargs
"""
TRAIN = """
from . import m
from .sub import deep

def f():
    return __name__, m.VALUE, deep.VALUE
"""


@pytest.mark.parametrize("marked", [True, False])
def test_a_file_of_a_package_may_import_its_neighbours(gateway: Gateway, project: Project, command: Program, marked: bool) -> None:
    """`from . import m` works there as under `python -m`, whether or not the folders have an __init__.py."""
    files = {"pk__in__train": TRAIN, "pk__in__m": "VALUE = 1\n", "pk__in__sub__in__deep": "from .. import m\nVALUE = m.VALUE + 1\n"}
    project(**files, **({"pk__in____init__": "", "pk__in__sub__in____init__": ""} if marked else {}))
    done = command("submit", "pk/train.py:f", PYTHONSAFEPATH="1")
    assert (0, "('pk.train', 1, 2)\n") == (done.returncode, done.stdout), done.stderr


def test_arguments_may_be_given_by_name(gateway: Gateway, project: Project, command: Program) -> None:
    """Only names that the function takes are names: other text may have an equals sign too."""
    project(work=SHOW)
    assert "(1, 3, 'x')\n" == command("submit", "work.py:show", "1", "b=3", "c=x").stdout
    assert "('d=4', 2, None)\n" == command("submit", "work.py:show", "d=4").stdout
    assert "((1,), {'d': [4]})\n" == command("submit", "work.py:loose", "1", "d=[4]").stdout
    done = command("submit", "work.py:show", "b=3", "1")
    assert (2, "error: '1' comes after b=….\nGive positional arguments first.\n") == (done.returncode, done.stderr)


def test_variables_and_labels_are_added_to_the_decorators(gateway: Gateway, project: Project, command: Program) -> None:
    """A sweep changes one of them and keeps the rest."""
    project(
        work="""
        import gridweave as gw

        @gw.function(env={"env_vars": {"A": "1", "B": "1"}}, labels={"team": "a"})
        def f(): ...
        """
    )
    command("submit", "work.py:f", "--env-var", "B=2=2", "--env-var", "C=", "--label", "run=7", "--detach")
    body = gateway.bodies()[0]
    assert ({"A": "1", "B": "2=2", "C": ""}, {"team": "a", "run": "7"}) == (body["env"]["env_vars"], body["labels"])
    done = command("submit", "work.py:f", "--label", "run")
    assert (2, "error: --label 'run' is not KEY=VALUE.\nWrite it as --label KEY=VALUE.\n") == (done.returncode, done.stderr)
