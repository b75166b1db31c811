"""How a job that gives no value tells why."""

from __future__ import annotations

import traceback

import gridweave as gw
import pytest

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
