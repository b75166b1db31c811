"""The last log lines are kept beside the state, in little room."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from runtimes.log_lines import LastLines


def test_only_the_last_lines_are_kept(tmp_path: Path) -> None:
    """A disk full of logs has stopped more services than any bug."""
    kept = LastLines(tmp_path / "log.jsonl", limit=1000)
    for number in range(500):
        kept(None, "info", {"event": "something", "number": number})
    numbers = [json.loads(line)["number"] for line in kept.read().splitlines()]
    assert numbers == list(range(numbers[0], 500))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2500


def test_a_line_that_cannot_be_kept_stops_nobody(tmp_path: Path) -> None:
    """Logging is never the reason why something failed."""
    event = {"event": "something"}
    assert event == LastLines(tmp_path / "missing" / "log.jsonl")(None, "info", dict(event))


def test_an_exception_is_kept_with_its_traceback(tmp_path: Path) -> None:
    """It is what the bug report is about."""
    kept = LastLines(tmp_path / "log.jsonl")
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        kept(None, "error", {"event": "failed", "exc_info": True})
    assert "RuntimeError: broken" in json.loads(kept.read())["exception"]


def test_a_line_is_one_write() -> None:
    """Several processes write to one stderr: between two writes of one line another one's would come."""
    program = "from runtimes.log_lines import log_to_stderr; import structlog; log_to_stderr(); structlog.get_logger().info('x')"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # which keeps writes apart
    with ours, theirs:
        subprocess.run([sys.executable, "-u", "-c", program], stderr=theirs.fileno(), check=True, cwd=Path(__file__).parents[3])
        theirs.close()
        line = ours.recv(4096)
        assert (b"}\n", b"") == (line[-2:], ours.recv(4096))
