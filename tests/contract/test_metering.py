"""What every sink of usage events keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import stamina
from attrs import evolve
from structlog.testing import capture_logs

from adapters.remote.metering import RemoteMetering, line_to_metering
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from ports import cloudevents
from ports.errors import Invalid, Refused, Unavailable
from ports.metering import Metering, Usage
from ports.units import Credits, Instant, Span
from ports.workloads import RunId
from tests.contract.credits_process import TOKEN, CreditsProcess
from tests.contract.peers import answering
from tests.contract.races import in_threads
from tests.memory.metering import MemoryMetering

FIRST = Usage("uid-1/job-1/1/60000", Instant(5), "alice", RunId("job-1", 1), "tick", Span(60_000), Credits(133_333))


class Recorded(Protocol):
    """What the sink has, in order. A suite of an adapter tells how to see it."""

    def __call__(self) -> list[Usage]: ...


class MeteringContract:
    """Give fixtures `metering`: an empty one, and `recorded`."""

    def test_an_event_is_recorded_with_every_field(self, metering: Metering, recorded: Recorded) -> None:
        """Whoever meters has nothing else to go by."""
        second = evolve(FIRST, id="job-1/1@120000", run=RunId("ep", 2, 3), ran=Span(120_000))
        metering.record([FIRST, second])
        assert [FIRST, second] == recorded()

    def test_an_event_that_comes_twice_is_recorded_once(self, metering: Metering, recorded: Recorded) -> None:
        """At least once outside, once inside: also within one call."""
        metering.record([FIRST, FIRST])
        metering.record([FIRST])
        assert [FIRST] == recorded()

    def test_nothing_may_be_recorded(self, metering: Metering, recorded: Recorded) -> None:
        """A round in which nothing ran."""
        metering.record([])
        assert [] == recorded()

    def test_two_billers_record_each_event_once(self, metering: Metering, recorded: Recorded) -> None:
        """Any number of billers at once is harmless."""
        events = [evolve(FIRST, id=f"job-1/1@{number}") for number in range(20)]
        in_threads(lambda _: metering.record(events), 4)
        assert sorted(event.id for event in events) == sorted(event.id for event in recorded())


class TestMemoryMetering(MeteringContract):
    @pytest.fixture
    def metering(self) -> MemoryMetering:
        return MemoryMetering()

    @pytest.fixture
    def recorded(self, metering: MemoryMetering) -> Recorded:
        return lambda: list(metering.recorded())


class TestSqliteMetering(MeteringContract):
    @pytest.fixture
    def metering(self, tmp_path: Path) -> Iterator[SqliteMetering]:
        with closing(open_credits(tmp_path)) as database:
            yield SqliteMetering(database)

    @pytest.fixture
    def recorded(self, metering: SqliteMetering) -> Recorded:
        return lambda: [usage for _, usage in metering.recorded()]

    def test_events_are_read_on_from_a_number(self, metering: SqliteMetering) -> None:
        """A reader keeps one number and misses nothing."""
        metering.record([evolve(FIRST, id=str(number)) for number in range(5)])
        first = metering.recorded(limit=2)
        rest = metering.recorded(after=first[-1][0])
        assert ["0", "1", "2", "3", "4"] == [usage.id for _, usage in (*first, *rest)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CreditsProcess]:
    made = CreditsProcess(tmp_path_factory.mktemp("metering"))
    made.start()
    try:
        yield made
        made.check_standing()
    finally:
        made.kill()
    made.check_left()


class TestRemoteMetering(MeteringContract):
    """As CloudEvents over HTTP, to the process that sites run."""

    @pytest.fixture
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}

    @pytest.fixture
    def metering(self, service: CreditsProcess) -> Iterator[RemoteMetering]:
        """An empty one: the events of other tests are cleared away below the service."""
        with closing(open_credits(service.folder)) as database, database.write() as db:
            db.execute("DELETE FROM usage")
        with closing(line_to_metering(service.url, TOKEN)) as line:
            yield RemoteMetering(line)

    def test_what_is_refused_is_logged_and_dropped_and_holds_up_nothing_else(self, metering: RemoteMetering, recorded: Recorded) -> None:
        """One bad event would else keep all of its round from being counted, in every round again. It is told of once."""
        good = [evolve(FIRST, id=f"good-{number}") for number in range(9)]
        bad = evolve(FIRST, id="bad", user="")  # no text of at least one character
        with capture_logs() as logs:
            metering.record([*good[:6], bad, *good[6:]])
            metering.record([bad])
        assert good == recorded()
        told = [(each["event"], each["usage"]["id"], each["usage"]["data"]["micro_credits"]) for each in logs if each["event"] == "alarm"]
        assert [("alarm", "bad", 133_333)] == told

    @pytest.fixture
    def recorded(self, service: CreditsProcess, bearer: dict[str, str]) -> Recorded:
        def read() -> list[Usage]:
            events = httpx.get(f"{service.url}/v1/events", headers=bearer, trust_env=False).json()["events"]
            return [cloudevents.unwrapped(each) for each in events]

        return read

    def test_events_are_read_on_from_a_cursor(self, metering: RemoteMetering, service: CreditsProcess, bearer: dict[str, str]) -> None:
        """A reader keeps one number and misses nothing."""
        metering.record([evolve(FIRST, id=str(number)) for number in range(5)])
        found: list[str] = []
        after = 0
        while events := (page := httpx.get(f"{service.url}/v1/events?after={after}&limit=2", headers=bearer).json())["events"]:
            found += [event["id"] for event in events]
            after = page["cursor"]
        assert ["0", "1", "2", "3", "4"] == found

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"specversion": "0.3"}, "specversion"),
            ({"id": ""}, "id"),
            ({"type": "com.example.else"}, "type"),
            ({"time": "yesterday"}, "time"),
            ({"time": "2026-11-29T00:00:00"}, "time"),
            ({"data": []}, "data"),
            ({"data": {"user": "alice", "run": "job", "ran_ms": 1, "micro_credits": 1}}, "data.run"),
            ({"data": {"user": "alice", "run": "job/1", "ran_ms": 1.5, "micro_credits": 1}}, "data.ran_ms"),
            ({"data": {"user": "alice", "run": "job/1", "ran_ms": 1, "micro_credits": 1e308}}, "data.micro_credits"),
        ],
    )
    def test_a_bad_event_is_refused_with_its_field_and_nothing_of_its_batch_is_kept(
        self,
        wrong: dict[str, Any],
        field: str,
        metering: RemoteMetering,
        recorded: Recorded,
        service: CreditsProcess,
        bearer: dict[str, str],
    ) -> None:
        """Half a batch could not be told from a whole one."""
        batch = [cloudevents.wrapped(FIRST), cloudevents.wrapped(evolve(FIRST, id="2")) | wrong]
        answer = httpx.post(f"{service.url}/v1/events", json=batch, headers=bearer | {"Content-Type": cloudevents.BATCH_TYPE})
        assert (400, "Invalid", field) == (answer.status_code, answer.json()["error"], answer.json()["facts"]["field"])
        assert [] == recorded()

    def test_nobody_without_the_token_gets_past_it(self, metering: RemoteMetering, recorded: Recorded, service: CreditsProcess) -> None:
        """Usage is what bills are made of."""
        assert 401 == httpx.get(f"{service.url}/v1/events").status_code
        with closing(line_to_metering(service.url, "another-token-of-somebody")) as line, pytest.raises(Unavailable, match="ADMIN_TOKEN"):
            RemoteMetering(line).record([FIRST])
        assert [] == recorded()

    def test_another_content_type_is_refused(self, service: CreditsProcess, bearer: dict[str, str]) -> None:
        """It would be some other envelope."""
        answer = httpx.post(f"{service.url}/v1/events", json=[], headers=bearer)
        assert (400, "Content-Type") == (answer.status_code, answer.json()["facts"]["field"])


def test_an_envelope_is_opened_to_what_was_put_in() -> None:
    """Also what another sender adds is let pass, and milliseconds are not rounded."""
    usage = evolve(FIRST, at=Instant(1_764_500_000_007), kind="final", run=RunId("ep", 2, 3))
    event = cloudevents.wrapped(usage)
    assert ("1.0", "2025-11-30T10:53:20.007Z", "io.gridweave.usage.final") == (event["specversion"], event["time"], event["type"])
    assert usage == cloudevents.unwrapped(event | {"traceparent": "00-1"})
    with pytest.raises(Invalid):
        cloudevents.unwrapped("event")


@pytest.mark.parametrize(("status", "body"), [(400, b'{"message": "no such meter"}'), (400, b"<h1>Bad Request</h1>"), (422, b"")])
def test_whoever_meters_may_refuse_in_his_own_words(status: int, body: bytes) -> None:
    """It need not be our own service; the same again would be answered the same."""
    with answering(status, body) as url, closing(line_to_metering(url, TOKEN)) as line, capture_logs() as logs:
        RemoteMetering(line).record([FIRST, evolve(FIRST, id="another")])
        assert [FIRST.id, "another"] == [each["usage"]["id"] for each in logs if each["event"] == "alarm"]
        with pytest.raises(Refused, match=str(status)):
            RemoteMetering(line).record([])


@pytest.mark.parametrize(("status", "body"), [(500, b"<h1>Internal Server Error</h1>"), (404, b"{}"), (429, b"{}"), (401, b"{}")])
def test_what_may_be_taken_later_is_not_dropped(status: int, body: bytes) -> None:
    """A proxy that is being restarted, or a token that is being changed, loses no event."""
    stamina.set_testing(True, attempts=2, cap=True)
    try:
        with answering(status, body) as url, closing(line_to_metering(url, TOKEN)) as line, pytest.raises(Unavailable):
            RemoteMetering(line).record([FIRST])
    finally:
        stamina.set_testing(False)
