"""`python -m runtimes.http.demo` (`make demo`): the main job, end to end, on an imaginary fleet of this machine.

Starts a gateway on a free port, submits the examples through the SDK's command line as a user would, follows their
logs, shows results, GPUs and the bill, and stops all that it started. Says what it does and how long it took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

FLEET = "2x4xA100-80GB:org,1x2xL4-24GB:provider:acme"
ROOT = Path(__file__).parents[2]
STARTS_WITHIN_S = 300  # the first start makes the nodes' virtual environment
GRIDWEAVE, PYTHON = ("-m", "gridweave"), ()
STEPS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("The fleet: one bar of VRAM per GPU, by owner", GRIDWEAVE, ("gpus",)),
    ("A function goes in; its log, its result, its GPUs and its bill come out", GRIDWEAVE, ("submit", "examples/hello.py:square", "7")),
    ("The same from Python", PYTHON, ("examples/hello.py",)),
    ("Forty jobs at once, results in order", PYTHON, ("examples/map.py",)),
    ("Classes of a module beside the script, and the user's own exception", PYTHON, ("examples/exceptions.py",)),
    ("A package of the registry, installed once per node", PYTHON, ("examples/pip_env.py",)),
    ("What ran, where, and what each cost", GRIDWEAVE, ("ps", "--all")),
    ("The bill, to the micro-credit", GRIDWEAVE, ("bill",)),
)
console = Console(highlight=False)


def main() -> int:
    began = time.monotonic()
    console.print(f"[bold]Gridweave demo[/]: an imaginary fleet ({FLEET}) on this machine; the first start takes about half a minute.")
    try:
        with _gateway() as url:
            console.print(f"The gateway answers at {url} after {time.monotonic() - began:.1f} s.")
            failed = [title for title, prefix, command in STEPS if not _step(title, prefix, command, url)]
    except KeyboardInterrupt:
        console.print(f"\n[bold]Stopped[/] by Ctrl-C after {time.monotonic() - began:.1f} s.")
        return 130
    console.print(f"\n[bold]Stopped.[/] The demo took {time.monotonic() - began:.1f} s in all.")
    for title in failed:
        console.print(f"[red]Failed:[/] {title}")
    return 1 if failed else 0


def _step(title: str, prefix: Sequence[str], command: Sequence[str], url: str) -> bool:
    console.rule(f"[bold]{title}", align="left")
    console.print(f"[dim]$ {'gridweave' if prefix else 'python'} {' '.join(command)}[/]")
    began = time.monotonic()
    env = {**os.environ, "GRIDWEAVE_URL": url}
    env.pop("GRIDWEAVE_API_KEY", None)  # of another gateway
    code = subprocess.run([sys.executable, *prefix, *command], cwd=ROOT, env=env, check=False).returncode  # noqa: S603 - our own command
    console.print(f"[dim]({time.monotonic() - began:.1f} s, exit code {code})[/]")
    return code == 0


@contextmanager
def _gateway() -> Iterator[str]:
    state = ROOT / ".gridweave" / "demo"
    state.mkdir(parents=True, exist_ok=True)
    log = (state / "gateway.log").open("w")
    command = [sys.executable, "-m", "runtimes.http.gateway", "--demo-fleet", FLEET, "--port", "0"]
    env = {**os.environ, "STATE_DIR": str(state), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)  # noqa: S603 - our own command
    try:
        yield _ready(process, state / "gateway.log")
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def _ready(process: subprocess.Popen[str], log: Path) -> str:
    """The gateway's URL, once a node is ready for work."""
    said = process.stdout.readline() if process.stdout is not None else ""
    url = said.rpartition(" ")[2].strip()
    with console.status("Starting the gateway and a local Ray …"):
        for _ in range(STARTS_WITHIN_S * 4):
            if process.poll() is not None:
                break
            if url and _ask(f"{url}/readyz").get("ready"):
                return url
            time.sleep(0.25)
    raise SystemExit(f"The gateway did not become ready; its log is {log}:\n{log.read_text()[-3000:]}")


def _ask(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError, urllib.error.URLError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
