"""A user's script, as he would run it: everything that works on his laptop is tried on the cluster.

Prints one JSON object: what each call gave, or the error that it raised.
"""

import asyncio
import dataclasses
import enum
import json
import os
import sys

import gridweave as gw
import helpers

ODD = {"PLAIN": "x=1", "EMPTY": "", "ODD": " \t\"'$HOME %PATH% \\n\\ é 漢字 🙂\r\n\x0b\u2028 end ", "BYTES": os.fsdecode(b"\xff\xfe raw")}


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    colour: Colour


class MineError(Exception):
    def __init__(self, point: Point) -> None:
        super().__init__(f"at {point.x}")
        self.point = point

    def __reduce__(self):
        return MineError, (self.point,)


def double(x):
    return 2 * x


@gw.function
def modules():
    return helpers.scaled(2)


@gw.function
def late():
    import late as imported

    return imported.ANSWER


@gw.function
def moved(point):
    assert isinstance(point, Point)
    assert point.colour is Colour.RED
    return dataclasses.replace(point, x=point.x + 1)


@gw.function
def raises(point):
    raise MineError(point)


@gw.function
async def waits(x):
    await asyncio.sleep(0.01)
    return x + 1


@gw.function
def counts(n):
    for number in range(n):
        print("at", number)
        yield number


@gw.function
def pools(method):
    import multiprocessing

    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(double, [1, 2, 3])


@gw.function
def runs_programs():
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", "import sys; print('child', sys.stdin.read()); sys.exit(3)"], input="in", capture_output=True, text=True
    )
    piped = subprocess.run("echo one | tr a-z A-Z", shell=True, capture_output=True, text=True)  # noqa: S602 - as users do
    return [done.returncode, done.stdout, piped.stdout]


@gw.function
def threads():
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(double, range(4)))


@gw.function(env={"env_vars": ODD})
def environment():
    return {name: list(os.environb[name.encode()]) for name in ODD}


@gw.function
def writes_files():
    from pathlib import Path

    Path("here.txt").write_text("kept while it runs")
    return [Path("here.txt").read_text(), os.access(os.path.expanduser("~"), os.X_OK), __name__, len(sys.argv)]


@gw.function
def signals():
    import signal

    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    blocked = [each.name for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
    return [seen, blocked, os.getpriority(os.PRIO_PROCESS, 0), signal.getsignal(signal.SIGINT) is signal.default_int_handler]


@gw.function(env={"working_dir": os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes")})
def in_working_dir():
    with open("pi.txt") as file:
        return file.read()


def tried(call):
    try:
        return call()
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error), "notes": getattr(error, "__notes__", [])}


def caught(call):
    try:
        call()
    except MineError as error:
        return [error.point == Point(1, Colour.RED), str(error), any("raise MineError(point)" in note for note in error.__notes__)]
    return "nothing was raised"


async def at_once():
    return await asyncio.gather(*(waits.remote.aio(n) for n in range(3)))


def main():
    point = Point(1, Colour.RED)
    back = tried(lambda: moved.remote(point))
    tries = {
        "modules": modules.remote,
        "late": late.remote,
        "raises": lambda: caught(lambda: raises.remote(point)),
        "async": lambda: waits.remote(1),
        "async at once": lambda: asyncio.run(at_once()),
        "generator": lambda: counts.remote(3),
        "fork": lambda: pools.remote("fork"),
        "spawn": lambda: pools.remote("spawn"),
        "forkserver": lambda: pools.remote("forkserver"),
        "programs": runs_programs.remote,
        "threads": threads.remote,
        "environment": environment.remote,
        "files": writes_files.remote,
        "signals": signals.remote,
        "working_dir": in_working_dir.remote,
        "map": lambda: list(modules_of.map(range(20))),
    }
    found = {name: tried(call) for name, call in tries.items()}
    found["dataclass"] = [back == Point(2, Colour.RED), type(back) is Point, getattr(back, "colour", None) is Colour.RED]
    with open(os.environ["FOUND"], "w") as file:
        json.dump(found, file)


@gw.function
def modules_of(radius):
    return helpers.scaled(radius)


if __name__ == "__main__":
    main()
