"""A function goes in; its outcome and its log come out."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.unit.agent.conftest import script

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return buffer.getvalue()


def test_a_result_comes_back_and_is_stored(either: Node) -> None:
    """The main job."""

    def square(x: int) -> int:
        print("squaring", x)
        return x * x

    report = either.run(square, (7,))
    assert report["exit"]["kind"] == "Returned"
    assert either.result(report["run"]) == 49
    assert either.log(report["run"]) == b"squaring 7\n"
    assert either.blobs.stored[f"jobs/{report['run']}/logs/0/000000000"] == b"squaring 7\n"


def test_an_exception_arrives_with_its_traceback_and_its_chain(node: Node) -> None:
    """A user debugs by it: his own frames, his own type, and what caused it."""

    def divide() -> None:
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            raise ValueError("no good") from error

    report = node.run(divide)
    payload = node.result(report["run"])
    assert report["exit"]["kind"] == "Raised"
    assert report["exit"]["message"] == "ValueError: no good"
    assert report["result"]["raised"] is True
    assert ("ValueError", "builtins", "no good") == (payload["type"], payload["module"], payload["message"])
    assert isinstance(cloudpickle.loads(payload["exception"]), ValueError)
    assert [("ZeroDivisionError", "cause")] == [(entry["type"], entry["link"]) for entry in payload["chain"]]
    assert payload["traceback"].startswith("Traceback (most recent call last):\n  File")
    assert "in divide" in payload["traceback"]
    assert "gridweave_agent" not in payload["traceback"]
    assert report["exit"]["traceback"] == payload["traceback"]
    assert payload["traceback"].encode() in node.log(report["run"])
    assert node.blobs.stored[f"jobs/{report['run']}/traceback.txt"].decode() == payload["traceback"]


def test_an_exception_that_cannot_be_pickled_still_tells_what_it_was(node: Node) -> None:
    """Otherwise the user would see our trouble instead of his own."""

    def fail() -> None:
        class OddError(Exception):
            def __reduce__(self) -> Any:
                raise RuntimeError("never")

        raise OddError("strange")

    payload = node.result(node.run(fail)["run"])
    assert payload["exception"] is None
    assert (payload["type"].rpartition(".")[2], payload["message"]) == ("OddError", "strange")


def test_a_result_that_cannot_be_pickled_names_its_type(node: Node) -> None:
    """The way out is to return something else, so he must know what it was."""

    def lock() -> object:
        import threading

        return threading.Lock()

    report = node.run(lock)
    assert report["exit"]["kind"] == "Raised"
    assert "_thread.lock" in report["exit"]["message"]


def test_a_result_over_the_limit_is_refused_in_words(make_node: Any) -> None:
    """A node's disk is not for ever, and half a result is none."""
    report = make_node(result_cap_bytes=100_000).run(lambda: bytes(200_000))
    assert report["exit"]["kind"] == "Raised"
    assert "larger than 100000 bytes" in report["exit"]["message"]


@pytest.mark.parametrize(("code", "kind"), [("return bytes(200_000)", "Returned"), ("raise ValueError('a user')", "Raised")])
def test_a_node_whose_disk_is_full_blames_itself_and_not_the_function(node: Node, tmp_path: Path, code: str, kind: str) -> None:
    """Who is told that his function raised looks for a fault that is not there; and one that did raise has its own words."""
    go = tmp_path / "go"
    wait = f"def wait():\n    import os, time\n    while not os.path.exists({str(go)!r}):\n        time.sleep(0.01)\n    {code}"
    run = node.launch(script(wait)["wait"])
    os.symlink("/dev/full", node.folder_of(run) / "result")
    go.touch()
    report = node.gone(run)
    assert (kind, None, True) == (report["exit"]["kind"], report["result"], report["started"])
    if kind == "Returned":
        assert "its result is lost: the disk of its node is full (No space left on device)" in report["exit"]["message"]
        assert "no fault of the function: submit it again" in report["exit"]["message"]
    else:
        assert "ValueError: a user" == report["exit"]["message"]
        assert "in wait" in report["exit"]["traceback"]
    assert os.path.exists("/dev/full")


@pytest.mark.parametrize(
    ("code", "kind", "number"),
    [("import sys; sys.exit(3)", "Exited", 3), ("import sys; sys.exit('why')", "Exited", 1), ("import os; os._exit(0)", "Exited", 0)],
)
def test_an_exit_without_a_result_says_its_code(node: Node, code: str, kind: str, number: int) -> None:
    """Scripts tell success by it; code 0 by os._exit says that no result came."""

    report = node.run(script(f"def leave():\n    {code}")["leave"])
    assert (report["exit"]["kind"], report["exit"]["code"]) == (kind, number)
    assert report["result"] is None


