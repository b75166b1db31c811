"""What a run leaves reaches the blob store, whatever the store does meanwhile."""

from __future__ import annotations

import time
from email.parser import BytesParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.agent.conftest import script

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


noisy = script("def noisy():\n    for n in range(1000): print(f'line {n:04d}')\n    return 'x' * 5000")["noisy"]


def chunks(node: Node, run: str) -> list[bytes]:
    return [node.blobs.stored[key] for key in sorted(node.blobs.stored) if key.startswith(f"jobs/{run}/logs/0/")]


def test_a_log_is_cut_into_numbered_chunks_that_join_to_the_whole(make_node: Any) -> None:
    """Readers of a closed run read these, in the order of their names."""
    node = make_node(chunk_bytes=3000)
    run = node.run(noisy)["run"]
    node.until(run, lambda report: report["stored"])
    assert "".join(f"line {n:04d}\n" for n in range(1000)).encode() == b"".join(chunks(node, run))
    assert max(map(len, chunks(node, run))) <= 3000


def test_a_slow_log_is_stored_while_it_runs(node: Node) -> None:
    """A gateway that can't reach the node shows what there is."""

    def work() -> None:
        import time

        print("first", flush=True)
        time.sleep(1000)

    run = node.launch(work)
    while not chunks(node, run):
        time.sleep(0.01)
    assert chunks(node, run) == [b"first\n"]
    assert node.report(run)["stored"] is False
    node.ask("kill", run, grace_ms=0)


def test_a_store_that_fails_is_asked_again(fresh: Node) -> None:
    """Nothing holds a GPU for it, and nothing is lost by it."""
    fresh.blobs.refuse = [503, 500, 429]
    report = fresh.run(noisy)
    assert fresh.result(report["run"]) == "x" * 5000
    assert fresh.report(report["run"])["stored_error"] == ""


def test_an_expired_grant_waits_for_the_next(fresh: Node) -> None:
    """The scheduler was away for an hour; nothing has failed."""
    fresh.blobs.refuse = [403] * 1_000
    command = fresh.prepared(noisy)
    fresh.client.commands(1, [command])
    run = command["run"]
    fresh.until(run, lambda report: report["state"] == "ready")
    fresh.ask("go", run)
    report = fresh.until(run, lambda report: report["state"] == "gone" and report["stored_error"])
    assert "the store answered 403" in report["stored_error"]
    assert fresh.blobs.stored.keys().isdisjoint(f"jobs/{run}/{name}" for name in ("result", "logs/0/000000000"))
    fresh.blobs.refuse = []
    assert fresh.ask("grant", run, output=fresh.blobs.writable(run))["ok"]
    assert fresh.result(run) == "x" * 5000


def test_only_the_store_says_that_a_grant_has_expired(fresh: Node) -> None:
    """A node whose wall clock is an hour ahead would else never store anything again."""
    command = fresh.prepared(noisy)
    command["output"]["expires_ms"] = 1
    fresh.client.commands(1, [command])
    fresh.until(command["run"], lambda report: report["state"] == "ready")
    fresh.ask("go", command["run"])
    assert fresh.result(command["run"]) == "x" * 5000


def test_the_agent_reads_no_wall_clock() -> None:
    """What is not read can't jump: times of runs, time-outs and retries are of clocks that only go on."""
    sources = (Path(__file__).parents[3] / "agent/gridweave_agent").glob("*.py")
    readers = ("time.time(", "time_ns()", "datetime", "CLOCK_REALTIME")
    assert [] == [(source.name, reader) for source in sources for reader in readers if reader in source.read_text()]


def test_a_renewed_grant_survives_a_restart(fresh: Node) -> None:
    """The successor must not go on with the one that was refused."""
    command = fresh.prepared(noisy)
    command["output"]["expires_ms"] = 1
    fresh.client.commands(1, [command])
    run = command["run"]
    fresh.until(run, lambda report: report["state"] == "ready")
    fresh.ask("grant", run, output=fresh.blobs.writable(run))
    fresh.restart()
    fresh.until(run, lambda report: report["state"] == "ready")
    fresh.ask("go", run)
    assert fresh.result(run) == "x" * 5000


def test_a_form_upload_carries_the_fields_before_the_file(fresh: Node) -> None:
    """S3's presigned posts want the key and the policy first."""
    run = "job9/1"
    output = fresh.blobs.writable(run, method="POST", url=f"{fresh.blobs.url}/bucket", fields={"policy": "p0", "x-sig": "s"})
    fresh.run(lambda: "value", run=run, output=output)
    fresh.until(run, lambda report: report["stored"])
    body = fresh.blobs.stored["bucket"]
    boundary = body.split(b"\r\n", 1)[0][2:]
    form = BytesParser().parsebytes(b"Content-Type: multipart/form-data; boundary=" + boundary + b"\r\n\r\n" + body)
    fields: Any = form.get_payload()
    parts = [(part.get_param("name", header="content-disposition"), part.get_payload(decode=True)) for part in fields]
    assert ["policy", "x-sig", "key", "file"] == [name for name, _ in parts]
    assert parts[2][1] == b"jobs/job9/1/result"
    assert b"value" in bytes(parts[3][1])


def test_a_run_without_anything_to_store_is_stored(fresh: Node) -> None:
    """Otherwise it could never be closed."""

    def leave() -> None:
        import os

        os._exit(4)

    run = fresh.run(leave)["run"]
    assert fresh.until(run, lambda report: report["stored"])["result"] is None
    assert fresh.blobs.uploads == []
