"""The Dockerfiles, as far as they can be held to their word without a builder: what they copy is there and is enough, what they
run can be run, and an image that gets no credentials can not be built."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import frozen
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
DOCKERFILES = ("k8s/Dockerfile", "k8s/node.Dockerfile")
MAINS = (
    "runtimes.http.gateway",
    "runtimes.control.__main__",
    "runtimes.credits.__main__",
    "runtimes.batch.__main__",
    "runtimes.check_image",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@frozen
class Step:
    """One instruction: its name, and what follows it on all of its lines."""

    name: str
    rest: str

    @property
    def commands(self) -> list[list[str]]:
        """Of a RUN: the words of each command."""
        return [shlex.split(part) for part in self.rest.split("&&")]


def steps(dockerfile: str) -> list[Step]:
    text = re.sub(r"\\\n", " ", (ROOT / dockerfile).read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Step(*line.split(maxsplit=1)) for line in lines]


def copied(dockerfile: str) -> list[tuple[list[str], str]]:
    """Sources and target of each COPY."""
    return [(words[:-1], words[-1]) for words in (step.rest.split() for step in steps(dockerfile) if step.name == "COPY")]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_it_is_made_of_instructions_that_there_are_and_copies_what_there_is(dockerfile: str) -> None:
    """A folder that was renamed, or a typing error, would be found by the one who builds a release."""
    made = steps(dockerfile)
    assert "FROM" == next(step.name for step in made if step.name != "ARG")
    assert set() == {step.name for step in made} - {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "EXPOSE", "CMD"}
    sources = [source for several, _ in copied(dockerfile) for source in several]
    assert sources
    assert [] == [each for each in sources if not (ROOT / each).exists()]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_that_breaks_the_contract_can_not_be_built(dockerfile: str) -> None:
    """The check comes after the last installation, and fails the build by its exit code."""
    commands = [words for step in steps(dockerfile) if step.name == "RUN" for words in step.commands]
    installs = [n for n, words in enumerate(commands) if words[:2] == ["pip", "install"]]
    checks = [n for n, words in enumerate(commands) if any(word.endswith("gridweave-check-image") for word in words)]
    assert max(installs) < max(checks)
    assert not any("||" in step.rest or ";" in step.rest for step in steps(dockerfile) if step.name == "RUN")


def test_the_check_of_the_node_image_takes_its_own_arguments(tmp_path: Path) -> None:
    """From the file that was copied, by the name that it gets, and with the build's own Ray."""
    ((source,), target), arguments = copied("k8s/node.Dockerfile")[0], steps("k8s/node.Dockerfile")
    default = next(step.rest.partition("=")[2] for step in arguments if step.name == "ARG")
    (words,) = (step.commands[0] for step in arguments if step.name == "RUN" and target in step.rest)
    assert ["python", target] == words[:2]
    check = shutil.copy(ROOT / source, tmp_path / Path(target).name)
    given = [word.replace("${RAY}", default) for word in words[2:]]
    done = subprocess.run([sys.executable, check, *given], capture_output=True, text=True, check=False, timeout=120)
    same = ".".join(map(str, sys.version_info[:2])) == given[given.index("--python") + 1]
    assert (0 if same else 1) == done.returncode, done.stdout + done.stderr


def test_the_service_image_holds_all_that_its_processes_import(tmp_path: Path) -> None:
    """From what is copied, and from nothing else of this tree: each program says what it takes."""
    for sources, _ in copied("k8s/Dockerfile"):
        for source in sources:
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, tmp_path / source)
    where = "import importlib, json, sys; print(json.dumps([importlib.import_module(name).__file__ for name in sys.argv[1:]]))"
    environment = {"PYTHONPATH": f"{tmp_path}:{tmp_path / 'agent'}", "PATH": "/usr/bin:/bin", "STATE_DIR": str(tmp_path / "state")}
    found = subprocess.run(
        [sys.executable, "-P", "-c", where, *MAINS, "gridweave_controller", "gridweave_agent.server"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert 0 == found.returncode, found.stderr[-2000:]
    assert [] == [file for file in json.loads(found.stdout) if not file.startswith(str(tmp_path))]


def test_the_service_image_installs_by_a_step_that_pip_takes_and_starts_a_program_of_ours() -> None:
    """Each path of the installation is copied before it, and the command is one of our entry points, with options that it has."""
    made = steps("k8s/Dockerfile")
    (install,) = (words for step in made if step.name == "RUN" for words in step.commands if words[:2] == ["pip", "install"])
    there = {source for step in made[: made.index(next(s for s in made if "pip install" in s.rest))] for source in step.rest.split()}
    given = [word for flag, word in pairwise(install) if flag in ("-c", "-e")]
    assert {"constraints.txt", "./agent", "."} == set(given)
    assert {"constraints.txt", "agent", "pyproject.toml", "README.md", "LICENSE"} <= there
    assert {"README.md", "LICENSE"} <= {PROJECT["readme"], "LICENSE"}
    program, *options = json.loads(next(step.rest for step in made if step.name == "CMD"))
    assert program in PROJECT["scripts"]
    module, _, function = PROJECT["scripts"][program].partition(":")
    body = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body
    assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", module, "--help"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    assert [] == [option for option in options if option.startswith("--") and option not in told]


def test_both_images_are_of_the_versions_that_are_pinned() -> None:
    """Nodes with another Ray or Python than the scheduler's can not join."""
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    node, service = (ROOT / name for name in reversed(DOCKERFILES))
    assert f"ARG RAY={pinned['ray']}\n" in node.read_text()
    base = re.search(r"^FROM python:(\d\.\d+)-slim$", service.read_text(), re.MULTILINE)
    assert base is not None
    assert Version(base[1]) in Requirement(f"python{PROJECT['requires-python']}").specifier
    assert f"-py{base[1].replace('.', '')}" in node.read_text()
    assert f"--python {base[1]} " in node.read_text()
    installed = next(step.commands[0][3:] for step in steps("k8s/node.Dockerfile") if "pip install" in step.rest)
    assert [] == [each for each in map(Requirement, installed) if each.name in pinned and pinned[each.name] not in each.specifier]
