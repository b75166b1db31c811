"""The small pure parts of the agent, each on its own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from gridweave_agent import ending, frames, hygiene, launch, probe, protocol
from gridweave_agent.ending import Seen
from gridweave_agent.frames import FrameReader
from gridweave_agent.logfile import LogFile
from gridweave_agent.protocol import EnvSpec, Gpu, Grant, Prepare, Slot
from gridweave_agent.rundir import RunDir, write_json


def framed(*pieces: tuple[bytes, bytes]) -> bytes:
    return b"".join(kind + len(payload).to_bytes(8, "big") + payload for kind, payload in pieces)


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_frames_may_come_in_pieces_of_any_size(tmp_path: Path, step: int) -> None:
    """A pipe cuts where it likes."""
    path = tmp_path / "result"
    reader = FrameReader(str(path), 1000)
    data = framed((frames.READY, b""), (frames.NOTE, b'{"type": "E"}'), (frames.DATA, b"ab"), (frames.DATA, b"cd"), (frames.EXCEPTION, b""))
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.close()
    assert (True, "X", {"type": "E"}, 4, b"abcd") == (reader.ready, reader.complete, reader.note, reader.size, path.read_bytes())


def test_half_a_result_is_none(tmp_path: Path) -> None:
    """The process died while it sent."""
    reader = FrameReader(str(tmp_path / "result"), 1000)
    reader.feed(framed((frames.DATA, b"abc")) + framed((frames.DATA, b"abc"))[:-1])
    reader.close()
    assert reader.complete == ""
    assert list(tmp_path.iterdir()) == []


def test_a_dropped_attempt_leaves_nothing_in_the_result(tmp_path: Path) -> None:
    """A value that fails to pickle half-way is followed by the exception that says so."""
    path = tmp_path / "result"
    reader = FrameReader(str(path), 1000)
    reader.feed(framed((frames.DATA, b"long rubbish"), (frames.DROP, b""), (frames.DATA, b"ok"), (frames.VALUE, b"")))
    reader.close()
    assert (b"ok", 2, "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df") == (path.read_bytes(), reader.size, reader.sha256)


def test_a_result_over_the_cap_is_not_kept(tmp_path: Path) -> None:
    """And the reader goes on reading, or the process would hang."""
    reader = FrameReader(str(tmp_path / "result"), 10)
    reader.feed(framed((frames.DATA, b"x" * 8), (frames.DATA, b"x" * 8), (frames.VALUE, b"")))
    reader.close()
    assert "larger than the 10 bytes" in reader.failure
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("seen", "kind", "part"),
    [
        (Seen(started=True, status=0, complete="R"), "Returned", ""),
        (Seen(started=True, status=9, complete="R", killed="asked"), "Returned", ""),
        (Seen(started=True, status=0, complete="R", failure="it is too big"), "Raised", "it is too big"),
        (Seen(started=True, status=256, complete="X", note={"type": "E", "message": ""}), "Raised", "E"),
        (Seen(started=True, status=9, killed="asked"), "Killed", "asked"),
        (Seen(started=True, status=9, oom=True), "Signalled", "out of memory"),
        (Seen(started=True, status=15), "Signalled", "SIGTERM"),
        (Seen(started=True, status=int(signal.SIGRTMIN) + 1), "Signalled", "SIG"),
        (Seen(started=True, status=7 << 8), "Exited", "code 7"),
        (Seen(started=True, status=None), "RunnerLost", ""),
        (Seen(started=False, status=9, killed="asked"), "NeverRan", "asked"),
        (Seen(started=False, status=9), "SetupFailed", "before it was told to go"),
    ],
)
def test_how_a_run_ended(seen: Seen, kind: str, part: str) -> None:
    """A whole result comes first, then what we did, then how the process ended."""
    how = ending.classify(seen)
    assert how.kind == kind
    assert part in how.message


def test_only_a_kill_signal_is_blamed_on_memory() -> None:
    """A crash while a neighbour ran out of memory is a crash."""
    assert ending.classify(Seen(started=True, status=11, oom=True)).oom is False
    assert ending.classify(Seen(started=True, status=9, oom=True)).oom is True


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 81_920, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 40_960, "A100-40GB"),
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80GB"),
        ("NVIDIA L4", 23_034, "L4-24GB"),
        ("Tesla T4", 15_360, "T4-16GB"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX4090-24GB"),
    ],
)
def test_a_model_is_named_as_price_lists_name_it(name: str, mib: int, expected: str) -> None:
    """Asks and tariffs speak of these names."""
    assert probe.model_name(name, mib) == expected


def test_a_machine_without_a_driver_has_no_gpus() -> None:
    """An agent starts there all the same, and says so."""
    if probe.gpus():
        pytest.skip("this machine has an NVIDIA driver")
    assert probe.gpus() == ()


GPUS = {
    0: Gpu(0, "A100-80GB", "nvidia", 81_920, "GPU-a"),
    1: Gpu(1, "A100-80GB", "nvidia", 81_920, "GPU-b"),
    2: Gpu(2, "MI300X-192GB", "amd", 196_608),
    3: Gpu(3, "Max1550-128GB", "intel", 131_072),
}


def prepare(*slots: Slot, **env_vars: str) -> Prepare:
    grant = Grant("PUT", "http://h/{name}")
    return Prepare("j/1", "u", "f", slots, (), EnvSpec(env_vars=env_vars), {"function": grant, "args": grant}, grant, 1000)


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ((Slot(1, 1), Slot(0, 1)), {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}),
        ((Slot(2, 1),), {"HIP_VISIBLE_DEVICES": "2", "ROCR_VISIBLE_DEVICES": "2"}),
        ((Slot(3, 1),), {"ZE_AFFINITY_MASK": "3"}),
        ((), {"CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_each_vendors_own_variable_shows_the_booked_devices(slots: tuple[Slot, ...], expected: dict[str, str]) -> None:
    """By UUID where there is one: indexes depend on who counts."""
    assert {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **expected} == launch.devices(prepare(*slots), GPUS)


def test_what_pins_the_devices_can_not_be_overridden() -> None:
    """A user's CUDA_VISIBLE_DEVICES would be his neighbour's GPU."""
    built = launch.environment(prepare(Slot(0, 40_960), CUDA_VISIBLE_DEVICES="1", PATH="/mine"), GPUS, [0.5], "/code", "/venv", "/bin")
    assert ("GPU-a", "/mine", "/code", "0.5000") == tuple(
        built[name] for name in ("CUDA_VISIBLE_DEVICES", "PATH", "PYTHONPATH", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    )


def test_a_whole_gpu_is_not_limited() -> None:
    """Frameworks then keep their own defaults."""
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in launch.environment(prepare(Slot(0, 81_920)), GPUS, [1.0], "", "", "/bin")


def test_the_environment_is_an_allow_list() -> None:
    """A new secret on the node must not pass by being new."""
    node = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "AWS_KEY": "x",
        "UV_INDEX_URL": "u",
        "https_proxy": "p",
        "SSL_CERT_FILE": "c",
        "RAY_X": "r",
        "GRIDWEAVE_T": "t",
    }
    assert {"PATH": "/bin", "LC_ALL": "C", "SSL_CERT_FILE": "c"} == hygiene.scrubbed(node)
    assert {"PATH", "LC_ALL", "SSL_CERT_FILE", "UV_INDEX_URL", "https_proxy"} == set(hygiene.scrubbed_for_installer(node))


def test_a_full_disk_loses_bytes_and_says_how_many(tmp_path: Path) -> None:
    """The run must not die of its log."""
    path = tmp_path / "log"
    log = LogFile(str(path), 1000)
    log.write(b"before\n")
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        log.write(b"0123456789")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.close()
    assert path.read_bytes() == b"before\n012\n[gridweave: 7 bytes of the log are lost: the node's disk was full]\n"


def test_run_folders_are_apart_even_for_names_that_look_alike(tmp_path: Path) -> None:
    """A folder is a lock: two runs in one would be one."""
    names = ["a/1", "a.1", "a:1", "..", "x" * 300, "x" * 301]
    paths = [RunDir.of(tmp_path, name).path for name in names]
    assert len(names) == len(set(paths))
    assert {tmp_path} == {Path(path).parent for path in paths}


def test_stored_forms_carry_their_schema(tmp_path: Path) -> None:
    """A newer release must know what it reads."""
    write_json(str(tmp_path / "x"), {"a": 1})
    assert (tmp_path / "x").read_text() == '{"schema": 1, "a": 1}'


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"output": {"method": "DELETE", "url": "http://x"}}, "output.method: 'DELETE' given"),
        ({"output": {"method": "PUT", "url": "file:///etc/passwd"}}, "output.url: wanted an absolute http or https address"),
        (
            {"inputs": {"function": {"method": "GET", "url": "http://x"}, "other": {"method": "GET", "url": "http://x"}}},
            "inputs.other: wanted function",
        ),
        ({"env": {"pip": [1]}}, "pip: wanted a list of non-empty strings"),
        ({"setup_bound_ms": True}, "setup_bound_ms: bool given"),
    ],
)
def test_a_prepare_that_can_not_be_understood_names_the_field(change: dict[str, Any], wrong: str) -> None:
    """The other side is another release of ours, or a bug."""
    grant = {"method": "GET", "url": "http://x"}
    good = {
        "run": "a/1",
        "slots": [],
        "inputs": {"function": grant, "args": grant},
        "output": {"method": "PUT", "url": "http://x"},
        "setup_bound_ms": 1,
    }
    assert Prepare.parse(good).run == "a/1"
    with pytest.raises(protocol.BadMessage, match=wrong):
        Prepare.parse({**good, **change})
