"""The command line as a script uses it: output, JSON and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway, ProblemError
from tests.unit.sdk.running import Program, Project

WORK = """
import dataclasses
import enum
import gridweave as gw
import beside

class Colour(enum.Enum):
    RED = 1

@gw.function(vram="8GB", name="squares")
def square(x, y=1):
    print("squaring", x)
    return beside.times(x, x) * y

def show(*values):
    return values

def paint():
    return Colour.RED

def shade(x, color=None):
    return color

def fail():
    raise ValueError("no luck")

def die():
    import os, signal
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def until_told():
    import pathlib, sys, time
    print("started", flush=True)
    while not (pathlib.Path(sys.argv[1]) / "go").exists():
        time.sleep(0.02)
    return "done"

def forever():
    import time
    print("started", flush=True)
    time.sleep(600)
"""
BESIDE = "def times(a, b):\n    return a * b\n"


@pytest.fixture
def files(project: Project) -> Path:
    return project(work=WORK, beside=BESIDE)


def test_submit_follows_the_log_and_prints_the_value(gateway: Gateway, files: Path, command: Program) -> None:
    """Modules beside the file come along, and the decorator's options hold where none is given."""
    done = command("submit", "work.py:square", "-7", "--max-hours", "2", "--pip", "a", "--pip", "b>1")
    assert (0, "squaring -7\n49\n") == (done.returncode, done.stdout)
    assert done.stderr.endswith(" ran 1.500 s on n1 GPU 0 (A100-80GB): 0.003333 credits\n")
    body = gateway.bodies()[0]
    assert ("8GB", "squares", 2, ["a", "b>1"]) == (body["vram"], body["name"], body["max_hours"], body["env"]["pip"])


def test_options_of_the_command_win(gateway: Gateway, files: Path, command: Program) -> None:
    """Trying another GPU must not need an edit."""
    command("submit", "work.py:square", "7", "--vram", "16GB", "--gpu", "L4-24GB", "--provider", "acme", "--gpus", "2", "--name", "n")
    body = gateway.bodies()[0]
    assert ("16GB", "L4-24GB", "provider:acme", 2, "n") == tuple(body[key] for key in ("vram", "gpu", "owner", "gpus", "name"))


def test_arguments_are_literals_or_else_text(gateway: Gateway, files: Path, command: Program) -> None:
    """A shell has only text; Python's own notation says what is meant."""
    done = command("submit", "work.py:show", "--", "7", "2.5", "[1, 'a']", "None", "plain text", "--flag", "07")
    assert "(7, 2.5, [1, 'a'], None, 'plain text', '--flag', '07')\n" == done.stdout


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["1", "PATH=/x"], "PATH=/x"),
        (["1", "'colr=2'"], "colr=2"),
        (["1", "color='a=b'"], "a=b"),
        (["1", "https://x/?a=b"], "https://x/?a=b"),
    ],
)
def test_text_with_an_equals_sign_is_text(gateway: Gateway, files: Path, command: Program, words: list[str], value: str) -> None:
    """Not every = names an argument, and what is no name that was mistyped is what it looks like."""
    assert f"{value}\n" == command("submit", "work.py:shade", *words).stdout


def test_json_alone_is_on_stdout(gateway: Gateway, files: Path, command: Program) -> None:
    """Whatever reads it must not meet a log line."""
    done = command("submit", "work.py:square", "7", "--json")
    assert (0, "squaring 7\n") == (done.returncode, done.stderr)
    ident = next(iter(gateway.runs))
    assert {"id": ident, "phase": "Completed", "value": 49} == json.loads(done.stdout)
    assert {"id": ident, "phase": "Completed", "value": 49} == json.loads(command("result", ident, "--json").stdout)
    for arguments in (["ps"], ["ps", "--all"], ["status", ident], ["gpus"], ["estimate"], ["bill"], ["version"], ["cancel", ident]):
        done = command(*arguments, "--json")
        assert (0, "") == (done.returncode, done.stderr), arguments
        assert isinstance(json.loads(done.stdout), dict)
    done = command("status", "nothing", "--json")
    assert (5, "not-found") == (done.returncode, json.loads(done.stdout)["error"]["kind"])


