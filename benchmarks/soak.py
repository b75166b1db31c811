"""Many short jobs, and whether the memory of gateway and agent stays flat (`make soak`; not for CI).

    python -m benchmarks.soak [--jobs 50000] [--batch 1000] [--most 1.25]

Prints resident memory after each batch; the ratios compare the last batch with the one at a tenth of the way. Fails if
one of them is above `--most`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gridweave as gw

from benchmarks.standing import ADMIN, finish, say, standing


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has no resident memory: it is gone")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def agents() -> list[int]:
    """Processes of Ray that carry an agent."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if each.read_bytes().startswith(b"ray::AgentStub"):
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--most", type=float, default=1.25, help="ratio of memory that still counts as flat")
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    given = parser.parse_args()
    if not 0 < given.batch <= given.jobs:
        parser.error(f"--batch is {given.batch}, --jobs {given.jobs}: give a batch of 1 to that many jobs")
    before = set(agents())
    seen: list[tuple[float, float]] = []
    with standing() as on:
        gw.use(gw.Client(on.gateway, ADMIN))
        echo = gw.function(vram="1GB")(lambda x: x)
        (worker,), (agent,) = children(on.pid), [each for each in agents() if each not in before]
        for batch in range(given.jobs // given.batch):
            if list(echo.map(range(given.batch))) != list(range(given.batch)):
                raise SystemExit("wrong results")
            seen.append((resident_mb(worker), resident_mb(agent)))
            say(f"{(batch + 1) * given.batch:>7} jobs: gateway {seen[-1][0]:.0f} MB, agent {seen[-1][1]:.0f} MB")
    early, late = seen[len(seen) // 10], seen[-1]
    gateway, agent_ = (round(late[each] / early[each], 3) for each in (0, 1))
    finish({"jobs": len(seen) * given.batch, "gateway_ratio": gateway, "agent_ratio": agent_})
    if max(gateway, agent_) > given.most:
        raise SystemExit(f"memory is not flat: it has grown by more than {given.most}")


if __name__ == "__main__":
    main()