@pytest.mark.parametrize("code", ["", "0"])
def test_sys_exit_of_zero_is_success_with_no_value(node: Node, code: str) -> None:
    """A script that ends by it has done well."""

    assert node.value(script(f"def leave():\n    import sys\n    sys.exit({code})")["leave"]) is None


def test_a_signal_is_named_and_the_last_lines_are_kept(node: Node) -> None:
    """A crash in native code has no traceback: this is all there is."""

    def crash() -> None:
        import ctypes

        print("about to crash", flush=True)
        ctypes.string_at(0)

    report = node.run(crash)
    assert (report["exit"]["kind"], report["exit"]["signal"]) == ("Signalled", "SIGSEGV")
    assert "about to crash" in report["exit"]["log_tail"]


def test_async_functions_and_generators_are_run_to_their_end(node: Node) -> None:
    """What comes back must be a value."""

    async def later() -> str:
        import asyncio

        await asyncio.sleep(0)
        return "done"

    def numbers() -> Any:
        yield from range(3)

    async def more() -> Any:
        yield 1
        yield 2

    assert node.value(later) == "done"
    assert node.value(numbers) == [0, 1, 2]
    assert node.value(more) == [1, 2]


def test_classes_of_the_script_come_back_as_the_same_classes(node: Node) -> None:
    """A dataclass that went out and came back must be equal to the one at home."""
    names = script(
        "import dataclasses, enum\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n    colour: Colour\n"
        "def move(point):\n    assert isinstance(point, Point)\n    return Point(point.x + 1, Colour.RED)\n"
    )
    assert names["Point"](2, names["Colour"].RED) == node.value(names["move"], (names["Point"](1, names["Colour"].RED),))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_finds_the_functions_of_the_script(either: Node, method: str) -> None:
    """It works on the laptop, where the script is a file that children can import."""
    names = script(
        "import multiprocessing\n"
        "def double(x):\n    return 2 * x\n"
        f"def main():\n    with multiprocessing.get_context({method!r}).Pool(2) as pool:\n        return pool.map(double, range(4))\n"
    )
    assert either.value(names["main"]) == [0, 2, 4, 6]


def test_the_end_of_the_process_is_that_of_a_script(node: Node) -> None:
    """Handlers run, threads are joined, buffers of open files go out."""

    source = (
        "import atexit, threading, time\n"
        "def say(text, pause=0):\n    time.sleep(pause)\n    print(text)\n"
        "def work():\n"
        "    global kept\n"
        "    kept = open('left-open.txt', 'w')\n"
        "    kept.write('flushed')\n"
        "    atexit.register(say, 'handler')\n"
        "    threading.Thread(target=say, args=('thread', 0.05)).start()\n"
        "    print('no newline', end='')\n"
    )
    report = node.run(script(source)["work"])
    assert report["exit"]["kind"] == "Returned"
    assert node.log(report["run"]) == b"no newlinethread\nhandler\n"
    assert (node.folder_of(report["run"]) / "work/left-open.txt").read_text() == "flushed"


def test_an_exit_in_an_exit_handler_does_not_lose_the_result(node: Node) -> None:
    """The value was returned; what comes after it can't unmake it."""

    def work() -> int:
        import atexit

        atexit.register(os._exit, 7)
        return 5

    assert node.value(work) == 5


def test_closed_standard_output_is_no_failure(node: Node) -> None:
    """Daemons and some libraries close it."""

    def work() -> int:
        import sys

        sys.stdout.close()
        os.close(1)
        os.close(2)
        return 5

    assert node.value(work) == 5


def test_the_log_is_kept_byte_for_byte_in_order(node: Node) -> None:
    """Progress bars, other encodings and line ends of other systems are the user's business."""

    def work() -> None:
        import sys

        for n in range(200):
            os.write(1 + n % 2, b"\xff\x00\r%d\x85\n" % n)
            print("é", n, end="\r")
        sys.stderr.write("last")

    expected = b"".join(b"\xff\x00\r%d\x85\n" % n + f"é {n}\r".encode() for n in range(200)) + b"last"
    assert node.log(node.run(work)["run"]) == expected


def test_a_line_without_end_is_cut_at_the_limit_and_the_run_goes_on(make_node: Any) -> None:
    """A node's disk and memory must bear a user's endless loop."""
    node = make_node(log_cap_bytes=3_000_000)

    def flood() -> int:
        for _ in range(100):
            os.write(1, b"x" * 1_000_000)
        return 1

    report = node.run(flood)
    log = node.log(report["run"])
    assert report["exit"]["kind"] == "Returned"
    assert log.startswith(b"x" * 3_000_000 + b"\n[gridweave: the log reached its limit of 3000000 bytes")
    assert len(log) < 3_000_200


