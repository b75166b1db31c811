"""A function goes in, its value comes back: of scripts, notebooks, closures, async functions and generators."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import gridweave as gw
import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project


def test_a_script_gets_the_value_and_the_log(gateway: Gateway, project: Project, python: Program) -> None:
    """The first thing that anybody tries; piped, there is the log on stdout and nothing else."""
    project(
        script="""
        import gridweave as gw

        @gw.function(vram="8GB")
        def square(x):
            print("squaring", x)
            return x * x

        if __name__ == "__main__":
            print(square.remote(7))
        """
    )
    done = python("script.py")
    assert (0, "squaring 7\n49\n", "") == (done.returncode, done.stdout, done.stderr)
    assert "8GB" == gateway.bodies()[0]["vram"]


def test_dataclasses_and_enums_of_the_script_come_back_equal(gateway: Gateway, project: Project, python: Program) -> None:
    """Sent by value, a class would be another class on its way back, and nothing equal."""
    project(
        script="""
        import dataclasses, enum
        import gridweave as gw

        class Colour(enum.Enum):
            RED = 1

        @dataclasses.dataclass(frozen=True)
        class Car:
            colour: Colour
            wheels: int = 4

        @gw.function
        def build(car):
            return dataclasses.replace(car, wheels=car.wheels + 1), Colour.RED

        car, red = build.remote(Car(Colour.RED))
        assert car == Car(Colour.RED, 5) and type(car) is Car, car
        assert red is Colour.RED, red
        """
    )
    assert (0, "") == ((done := python("script.py")).returncode, done.stderr)


def test_functions_typed_into_a_prompt_work(gateway: Gateway, python: Program) -> None:
    """A notebook or REPL has no file to read sources from."""
    done = python("-c", "import gridweave as gw\nfactor = 3\nf = gw.function(lambda x: x * factor)\nprint(f.remote(5), f(1))")
    assert (0, "15 3\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_decorated_function_still_runs_here() -> None:
    """It is tested and called on the laptop as before."""

    @gw.function(vram=2, labels={"team": "a"})
    def double(x: int, *, plus: int = 0) -> int:
        """Twice."""
        return 2 * x + plus

    assert (7, "double", "Twice.") == (double(3, plus=1), double.__name__, double.__doc__)


def test_functions_may_call_each_other_and_themselves(gateway: Gateway) -> None:
    """A decorated name inside a function is the decorated object: it must come along, and recursion must end."""

    @gw.function
    def add(a: int, b: int) -> int:
        return a + b

    @gw.function
    def total(n: int) -> int:
        return 0 if n == 0 else add(n, total(n - 1))

    assert 10 == total.remote(4)


def test_async_functions_and_generators_give_their_values(gateway: Gateway) -> None:
    """They are run as they would be here; a generator's value is the list of what it yields."""

    @gw.function
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    @gw.function
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    assert 8 == later.remote(7)  # type: ignore[comparison-overlap]  # the decorator keeps the local type
    assert [0, 1, 2] == count.remote(3)  # type: ignore[comparison-overlap]  # likewise


def test_a_function_may_be_run_once_without_decorating(gateway: Gateway) -> None:
    """For a function of somebody else's module."""
    import math

    def root(x: int) -> int:
        return math.isqrt(x)

    assert 3 == gw.run(root, 9, vram="2GB")
    assert "2GB" == gateway.bodies()[0]["vram"]


async def test_many_awaited_calls_run_at_once(gateway: Gateway, tmp_path: Path) -> None:
    """Waiting in a thread pool of a few threads would queue them up behind each other."""
    place = str(tmp_path)

    @gw.function
    def meet(x: int) -> int:
        import time
        from pathlib import Path

        Path(place, f"came-{x}").touch()
        for _ in range(600):
            if len(list(Path(place).glob("came-*"))) == 8:
                return x
            time.sleep(0.1)
        raise TimeoutError("the others did not come")

    assert list(range(8)) == await asyncio.gather(*(meet.remote.aio(x) for x in range(8)))


async def test_cancelling_the_task_cancels_the_job(gateway: Gateway) -> None:
    """A timeout around an awaited call must not leave a GPU busy."""

    @gw.function
    def forever() -> None:
        import time

        time.sleep(600)

    job = await forever.spawn.aio()
    task = asyncio.create_task(forever.remote.aio())
    while len(gateway.runs) < 2:  # noqa: ASYNC110 - the server is in another thread
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ["Running", "Cancelled"] == [run.phase for run in gateway.runs.values()]
    job.cancel()


