"""How a job that gives no value tells why."""

from __future__ import annotations

import json
import traceback

import gridweave as gw
import pytest
from gridweave.outcomes import failure

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project


def test_the_users_own_exception_arrives_with_causes_and_remote_traceback(gateway: Gateway, project: Project, python: Program) -> None:
    """`except MyError` around a remote call must work, and the traceback must show the line on the node."""
    project(
        script="""
        import traceback
        import gridweave as gw

        class Spilled(Exception):
            def __init__(self, amount):
                super().__init__(f"spilled {amount}")
                self.amount = amount

        @gw.function
        def pour():
            try:
                {}["cup"]
            except KeyError as error:
                raise Spilled(3) from error  # the remote line

        try:
            pour.remote()
        except Spilled as error:
            assert error.amount == 3
            assert type(error.__cause__) is KeyError and error.__cause__.args == ("cup",)
            print(traceback.format_exc())
        """
    )
    done = python("script.py")
    assert (0, "") == (done.returncode, done.stderr)
    for shown in ("Remote traceback (job job-", "raise Spilled(3) from error", "in pour", "KeyError: 'cup'", "direct cause"):
        assert shown in done.stdout


def test_an_exception_that_cannot_be_rebuilt_is_told(gateway: Gateway) -> None:
    """Its class may need arguments that its pickle lacks; its words must arrive all the same."""

    @gw.function
    def fail() -> None:
        class OddError(Exception):
            def __reduce__(self) -> tuple[type, tuple[int]]:
                return int, ("no number",)  # type: ignore[return-value]  # fails when it is loaded

        raise OddError("what happened")

    with pytest.raises(gw.RemoteError, match="OddError: what happened") as caught:
        fail.remote()
    assert "in fail" in "".join(traceback.format_exception(caught.value))


def test_a_missing_module_says_how_to_get_it(gateway: Gateway) -> None:
    """The commonest failure of a first job."""

    @gw.function
    def fail() -> None:
        import not_there_at_all.sub  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(ModuleNotFoundError) as caught:
        fail.remote()
    assert any('env={"pip": ["not_there_at_all"]}' in note for note in caught.value.__notes__)


def test_a_killed_process_tells_its_signal_and_last_lines(gateway: Gateway) -> None:
    """There is no exception to raise; the log's end is all there is."""

    @gw.function
    def die() -> None:
        import os
        import signal

        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(gw.JobFailed, match="ended by SIGKILL") as caught:
        die.remote()
    assert ("Signalled", "SIGKILL", "last words\n") == (caught.value.kind, caught.value.signal, caught.value.log_tail)


def test_sys_exit_tells_its_code(gateway: Gateway) -> None:
    """It ends the job, not the program that waits for it."""

    @gw.function
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(gw.JobFailed, match="code 3") as caught:
        leave.remote()
    assert 3 == caught.value.code


def test_refusals_carry_the_gateways_facts(gateway: Gateway) -> None:
    """What was wrong, which value, and what would be right."""

    @gw.function(vram="900GB")
    def big() -> None: ...

    with pytest.raises(gw.Refused) as caught:
        big.remote()
    refused = caught.value
    assert ("never-fits", 422, "vram", "900GB") == (refused.kind, refused.status, refused.field, refused.value)
    assert 81920 == refused.facts["largest_mib"]
    assert "No GPU has 900 GB. Ask for 80GB or less." == str(refused)


def test_exceptions_with_constructors_of_their_own_arrive_as_themselves(gateway: Gateway, project: Project, python: Program) -> None:
    """Their pickles call the constructor with the message alone, which it refuses, or makes another message of."""
    project(
        script="""
        import gridweave as gw

        class Spilled(Exception):
            def __init__(self, amount, where):
                super().__init__(f"spilled {amount} on {where}")
                self.amount, self.where = amount, where

        class Dropped(Exception):
            def __init__(self, what):
                super().__init__(f"dropped {what}")

        @gw.function
        def pour(much):
            raise Spilled(3, "the floor") if much else Dropped("it")

        try:
            pour.remote(True)
        except Spilled as error:
            print(error, error.amount, error.where, bool(error.__notes__))
        try:
            pour.remote(False)
        except Dropped as error:
            print(error)
        """
    )
    lines = python("script.py").stdout.splitlines()
    assert {"spilled 3 on the floor 3 the floor True", "dropped it"} <= set(lines)


def test_leaving_by_os_exit_says_that_no_result_came(gateway: Gateway) -> None:
    """Code 0 alone would read like success."""

    @gw.function
    def leave() -> None:
        import os

        os._exit(0)

    with pytest.raises(gw.JobFailed, match="code 0 before the function returned: no result came"):
        leave.remote()


