"""User code finds no secret of ours, and nobody but the user's own process unpickles what a user sent."""

from __future__ import annotations

import os
import signal
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.unit.agent.conftest import script

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node

CANARIES = (b"secret-canary", b"aws-canary", b"ray-canary", b"platform-canary", b"grant-canary")


def test_no_secret_is_in_the_environment_or_memory_of_the_user_or_his_parents(make_node: Any) -> None:
    """Whoever can read a parent's memory as the same uid would be the scheduler."""
    node = make_node(isolation="subreaper")  # where parents can be seen at all

    def work(canaries: tuple[bytes, ...]) -> list[str]:
        found = []
        pid = os.getpid()
        reversed_ = [bytes(reversed(canary)) for canary in canaries]  # the needles are no find themselves
        del canaries
        while pid > 1:
            with open(f"/proc/{pid}/environ", "rb") as file:
                blocks = [file.read()]
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                blocks.append(file.read())
            if pid != os.getpid():
                with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                    for line in maps:
                        span, flags, *_ = line.split()
                        start, end = (int(part, 16) for part in span.split("-"))
                        if flags.startswith("rw"):
                            memory.seek(start)
                            try:
                                blocks.append(memory.read(end - start) or b"")
                            except OSError:
                                continue
            found += [f"{pid}: {needle!r}" for needle in reversed_ if any(bytes(reversed(needle)) in block for block in blocks)]
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        return found

    control = b"name-that-a-supervisor-knows"
    found = node.value(work, ((*CANARIES, control),), name=control.decode())
    assert {repr(control[::-1])} == {each.partition(": ")[2] for each in found}  # so the search does find what is there


def bare_python(folder: Path) -> str:
    """An interpreter as nodes have it: with cloudpickle, and with nothing of ours installed."""
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "more.pth").write_text(str(Path(cloudpickle.__file__).parents[1]))
    return str(folder / "bin" / "python")


def test_user_code_can_import_nothing_of_ours(either: Node, tmp_path: Path) -> None:
    """A module of the user's that is called like one of ours must be his."""
    either.python = bare_python(tmp_path / "bare")
    either.restart()

    def work() -> list[str]:
        import importlib
        import sys

        found = [name for name in sys.modules if name.startswith(("gridweave", "adapters", "ports"))]
        for name in ("gridweave_agent", "core", "ports", "zygote"):
            try:
                importlib.import_module(name)
                found.append(name)
            except ImportError:
                pass
        return found + [path for path in sys.path if "agent" in path or not path]

    assert either.value(work) == []


def test_the_process_is_as_on_a_laptop(either: Node) -> None:
    """A cluster's worker leaves niceness, blocked signals and open files to its children."""

    def work() -> dict[str, Any]:
        import sys

        fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
        with open("/proc/self/oom_score_adj") as file:
            oom = file.read().strip()
        return {
            "nice": os.nice(0),
            "oom": oom,
            "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
            "child": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
            "main": sys.modules["__main__"].__name__,
            "argv": sys.argv,
            "leader": os.getsid(0) == os.getpid(),
            "fds": len(fds) <= 6,
            "self": os.readlink("/proc/self") == str(os.getpid()),
        }

    expected = {"nice": 0, "oom": "0", "mask": [], "int": True, "term": True, "child": True}
    assert {**expected, "main": "__main__", "argv": ["f"], "leader": True, "fds": True, "self": True} == either.value(work)


class Canary:
    """Writes the process id of whoever unpickles it to a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (exec, (f"import os\nwith open({self.path!r}, 'a') as file: file.write(f'{{os.getpid()}} {{os.getppid()}}\\n')\n",))


@pytest.mark.parametrize("where", ["function", "args", "result", "exception"])
def test_only_the_users_process_unpickles(make_node: Any, tmp_path: Path, where: str) -> None:
    """A pickle is a program: where it is opened, it rules."""
    node = make_node(isolation="subreaper")  # where a process id is the same for all
    path = str(tmp_path / "canary")
    canary = Canary(path)
    names = script(
        "import os\n"
        "class Canary:\n    def __init__(self, path): self.path = path\n"
        '    def __reduce__(self): return (exec, (f\'open({self.path!r}, "a").write(str(__import__("os").getpid()) + "\\\\n")\',))\n'
        "def give(path):\n    print(os.getpid())\n    return Canary(path)\n"
        "class Odd(Exception):\n    def __reduce__(self): return Canary(self.args[0]).__reduce__()\n"
        "def fail(path):\n    print(os.getpid())\n    raise Odd(path)\n"
    )
    if where == "function":
        report = node.run(cloudpickle.dumps(canary))
    elif where == "args":
        report = node.run(lambda _: print(os.getpid()), (canary,))
    else:
        report = node.run(names["give" if where == "result" else "fail"], (path,))
    node.until(report["run"], lambda report: report["stored"])
    opened = Path(path).read_text().split() if Path(path).exists() else []
    if where == "args":
        assert node.log(report["run"]).decode().split() == opened[:1]
    elif where in ("result", "exception"):
        assert opened == []
    else:
        assert len(opened) == 2
    assert str(node.process.pid) not in opened
    node.restart()
    assert (Path(path).read_text().split() if Path(path).exists() else []) == opened


def test_a_grant_is_never_named_in_an_error(fresh: Node) -> None:
    """Errors are shown to people and kept in logs; a URL of a grant is a permission."""
    fresh.blobs.refuse = [500] * 3
    run = fresh.run(lambda: print("x"))["run"]
    said = fresh.until(run, lambda report: report["stored_error"] != "")["stored_error"]
    assert "the store answered 500" in said
    command = fresh.prepared(lambda: 1)
    command["inputs"]["args"]["url"] += "-missing?sig=grant-canary"
    fresh.client.commands(1, [command])
    message = fresh.gone(command["run"])["exit"]["message"]
    assert message == "input args: the store answered 404"
    assert "grant-canary" not in said + (fresh.folder / "agent.err").read_text()
