"""An S3 that is slow, cuts answers short or is too busy: asked again, and what it gives is whole or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from adapters.s3.client import connect
from adapters.s3.reading import BLOCK, TRIES
from ports.errors import NotFound, Unavailable
from tests.s3.faults import Fault, FaultProxy, faulty
from tests.s3.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed

DATA = os.urandom(3 * BLOCK + 100)


@pytest.fixture
def proxy(seaweed: Seaweed) -> Iterator[FaultProxy]:
    with faulty(seaweed.url) as started:
        yield started


@pytest.fixture
def far(proxy: FaultProxy, s3_blobs: S3Blobs) -> Iterator[S3Blobs]:
    """The store as seen through the proxy; `s3_blobs` is the same without it."""
    with closing(connect(proxy.url, ACCESS_KEY, SECRET_KEY, attempts=2, read_s=5)) as connection:
        yield S3Blobs(connection, BUCKET, SystemClock())


@pytest.fixture
def impatient(proxy: FaultProxy) -> Iterator[S3Blobs]:
    """The same without a second try."""
    with closing(connect(proxy.url, ACCESS_KEY, SECRET_KEY, attempts=1, read_s=5)) as connection:
        yield S3Blobs(connection, BUCKET, SystemClock())


@pytest.mark.parametrize("fault", [Fault.INTERNAL, Fault.SLOW_DOWN, Fault.RESET])
def test_what_a_busy_store_refuses_once_is_asked_again(proxy: FaultProxy, far: S3Blobs, fault: Fault) -> None:
    """SlowDown is daily work for S3, not an outage."""
    proxy.faults = [fault]
    info = far.put("a", [DATA])
    proxy.faults = [fault]
    assert DATA == b"".join(far.get("a"))
    proxy.faults = [fault]
    assert info.sha256 == getattr(far.stat("a"), "sha256", "")
    proxy.faults = [fault]
    assert ["a"] == [each.key for each in far.list("")]
    assert 4 == sum(said == fault for _, _, said in proxy.seen)


@pytest.mark.parametrize("fault", [Fault.INTERNAL, Fault.SLOW_DOWN, Fault.RESET])
def test_a_store_that_goes_on_refusing_is_unavailable_and_keeps_what_was(
    proxy: FaultProxy, impatient: S3Blobs, s3_blobs: S3Blobs, fault: Fault
) -> None:
    """Neither half of the new nor nothing of the old."""
    s3_blobs.put("a", [b"old"])
    proxy.always = fault
    for call in (
        lambda: impatient.put("a", [DATA]),
        lambda: impatient.get("a"),
        lambda: impatient.stat("a"),
        lambda: list(impatient.list("")),
        lambda: impatient.copy("a", "b"),
    ):
        with pytest.raises(Unavailable, match="blob store"):
            call()
    assert b"old" == b"".join(s3_blobs.get("a"))
    assert ["a"] == [each.key for each in s3_blobs.list("")]


def test_an_answer_that_breaks_off_is_taken_up_where_it_broke(proxy: FaultProxy, far: S3Blobs) -> None:
    """Gigabytes are not begun again for one broken connection, and no byte comes twice."""
    far.put("a", [DATA])
    proxy.seen.clear()
    proxy.faults = [Fault.TRUNCATED, Fault.TRUNCATED]
    assert DATA == b"".join(far.get("a"))
    assert [Fault.TRUNCATED, Fault.TRUNCATED, ""] == [said for _, _, said in proxy.seen]
    proxy.faults = [Fault.TRUNCATED]
    assert DATA[1000:-1000] == b"".join(far.get("a", 1000, len(DATA) - 2000))


def test_an_answer_that_is_shorter_than_the_object_is_never_taken_as_whole(proxy: FaultProxy, far: S3Blobs) -> None:
    """A store or proxy that lies about the length: the digest tells, before the last block is given."""
    far.put("a", [DATA])
    proxy.faults = [Fault.SHORTENED]
    got: list[bytes] = []
    with pytest.raises(Unavailable, match="digest"):
        got.extend(far.get("a"))
    assert sum(map(len, got)) < len(DATA) // 2
    assert DATA == b"".join(far.get("a"))


def test_what_breaks_off_for_ever_is_given_up(proxy: FaultProxy, far: S3Blobs) -> None:
    """A reader learns of it after some tries, instead of waiting for ever."""
    far.put("a", [DATA])
    proxy.faults = [Fault.TRUNCATED]
    reader = far.get("a")
    next(reader)
    proxy.seen.clear()
    proxy.always = Fault.RESET
    with pytest.raises(Unavailable):
        list(reader)
    assert len(proxy.seen) <= 2 * TRIES


def test_a_slow_store_is_waited_for(proxy: FaultProxy, far: S3Blobs) -> None:
    """As long as bytes come, it is not away."""
    far.put("a", [DATA])
    proxy.always = Fault.SLOW
    assert DATA == b"".join(far.get("a"))


def test_an_object_that_is_replaced_while_it_is_read_again_is_not_mixed_with_the_new_one(
    proxy: FaultProxy, far: S3Blobs, s3_blobs: S3Blobs
) -> None:
    """Half of one result and half of another would be a result that nobody made."""
    far.put("a", [DATA])
    proxy.faults = [Fault.TRUNCATED]
    reader = far.get("a")
    first = next(reader)
    s3_blobs.put("a", [bytes(len(DATA))])
    with pytest.raises(Unavailable):
        list(reader)
    assert DATA[: len(first)] == first


def test_a_store_that_is_not_there_is_unavailable_in_our_words(seaweed: Seaweed) -> None:
    """And neither keys nor a stack of boto's are in what people read."""
    with closing(connect("http://127.0.0.1:1", ACCESS_KEY, SECRET_KEY, attempts=1)) as connection:
        store = S3Blobs(connection, BUCKET, SystemClock())
        with pytest.raises(Unavailable, match="can't be reached") as caught:
            store.stat("a")
    assert SECRET_KEY not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("access", "secret"), [(ACCESS_KEY, "wrong"), ("unknown", SECRET_KEY)])