def test_a_detached_job_is_found_again_by_the_start_of_its_id(gateway: Gateway, files: Path, command: Program) -> None:
    """Nobody types 28 characters."""
    done = command("submit", "work.py:square", "7", "--detach")
    ident = done.stdout.strip()
    assert (0, ident) == (done.returncode, next(iter(gateway.runs)))
    short = ident[:9]
    assert "49\n" == command("result", short).stdout
    assert "squaring 7\n" == command("logs", short).stdout == command("logs", "-f", short).stdout
    status = dict(line.split("\t", 1) for line in command("status", short).stdout.splitlines())
    assert ("Completed", "n1 GPU 0 (A100-80GB)", "0.003333 credits") == (status["phase"], status["where"], status["charged"])
    command("submit", "work.py:square", "8", "--detach")
    done = command("status", "job-")
    assert (2, "") == (done.returncode, done.stdout)
    assert "error: 2 jobs are named 'job-' or have an id that begins so;" in done.stderr


def test_results_are_saved_as_they_are(gateway: Gateway, files: Path, command: Program) -> None:
    """For a program that goes on with them."""
    import pickle

    ident = command("submit", "work.py:square", "7", "--detach").stdout.strip()
    done = command("result", ident, "-o", "out.pickle")
    assert (0, "") == (done.returncode, done.stdout)
    assert 49 == pickle.loads((files / "out.pickle").read_bytes())  # noqa: S301 - made here
    done = command("result", ident, "-o", "no/such/out")
    assert (2, "error: no/such/out cannot be written: No such file or directory.") == (done.returncode, done.stderr.splitlines()[0])


def test_exit_codes_tell_how_it_went(gateway: Gateway, files: Path, command: Program) -> None:
    """`gridweave submit … && next` must be right, and a wrapper can tell a bad job from a bad gateway."""
    failed = command("submit", "work.py:fail")
    assert (1, 1) == (failed.returncode, failed.stdout.count("ValueError: no luck\n"))
    assert failed.stderr.startswith("error: ValueError: no luck\njob-")
    died = command("submit", "work.py:die")
    assert (1, "last words\n") == (died.returncode, died.stdout)
    assert "ended by SIGKILL" in died.stderr
    refused = command("submit", "work.py:square", "1", "--vram", "900GB")
    assert (2, "error: No GPU has 900 GB.\nAsk for 80GB or less.\n") == (refused.returncode, refused.stderr)
    assert 3 == command("ps", GRIDWEAVE_URL="http://127.0.0.1:9").returncode
    ident = command("submit", "work.py:forever", "--detach").stdout.strip()
    assert 0 == command("cancel", ident).returncode
    assert 4 == command("result", ident).returncode
    assert 5 == command("status", "absent").returncode
    waiting = command("submit", "work.py:forever", "--detach").stdout.strip()
    for way in ([], ["-o", "out"]):
        late = command("result", waiting, "--timeout", "0.1", *way)
        assert (124, "") == (late.returncode, late.stdout)
        assert late.stderr.endswith(f"error: Job {waiting} has not ended within 0.1 s; it goes on.\n")
    told = json.loads(command("result", waiting, "--timeout", "0.1", "--json").stdout)["error"]
    assert ("timeout", waiting) == (told["kind"], told["id"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submit"], "requires an argument"),
        (["submit", "work.py"], "does not name a function"),
        (["submit", "absent.py:f"], "no file 'absent.py'"),
        (["submit", "work.py::fail"], "'work.py::fail' has more than one colon.\nWrite work.py:fail."),
        (["submit", "::fail"], "'::fail' does not name a function"),
        (["ps", "--phase", "running"], "--phase 'running' is no phase.\nDid you mean Running? The phases are Pending, Allocated, Running"),
        (["ps", "--phase", "Completed,canceled"], "--phase 'canceled' is no phase.\nDid you mean Cancelled?"),
        (["ps", "--phase", "xyz"], "--phase 'xyz' is no phase.\nThe phases are Pending,"),
        (["submit", "work.py:absent"], "It has: die, fail, forever, paint, shade, show, square"),
        (["submit", "work.py:Colour"], "no function 'Colour'"),
        (["submit", "work.py:square", "1", "--vrm", "8GB"], "Unknown option"),
        (["submit", "work.py:square", "1", "--gpus", "many"], "many"),
        (["submit", "work.py:square", "x=2", "x=3"], "x is given twice: 2 and 3."),
        (["submit", "work.py:square", "1", "z=2", "3"], "square() has no argument 'z'; it takes x, y."),
        (["submit", "work.py:square", "x=1", "factor=2"], "square() has no argument 'factor'; it takes x, y."),
        (
            ["submit", "work.py:shade", "1", "colr=2"],
            "Did you mean color=2? Text that has an = in it is written as a string of Python: \"'colr=2'\".",
        ),
        (["pz"], "Unknown command"),
        (["status", "../x"], "job"),
        (["ps", "--url", "nonsense"], "not the address"),
    ],
)
def test_mistakes_are_one_line_and_a_remedy(gateway: Gateway, files: Path, command: Program, arguments: list[str], words: str) -> None:
    """Never a traceback of ours."""
    done = command(*arguments)
    assert done.returncode in (2, 5)
    assert "" == done.stdout
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_fails_shows_its_own_traceback(gateway: Gateway, project: Project, command: Program) -> None:
    """It is the user's own line that must be mended."""
    project(broken="x = 1 / 0\ndef f(): ...\n")
    done = command("submit", "broken.py:f")
    assert 2 == done.returncode
    assert 'broken.py", line 1' in done.stderr
    assert "error: broken.py cannot be imported: ZeroDivisionError" in done.stderr
    assert "scripts.py" not in done.stderr