def test_code_beside_the_script_comes_first_and_its_files_can_be_read(node: Node) -> None:
    """As on the laptop, where the script's folder is first on sys.path; children find it too."""
    code = node.blobs.readable(zipped(random="answer = 42", package__part="text = open(__file__).read()"))

    source = (
        "import os, subprocess, sys\n"
        "def work():\n"
        "    from package import part\n"
        "    child = subprocess.run([sys.executable, '-c', 'import random; print(random.answer)'], capture_output=True, check=True)\n"
        "    return int(child.stdout), 'open' in part.text, os.path.basename(os.getcwd())\n"
    )
    assert node.value(script(source)["work"], inputs={"code": code}) == (42, True, "code")


def test_a_working_dir_is_where_the_function_starts(node: Node) -> None:
    """Relative paths in user code mean it."""
    folder = node.blobs.readable(zipped(data="here"))
    assert node.value(lambda: Path("data.py").read_text(), inputs={"working_dir": folder}, env={"working_dir": True}) == "here"


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out"])
def test_a_zip_that_names_files_outside_its_folder_is_refused(node: Node, name: str) -> None:
    """It is unpacked by the agent, that may write where the user may not."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "x")
    command = node.prepared(lambda: 1, inputs={"code": node.blobs.readable(buffer.getvalue())})
    node.client.commands(1, [command])
    report = node.gone(command["run"])
    assert report["exit"]["kind"] == "SetupFailed"
    assert "outside its folder" in report["exit"]["message"]


def test_environment_values_arrive_byte_for_byte(node: Node) -> None:
    """Tokens, JSON and names in other encodings must not be mended."""
    values = {"PLAIN": " x=1\n$HOME ", "BYTES": "caf\udce9", "EMPTY": "", "UNI": "日本"}
    expected = {key: value.encode("utf-8", "surrogateescape") for key, value in values.items()}

    def work() -> dict[str, bytes]:
        return {key: os.environb[key.encode()] for key in ("PLAIN", "BYTES", "EMPTY", "UNI")}

    assert node.value(work, env={"env_vars": values}) == expected


def test_only_the_booked_gpus_are_visible_and_frameworks_know_their_share(node: Node) -> None:
    """A neighbour's GPU must not even be seen, nor his memory be taken."""

    def work() -> dict[str, str]:
        return dict(os.environ)

    seen = node.value(work, slots=[{"gpu": 1, "mib": 20_480}])
    assert seen["CUDA_VISIBLE_DEVICES"] == "1"
    assert seen["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2500"
    assert seen["GRIDWEAVE_VRAM_MIB"] == "20480"


def test_torch_gets_its_share_when_it_first_touches_cuda(node: Node) -> None:
    """PyTorch reads no variable for it, and starting CUDA at import would break forks."""
    torch = (
        "class cuda:\n    calls, lazy = [], []\n    device_count = staticmethod(lambda: 1)\n"
        "    set_per_process_memory_fraction = staticmethod(lambda *given: cuda.calls.append(given))\n"
        "    _lazy_call = staticmethod(lambda call: cuda.lazy.append(call))\n"
    )

    source = (
        "def work():\n    import torch\n    before = len(torch.cuda.calls)\n    torch.cuda.lazy[0]()\n    return before, torch.cuda.calls"
    )
    assert node.value(script(source)["work"], inputs={"code": node.blobs.readable(zipped(torch=torch))}) == (0, [(0.1, 0)])


def test_an_input_that_is_not_what_it_should_be_fails_the_set_up(node: Node) -> None:
    """Running half a function, or another one, would be worse."""
    command = node.prepared(lambda: 1)
    command["inputs"]["args"]["sha256"] = "0" * 64
    node.client.commands(1, [command])
    report = node.gone(command["run"])
    assert (report["exit"]["kind"], report["started"]) == ("SetupFailed", False)
    assert "digest" in report["exit"]["message"]


def test_an_input_whose_store_is_away_is_no_fault_of_the_run(node: Node) -> None:
    """A gateway that is down for too long costs an attempt, and not the job."""
    command = node.prepared(lambda: 1, setup_bound_ms=300)
    command["inputs"]["args"]["url"] = "http://127.0.0.1:9/nobody-listens"
    node.client.commands(1, [command])
    report = node.gone(command["run"])
    assert (report["exit"]["kind"], report["started"], report["ran_ms"]) == ("NeverRan", False, 0)
    assert "can't be reached" in report["exit"]["message"]