def test_keys_that_s3_refuses_are_named_as_the_fault(seaweed: Seaweed, access: str, secret: str) -> None:
    """A missing object and a missing right must not look alike."""
    with closing(connect(seaweed.url, access, secret, attempts=1)) as connection:
        with pytest.raises(Unavailable, match="S3_ACCESS_KEY") as caught:
            b"".join(S3Blobs(connection, BUCKET, SystemClock()).get("a"))
        assert secret not in str(caught.value)


def test_a_missing_bucket_is_no_missing_object(seaweed: Seaweed) -> None:
    """Else a typing error in S3_BUCKET would look like lost results."""
    with closing(seaweed.connection()) as connection:
        store = S3Blobs(connection, "another-bucket", SystemClock())
        with pytest.raises(Unavailable, match="S3_BUCKET"):
            store.get("a")
        with pytest.raises(NotFound):
            S3Blobs(connection, BUCKET, SystemClock()).get("never/was")


@pytest.mark.parametrize("fault", [Fault.INTERNAL, Fault.SLOW_DOWN, Fault.RESET, Fault.TRUNCATED, Fault.SHORTENED])
def test_what_is_joined_is_whole_whatever_happens_to_its_parts(proxy: FaultProxy, far: S3Blobs, s3_blobs: S3Blobs, fault: Fault) -> None:
    """A log with a hole in it would be believed."""
    parts = [os.urandom(100 + n) for n in range(40)]
    for n, part in enumerate(parts):
        s3_blobs.put(f"logs/{n:09d}", [part])
    proxy.faults = [fault]
    assert b"".join(parts) == b"".join(far.join(f"logs/{n:09d}" for n in range(40)))
    assert [] == proxy.faults