def test_a_file_with_the_name_of_a_library_works(gateway: Gateway, project: Project, command: Program) -> None:
    """`random.py` is a popular name for a first try."""
    project(random="def f():\n    return 'mine'\n")
    done = command("submit", "random.py:f", PYTHONSAFEPATH="1")  # as the installed command: its folder is not on sys.path
    assert (0, "mine\n") == (done.returncode, done.stdout)


def test_the_same_key_and_request_give_the_same_job(gateway: Gateway, files: Path, command: Program) -> None:
    """A pipeline that is run again must not pay twice."""
    once = command("submit", "work.py:square", "7", "--detach", "--idempotency-key", "build-1")
    again = command("submit", "work.py:square", "7", "--detach", "--idempotency-key", "build-1")
    assert once.stdout == again.stdout != ""
    other = command("submit", "work.py:square", "8", "--detach", "--idempotency-key", "build-1")
    assert (2, "") == (other.returncode, other.stdout)


def test_piped_tables_are_lines_of_tabs(gateway: Gateway, files: Path, command: Program) -> None:
    """For cut and awk; with the words for every state that the drawing shows."""
    rows = [line.split("\t") for line in command("gpus").stdout.splitlines()]
    assert ["OWNER", "NODE", "STATE"] == rows[0][:3]
    assert ["org", "n1", "Ready", "0", "A100-80GB", "81920", "40960", "40960", "0", "yes"] == rows[1]
    assert ["provider:acme", "p1", "Ready, draining"] == rows[2][:3]
    assert "8192" == rows[2][8]
    assert "-0.003333" in command("bill").stdout
    assert command("bill", "--csv").stdout.startswith("seq,at,job")
    assert "credits per hour" in command("estimate", "work.py:square").stdout


def test_advice_names_what_would_have_to_move(gateway: Gateway, files: Path, command: Program) -> None:
    """A row per move, and one for a waiting job that needs none or for which none was found."""
    done = command("gpus", "--advise")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["WAITING", "USER", "WANTS", "MOVE", "OF", "FROM", "TO"] == rows[0]
    assert ["job-a", "job-a", "job-b", "job-c"] == [row[0] for row in rows[1:]]
    assert ["job-m", "ann", "n1 GPU 0 (A100-80GB)", "n2 GPU 0 (A100-80GB)"] == rows[1][3:]
    assert ("then it starts", "n1 GPU 0 (A100-80GB)") == (rows[2][3], rows[2][6])
    assert ("nothing found", "No plan with up to 3 moves would let it in.") == (rows[4][3], rows[4][6])
    assert "Nothing was moved" in done.stderr
    refused = command("gpus", "--job", "job-c")
    assert (2, "") == (refused.returncode, refused.stdout)
    assert "--advise" in refused.stderr


@pytest.mark.parametrize("told", [slice(None), slice(12)])
def test_advice_takes_an_id_as_it_is_listed(gateway: Gateway, files: Path, command: Program, told: slice) -> None:
    """On a terminal `ps` shows twelve characters of an id: what is copied from there has to be enough."""
    ident = command("submit", "work.py:show", "--detach").stdout.strip()
    found = json.loads(command("gpus", "--advise", "--job", ident[told], "--json").stdout)
    assert [(ident, False)] == [(each["job"], each["found"]) for each in found["advice"]]
    nobody = command("gpus", "--advise", "--job", "job-nobody")
    assert (5, "") == (nobody.returncode, nobody.stdout)
    assert "job-nobody" in nobody.stderr


def test_ps_shows_what_runs_and_on_demand_what_ended(gateway: Gateway, files: Path, command: Program) -> None:
    """The usual question is what is going on now."""
    ended = command("submit", "work.py:show", "--detach").stdout.strip()
    command("result", ended)
    running = command("submit", "work.py:forever", "--detach").stdout.strip()
    listed = [line.split("\t")[0] for line in command("ps").stdout.splitlines()]
    assert ["ID", running] == listed
    assert {"ID", running, ended} == {line.split("\t")[0] for line in command("ps", "--all").stdout.splitlines()}
    assert ["ID", ended] == [line.split("\t")[0] for line in command("ps", "--phase", "Completed").stdout.splitlines()]