def test_a_lost_result_says_what_became_of_it() -> None:
    """Its process ended well: what can be said of that would read like an accident of the function."""
    facts = {"phase": "Failed", "reason": "ResultLost", "message": "The disk of its node is full.", "exit": {"kind": "Returned", "code": 0}}
    error = failure(gw.Refused("There is no result.", facts=facts), "job-1")
    assert "Job job-1 failed: The disk of its node is full." == str(error)


def test_a_log_that_was_shown_is_not_repeated_in_the_error(gateway: Gateway) -> None:
    """result() of a job that was spawned tells its last lines; after remote() they stand right above."""

    @gw.function
    def die() -> None:
        import os

        print("last words", flush=True)
        os._exit(1)

    with pytest.raises(gw.JobFailed) as caught:
        die.remote()
    assert ([], "last words\n") == (getattr(caught.value, "__notes__", []), caught.value.log_tail)
    with pytest.raises(gw.JobFailed) as caught:
        die.spawn().result()
    assert ["Last lines of its log:\nlast words"] == caught.value.__notes__


def test_a_job_that_is_not_there_is_named(gateway: Gateway) -> None:
    """Of several ids in a script, which?"""
    with pytest.raises(gw.NotFound, match="There is no job 'job-x'") as caught:
        gw.Job("job-x").status()
    assert ("id", "job-x") == (caught.value.field, caught.value.value)


def test_sentences_of_errors_end(gateway: Gateway) -> None:
    """Message and remedy stand in one line of a traceback."""
    assert "It is wrong. Mend it." == str(gw.Refused("It is wrong", remedy="Mend it."))
    assert "Is it wrong? Mend it." == str(gw.Refused("Is it wrong?", remedy="Mend it."))
    estimate = repr(gw.function(len).estimate())
    assert 1 == estimate.count("placement")


def test_our_own_exceptions_raised_by_a_function_are_not_taken_for_the_gateways(
    gateway: Gateway, project: Project, command: Program, python: Program
) -> None:
    """`except gw.Refused` and exit code 2 say that nothing was started; a function that raised one has run and failed."""
    project(
        work="""
        import gridweave as gw

        class Spilled(gw.Refused): ...

        def refuse(): raise gw.Refused("mine", kind="never-fits", remedy="Pour less.")
        def leave(): raise gw.Cancelled("mine")
        def wait(): raise gw.Unavailable("mine")
        def hang(): raise TimeoutError("mine")
        def spill(): raise Spilled("mine")
        """,
        script="""
        import gridweave as gw
        import work

        for name in ("refuse", "leave", "wait"):
            try:
                gw.function(getattr(work, name)).spawn().result()
            except (gw.Refused, gw.Cancelled, gw.Unavailable) as error:
                print("taken for the gateway's", error)
            except gw.RemoteError as error:
                print(error.type, error.module, error, "in " + name in error.traceback)
        try:
            gw.function(work.spill).remote()
        except work.Spilled as error:
            print("as itself")
        """,
    )
    kinds = {"refuse": "RemoteError", "leave": "RemoteError", "wait": "RemoteError", "hang": "TimeoutError", "spill": "Spilled"}
    for name, kind in kinds.items():
        done = command("submit", f"work.py:{name}", "--json")
        facts = json.loads(done.stdout)
        assert (1, "Failed", kind) == (done.returncode, facts["phase"], facts["error"]["kind"]), done.stderr
        assert 1 == command("result", facts["id"], "--timeout", "9").returncode
    assert "error: work.Spilled: mine" in done.stderr
    lines = python("script.py").stdout.splitlines()
    refused = "Refused gridweave.errors gridweave.errors.Refused: mine. Pour less. True"
    others = [f"{kind} gridweave.errors gridweave.errors.{kind}: mine True" for kind in ("Cancelled", "Unavailable")]
    assert [refused, *others, "as itself"] == [line for line in lines if line.endswith((" True", "itself")) or "taken" in line]


def test_a_function_that_ends_an_iteration_ends_nobody_elses(gateway: Gateway, python: Program, project: Project) -> None:
    """`next()` of something empty is a common mistake: a future takes no StopIteration, and a loop over `map.aio` never ended."""
    project(
        script="""
        import asyncio
        import gridweave as gw

        @gw.function
        def first(items): return next(iter(items))

        async def all_of(returned):
            return [each async for each in first.map.aio([[]], return_exceptions=returned)]

        for call in (
            lambda: first.remote([]),
            lambda: asyncio.run(first.remote.aio([])),
            lambda: list(first.map([[]])),
            lambda: asyncio.run(all_of(False)),
            lambda: asyncio.run(all_of(True)),
        ):
            try:
                print("gives", *call())
            except gw.RemoteError as error:
                print("raises", error, "in first" in error.traceback)
        """,
    )
    lines = [line for line in python("script.py").stdout.splitlines() if line.startswith(("gives", "raises"))]
    assert [*["raises StopIteration True"] * 4, "gives StopIteration"] == lines