def test_a_job_is_a_handle(gateway: Gateway) -> None:
    """spawn gives something to come back to, also from its id alone."""

    @gw.function(name="shout")
    def shout(text: str) -> str:
        print(text)
        return text.upper()

    job = shout.spawn("hé")
    assert "HÉ" == job.result(timeout=30)
    assert ("Completed", "shout") == (job.status()["phase"], job.status()["name"])
    assert "hé\n" == "".join(gw.Job(job.id).logs()) == "".join(job.logs(follow=True))


def test_another_process_has_a_job_again_by_its_id(gateway: Gateway, project: Project, python: Program) -> None:
    """The guide says so: a script submits in the evening, another looks in the morning. What it can't rebuild is told."""
    project(
        cars="""
        class Car: ...
        """,
        evening="""
        import gridweave as gw
        import cars

        class Own: ...

        @gw.function
        def build(own):
            print("building")
            return Own() if own else cars.Car()

        print(build.spawn(False).id, build.spawn(True).id)
        """,
        morning="""
        import sys
        import cars
        import gridweave as gw

        job = gw.Job(sys.argv[1])
        for _ in range(2):
            assert isinstance(job.result(timeout=60), cars.Car)
        print(job.status()["phase"], "".join(job.logs()).strip())
        print(type(gw.Job(sys.argv[2]).result(timeout=60)).__name__)
        sys.modules["cars"] = None
        try:
            job.result()
        except gw.GridweaveError as error:
            print(error)
        """,
    )
    ids = python("evening.py").stdout.split()
    done = python("morning.py", *ids)
    said = done.stdout.splitlines()
    assert (0, "Completed building") == (done.returncode, said[0]), done.stderr
    assert "Own" == said[1]
    assert f"The result of job {ids[0]} cannot be rebuilt here" in said[2]
    assert "Install 'cars' here" in said[2]


def test_result_raises_timeout_error_while_the_job_runs(gateway: Gateway) -> None:
    """Not ended is not failed: one may ask again."""

    @gw.function
    def forever() -> None:
        import time

        time.sleep(600)

    job = forever.spawn()
    with pytest.raises(TimeoutError, match=job.id):
        job.result(timeout=0.1)
    job.cancel()
    with pytest.raises(gw.Cancelled):
        job.result()


def test_what_is_not_small_is_uploaded_and_only_once(gateway: Gateway, project: Project, python: Program) -> None:
    """Large payloads stay out of the request, and equal bytes are not sent again."""
    project(
        script="""
        import gridweave as gw

        @gw.function
        def size(data):
            return len(data)

        data = bytes(range(256)) * 1000
        print([size.remote(data), size.remote(data)])
        """
    )
    assert ("[256000, 256000]\n", "") == ((done := python("script.py")).stdout, done.stderr)
    assert (2, 1) == (gateway.calls["POST uploads"], sum(count for call, count in gateway.calls.items() if call.startswith("PUT")))
    assert {"sha256", "size"} == set(gateway.bodies()[0]["args"])


def test_environment_and_folder_travel(gateway: Gateway, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values arrive byte for byte, and relative paths are those of the folder that was named."""
    folder = project(notes="text = 1")
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("from the folder")

    @gw.function(env={"env_vars": {"A": " b=ü\n"}, "working_dir": str(folder)})
    def look() -> tuple[str, str]:
        import os
        from pathlib import Path

        return os.environ["A"], Path("data/a.txt").read_text()

    assert (" b=ü\n", "from the folder") == look.remote()


def test_unfit_values_are_refused_at_the_decorator() -> None:
    """Where they are written is where the mistake is."""
    with pytest.raises(gw.Refused, match="finite"):
        gw.function(vram=float("nan"))
    with pytest.raises(gw.Refused, match=r"'pips'.*pip, uv"):
        gw.function(env={"pips": []})
    with pytest.raises(gw.Refused, match="list of requirements"):
        gw.function(env={"pip": "numpy"})
    with pytest.raises(gw.Refused, match="as str"):
        gw.function(env={"env_vars": {"A": 1}})
    with pytest.raises(TypeError, match="decorates functions"):
        gw.function(AsyncIterator)


def test_a_submit_that_can_not_be_paid_leaves_no_file_open(gateway: Gateway) -> None:
    """A notebook that tries again and again must not run out of file descriptors; an unclosed file is an error here."""

    @gw.function
    def f(x: int) -> int:
        return x

    gateway.credits_for = 0
    with pytest.raises(gw.Refused):
        f.spawn(1)
    gc.collect()