def test_ps_of_an_admin_says_whose_each_job_is(gateway: Gateway, files: Path, command: Program) -> None:
    """He sees everybody's, and must know whom to ask; whoever sees only his own need not be told."""
    ident = command("submit", "work.py:show", "--detach").stdout.strip()
    assert "USER" not in command("ps", "--all").stdout
    gateway.all_users = True
    rows = [line.split("\t") for line in command("ps", "--all").stdout.splitlines()]
    assert (["ID", "NAME", "USER", "PHASE"], [ident, "show", "demo"]) == (rows[0][:4], rows[1][:3])


def test_result_of_a_job_that_runs_says_on_stderr_that_it_waits(gateway: Gateway, files: Path, command: Program) -> None:
    """A pipe that is silent for hours looks broken; what is piped stays the value alone."""
    ident = command("submit", "work.py:forever", "--detach").stdout.strip()
    done = command("result", ident, "--timeout", "0.1")
    assert (124, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith(f"Job {ident} is Running; waiting for at most 0.1 s for its end.")
    ended = command("submit", "work.py:square", "7", "--detach").stdout.strip()
    command("result", ended)
    done = command("result", ended)
    assert ("49\n", "") == (done.stdout, done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [["-m", "gridweave", "submit", "work.py:forever"], ["-c", "import gridweave, work; gridweave.function(work.forever).remote()"]],
)
def test_ctrl_c_cancels_the_job(gateway: Gateway, files: Path, arguments: list[str]) -> None:
    """A GPU must not go on for somebody who has left."""
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    process = subprocess.Popen([sys.executable, *arguments], cwd=files, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "started\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT)
    assert "cancelling job job-" in said
    assert ["Cancelled"] == [run.phase for run in gateway.runs.values()]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_submit_leaves_the_job_and_says_how_to_find_it(gateway: Gateway, files: Path, sent: signal.Signals) -> None:
    """A batch system that ends the command would leave a GPU busy that nobody knows of."""
    process = started(files, "submit", "work.py:forever")
    assert process.stdout is not None
    assert "started\n" == process.stdout.readline()
    process.send_signal(sent)
    _, said = process.communicate(timeout=30)
    ident, run = next(iter(gateway.runs.items()))
    assert (128 + sent, "Running") == (process.returncode, run.phase)
    assert said.startswith(f"error: Stopped by {sent.name}; job {ident} goes on.\n")
    assert f"gridweave logs -f {ident}" in said
    assert f"gridweave cancel {ident}" in said


def test_a_signal_before_the_job_is_known_leaves_none(gateway: Gateway, files: Path) -> None:
    """There would be no id to tell."""
    (files / "work.py").write_text("def f():\n    pass\n")
    gateway.problems = [ProblemError(503, "unavailable", "Starting.", {"Retry-After": "15"})]
    process = started(files, "submit", "work.py:f", "--json")
    while not gateway.calls["POST submit"]:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=30)
    ident = next(iter(gateway.runs))
    assert (143, f"error: Stopped by SIGTERM: cancelling job {ident}.\n") == (process.returncode, said)
    assert "stopped" == json.loads(out)["error"]["kind"]


def test_nohup_is_respected(gateway: Gateway, files: Path) -> None:
    """Who lets it ignore SIGHUP wants it to go on."""
    process = started(files, "submit", "work.py:until_told", before="nohup")
    assert process.stdout is not None
    assert "started\n" == process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    (next(iter(gateway.runs.values())).folder / "go").touch()
    assert ("done\n", 0) == (process.communicate(timeout=30)[0], process.returncode)


def started(files: Path, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    """The command line, running."""
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    command = [*([before] if before else []), sys.executable, "-m", "gridweave", *arguments]
    return subprocess.Popen(command, cwd=files, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_reader_that_has_seen_enough_is_no_error(gateway: Gateway, files: Path) -> None:
    """`gridweave gpus | head -1`."""
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    piped = f"{sys.executable} -m gridweave gpus | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], env=env, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell: str) -> None:
    """What --install-completion writes into the shell's start-up files."""
    from gridweave.commands.app import app

    script = app.generate_completion(shell=shell)  # type: ignore[arg-type]  # one of its literals
    assert all(name in script for name in ("submit", "gpus", "--idempotency-key"))


def test_help_tells_the_exit_codes(command: Program) -> None:
    """A script's author looks there."""
    done = command("--help")
    assert 0 == done.returncode
    assert all(words in done.stdout for words in ("submit", "5 not found", "--install-completion"))
