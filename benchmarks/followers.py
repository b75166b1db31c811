"""Five hundred followers of one job's log on one gateway process: does each get every line, in order?

    python -m benchmarks.followers [--followers 500] [--lines 2000]

complete: how many got all of it. kb_per_follower: by how much the process that serves grew, for each.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import gridweave as gw
from gridweave.calls import spawn

from benchmarks.standing import ADMIN, Standing, finish, say, standing
from benchmarks.wire_clients import log_of


def counts(flag: str, lines: int) -> None:
    import os
    import time

    while not os.path.exists(flag):
        time.sleep(0.01)
    for n in range(lines):
        print(f"line {n:06d} of a log that many people read along", flush=True)
        time.sleep(0.002)


counts.__module__ = "__main__"


async def follow(on: Standing, job: str, followers: int, begin: Callable[[], None]) -> tuple[list[bytes], int]:
    """begin: lets the job write. What each of them got, and the KB by which the server grew."""

    async def one() -> bytes:
        pieces = [piece async for piece in log_of(on.gateway, f"/v1/jobs/{job}/logs?follow=true", {"Authorization": f"Bearer {ADMIN}"})]
        return b"".join(pieces)

    before = resident_kb(on.worker)
    tasks = [asyncio.create_task(one()) for _ in range(followers)]
    await asyncio.sleep(3)  # until all of them are connected
    begin()
    most = before
    while not all(task.done() for task in tasks):
        most = max(most, resident_kb(on.worker))
        await asyncio.sleep(0.2)
    for why, times in Counter(repr(task.exception()) for task in tasks if task.exception() is not None).items():
        say(f"{times} broke off: {why}")
    return [task.result() for task in tasks if task.exception() is None], most - before


def resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--followers", type=int, default=500)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    given = parser.parse_args()
    with standing() as on:
        flag = on.folder / "flag"
        client = gw.Client(on.gateway, ADMIN)
        job = spawn(client, gw.function(vram="1GB")(counts), (str(flag), given.lines), {})
        while job.status()["phase"] != "Running":
            time.sleep(0.1)
        began = time.perf_counter()
        got, grown = asyncio.run(follow(on, job.id, given.followers, flag.touch))
        took = time.perf_counter() - began
    whole = b"".join(b"line %06d of a log that many people read along\n" % n for n in range(given.lines))
    complete = sum(each == whole for each in got)
    say(f"{given.followers} followers, {complete} got all of the {given.lines} lines in order; {took:.1f} s, the server grew by {grown} KB")
    finish({"followers": given.followers, "complete": complete, "kb_per_follower": round(grown / given.followers, 1)})
    if complete != given.followers:
        raise SystemExit("some did not get every line")


if __name__ == "__main__":
    main()
