"""What a file does while it is imported: by the command line, which only looks for a function in it, and by a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project

README = Path(__file__).resolve().parents[3] / "README.md"
BARE = """
import asyncio
import gridweave as gw

@gw.function(vram="8GB")
def square(x):
    return x * x

"""
WAYS = (
    ("square.remote(7)", ".remote"),
    ("square.spawn(7)", ".spawn"),
    ("list(square.map([7]))", ".map"),
    ("gw.run(square, 7)", ".remote"),
    ("asyncio.run(square.remote.aio(7))", ".remote"),
)


@pytest.mark.parametrize(("call", "way"), WAYS)
def test_a_file_that_starts_jobs_while_it_is_imported_is_refused(
    gateway: Gateway, project: Project, command: Program, call: str, way: str
) -> None:
    """The node would do the same, where there is no gateway: a job that fails in fifty lines, and is billed."""
    project(sq=BARE + call + "\n")
    said = (
        f"error: sq.py calls {way} while it is imported, which the nodes do too (line 9).\n"
        "Put it under `if __name__ == '__main__':`. `gridweave submit` calls the function itself.\n"
    )
    for arguments in (("submit", "sq.py:square", "7"), ("estimate", "sq.py:square")):
        done = command(*arguments)
        assert (2, "", said) == (done.returncode, done.stdout, done.stderr)
    assert {} == dict(gateway.calls)


def test_a_call_of_a_neighbours_is_refused_too(gateway: Gateway, project: Project, command: Program) -> None:
    """The line that is named is the one by which the file came to it."""
    project(main="import sq\n\ndef f(): ...\n", sq=BARE + "square.remote(7)\n")
    done = command("submit", "main.py:f")
    assert (2, "error: main.py calls .remote while it is imported, which the nodes do too (line 1).") == (
        done.returncode,
        done.stderr.splitlines()[0],
    )
    assert {} == dict(gateway.calls)


def test_the_readmes_first_snippet_works_both_ways(gateway: Gateway, project: Project, command: Program, python: Program) -> None:
    """It is what everybody tries first, as a script and with the command below it."""
    snippet = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert snippet is not None
    project(sq=snippet[1])
    done = command("submit", "sq.py:square", "7")
    assert (0, "squaring 7\n49\n") == (done.returncode, done.stdout), done.stderr
    done = python("sq.py")
    assert (0, "squaring 7\n49\n") == (done.returncode, done.stdout), done.stderr
    assert 2 == len(gateway.runs)


@pytest.mark.parametrize(
    "body",
    ["square.remote(x)", "from gridweave.defaults import current"],
    ids=["a call", "an import"],
)
def test_a_job_that_would_start_jobs_is_not_told_to_install_a_strangers_package(
    gateway: Gateway, project: Project, command: Program, body: str
) -> None:
    """What a registry has by our name is not ours."""
    project(work=f"{BARE}def outer(x):\n    {body}\n")
    done = command("submit", "work.py:outer", "7")
    assert 1 == done.returncode
    assert "a job can't start jobs" in done.stderr
    assert '"pip": ["gridweave"]' not in done.stderr
    assert "During handling" not in done.stderr
    assert "direct cause" not in done.stderr


def test_dir_names_what_is_offered_and_nothing_else(python: Program) -> None:
    """An editor completes from it, also what is imported later."""
    done = python("-c", "import gridweave as gw; print(dir(gw) == sorted(gw.__all__), 'Job' in dir(gw), 'pkgutil' in dir(gw))")
    assert "True True False\n" == done.stdout, done.stderr
