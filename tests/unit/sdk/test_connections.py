"""Broken connections, busy and dead gateways: nothing is lost, doubled, or waited for in vain."""

from __future__ import annotations

import gridweave as gw
import pytest
from gridweave.streams import Event, events

from tests.unit.sdk.gateway import Gateway, ProblemError

Square = gw.Function[[int], int]


@pytest.fixture
def square() -> Square:
    """Made here, so that this module need not be imported where it runs."""

    @gw.function
    def square(x: int) -> int:
        return x * x

    return square


def test_a_busy_gateway_is_asked_again(gateway: Gateway, square: Square) -> None:
    """503 with Retry-After is an answer: later."""
    gateway.problems = [ProblemError(503, "unavailable", "Starting.", {"Retry-After": "0"}) for _ in range(3)]
    assert 49 == square.remote(7)
    assert 4 == gateway.calls["POST submit"]


def test_a_submit_whose_answer_is_lost_makes_one_job(gateway: Gateway, square: Square) -> None:
    """The job exists, and the client cannot know; the same key tells both sides."""
    gateway.drops = 2
    assert 49 == square.remote(7)
    assert (1, 3) == (len(gateway.runs), gateway.calls["POST submit"])


def test_two_calls_are_two_jobs(gateway: Gateway, square: Square) -> None:
    """Equal calls are no replays of each other."""
    assert square.spawn(2).id != square.spawn(2).id


def test_a_broken_log_goes_on_without_gap_or_repeat(gateway: Gateway, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Byte for byte, also where UTF-8 is cut in two or there is none, and with every odd line separator."""
    sent = "é\u2028x\x0b\x0c\x85\r\r\n".encode() + bytes(range(256)) + b"\ntail"

    @gw.function
    def speak(data: bytes) -> None:
        import sys

        sys.stdout.buffer.write(data)

    gateway.break_log_after = 3
    job = speak.spawn(sent)
    assert sent == b"".join(job.log_bytes(follow=True))
    gateway.break_log_after = 0
    assert sent.decode("utf-8", "replace") == "".join(job.logs())
    speak.remote(sent)
    assert sent == capfdbinary.readouterr().out


def test_a_broken_download_goes_on_where_it_broke(gateway: Gateway) -> None:
    """Half a gigabyte is not fetched again for its last byte."""

    @gw.function
    def blob() -> bytes:
        return bytes(range(256)) * 4000

    gateway.break_result_after = 300_000
    assert bytes(range(256)) * 4000 == blob.remote()
    ranges = [headers["Range"] for headers in gateway.headers if "Range" in headers]
    assert ["bytes=300000-", "bytes=600000-", "bytes=900000-"] == ranges


def test_a_damaged_result_is_not_believed(gateway: Gateway, square: Square) -> None:
    """A digest that does not match is fetched anew, three times, and then told."""
    job = square.spawn(3)
    job.result(timeout=30)
    gateway.etag = "0" * 64
    before = gateway.calls["GET result"]
    with pytest.raises(gw.Unavailable, match="damaged"):
        job.result()
    assert 3 == gateway.calls["GET result"] - before


def test_a_dead_gateway_is_unavailable(gateway: Gateway) -> None:
    """In words that name the setting."""
    client = gw.Client("http://127.0.0.1:9", retry_for=0)
    with pytest.raises(gw.Unavailable, match=r"http://127.0.0.1:9 does not answer.*GRIDWEAVE_URL"):
        client.status("x")
    client.close()


def test_identity_and_version_are_sent(gateway: Gateway) -> None:
    """The platform in front knows the user by the key, the gateway the client by its version."""
    with gw.Client(gateway.url, "secret-key") as client:
        client.server_version()
    assert ("Bearer secret-key", gw.__version__) == (gateway.headers[-1]["Authorization"], gateway.headers[-1]["X-SDK-Version"])


@pytest.mark.parametrize("url", ["", "ftp://x", "127.0.0.1:8200", "http://", "http://x:99999"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """Not retried for a minute."""
    with pytest.raises(gw.Refused, match="not the address of a gateway"):
        gw.Client(url or "nothing")


def test_a_key_that_is_none_is_refused_without_showing_it() -> None:
    """A pasted newline is the usual mistake, and keys do not belong into errors."""
    with pytest.raises(gw.Refused) as caught:
        gw.Client("http://127.0.0.1:1", "sec\nret")
    assert "ret" not in str(caught.value).replace("characters", "").replace("GRIDWEAVE", "")


def test_an_address_of_something_else_is_told(gateway: Gateway) -> None:
    """A login page of the platform, or another program on that port, is no gateway that fails."""
    gateway.problems = [ProblemError(302, "moved", "Log in.", {"Location": "/login"}), ProblemError(401, "unauthenticated", "Who are you?")]
    gateway.problems += [ProblemError(426, "upgrade-required", "The client is too old.")]
    with gw.Client(gateway.url) as client:
        with pytest.raises(gw.Refused, match=r"answers with a redirect to /login.*GRIDWEAVE_URL"):
            client.submit({})
        with pytest.raises(gw.Refused, match=r"Who are you\? Set GRIDWEAVE_API_KEY"):
            client.submit({})
        with pytest.raises(gw.Refused, match=r"too old\. Install .* from a checkout of it: pip install \./sdk"):
            client.submit({})


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_events_are_parsed_however_the_bytes_are_cut(step: int) -> None:
    """A network cuts anywhere, also between a carriage return and its newline."""
    stream = b": ping\r\n\r\nevent: log\r\nid: 5\r\ndata: a\r\ndata:b\r\n\r\nevent: x\n\ndata: c\n\nevent: cut\ndata: off"
    chunks = [stream[start : start + step] for start in range(0, len(stream), step)]
    assert [Event("log", "5", "a\nb"), Event("message", "", "c")] == list(events(chunks))


def test_waiting_asks_rarely(gateway: Gateway) -> None:
    """A long job costs its gateway one open request, not a hail of them."""

    @gw.function
    def slow() -> int:
        import time

        time.sleep(1)
        return 1

    assert 1 == slow.spawn().result()
    assert 1 == gateway.calls["GET result"]


def test_where_nothing_ever_answered_is_not_waited_for_a_minute(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address is told soon; a gateway that restarts under a job is waited for."""
    slept: list[float] = []
    clock = {"now": 0.0}

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock["now"] += seconds

    monkeypatch.setattr("gridweave.transport.time.sleep", sleep)
    monkeypatch.setattr("gridweave.transport.time.monotonic", lambda: clock["now"])
    with gw.Client("http://127.0.0.1:9") as client, pytest.raises(gw.Unavailable):
        client.status("x")
    assert 5 >= sum(slept)
    slept.clear()
    with gw.Client("http://127.0.0.1:9") as client, pytest.raises(gw.Unavailable):
        gw.Job("x", client).result()
    assert 5 >= sum(slept)
    slept.clear()
    with gw.Client(gateway.url) as client:
        client.account()
        gateway.close()
        with pytest.raises(gw.Unavailable):
            client.account()
    assert 50 <= sum(slept) <= 60
