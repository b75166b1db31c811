"""Functions, arguments, results and logs of any size up to the limit, byte for byte."""

from __future__ import annotations

import hashlib
import os

import httpx
import pytest
from gridweave.payloads import LIMIT

from tests.e2e.rig import Rig
from tests.e2e.submits import body

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 40 * MIB])
def test_arguments_and_results_pass_unchanged(rig: Rig, size: int) -> None:
    """Small ones go inline and large ones by the blob store; nobody should notice."""

    def turned(data: bytes) -> tuple[str, bytes]:
        import hashlib

        return hashlib.sha256(data).hexdigest(), data[::-1]

    data, user = os.urandom(size), rig.user()
    digest, back = user.spawn(turned, data).result(timeout=120)
    assert hashlib.sha256(data).hexdigest() == digest
    assert data == back[::-1]


def test_a_large_function_passes(rig: Rig) -> None:
    """Models are captured in closures."""
    weights, user = os.urandom(20 * MIB), rig.user()
    assert sum(weights[::4096]) == user.spawn(lambda: sum(weights[::4096])).result(timeout=120)


def test_a_large_log_is_kept_whole(rig: Rig) -> None:
    """The line that explains the failure is somewhere in it."""

    def chatty(lines: int) -> None:
        for number in range(lines):
            print(f"{number:07d} " + "x" * 100)

    user = rig.user()
    job = user.spawn(chatty, 60_000)
    job.result(timeout=120)
    expected = b"".join(f"{number:07d} {'x' * 100}\n".encode() for number in range(60_000))
    assert expected == user.log(job)
    piece = user.direct.get(f"/v1/jobs/{job.id}/logs", params={"offset": 109 * 1000, "limit": 109})
    assert expected[109 * 1000 : 109 * 1001] == piece.content


@pytest.mark.parametrize("size", [LIMIT + 1, -1, 10**30, "many", None, 1.5])
def test_an_upload_beyond_the_limit_is_refused_before_it_is_sent(rig: Rig, size: object) -> None:
    """Nobody should send a gigabyte to be told no."""
    user = rig.user()
    said = user.direct.post("/v1/uploads", json={"sha256": "0" * 64, "size": size})
    assert (400, "size") == (said.status_code, said.json()["field"])


@pytest.mark.parametrize("wrong", ["too long", "too short", "other bytes"])
def test_an_upload_that_is_not_what_was_said_is_refused(rig: Rig, wrong: str) -> None:
    """A digest that is not checked proves nothing."""
    user, data = rig.user(), os.urandom(200_000)
    reference = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    grant = user.direct.post("/v1/uploads", json=reference).json()
    sent = {"too long": data + b"x", "too short": data[:-1], "other bytes": b"x" + data[1:]}[wrong]
    said = httpx.put(f"{rig.gateway.url}{grant['url']}", content=sent, timeout=60)
    assert 400 <= said.status_code < 500, said.text
    assert user.direct.post("/v1/uploads", json=reference).json()["present"] is False
    refused = user.direct.post("/v1/jobs/submit", json=body(args=reference))
    assert 400 == refused.status_code


def test_an_upload_url_is_good_for_what_it_was_given_only(rig: Rig) -> None:
    """It is handed on, and printed in logs."""
    user, data = rig.user(), os.urandom(200_000)
    grant = user.direct.post("/v1/uploads", json={"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}).json()
    url = f"{rig.gateway.url}{grant['url']}"
    other = hashlib.sha256(b"other").hexdigest()
    assert 200 != httpx.get(url, timeout=60).status_code
    elsewhere = url.replace("/uploads/", "/jobs/") if "/uploads/" in url else url.replace("/v1/blobs/", "/v1/blobs/jobs/")
    assert 403 == httpx.put(elsewhere, content=data, timeout=60).status_code
    assert 403 == httpx.put(url[:-1] + ("0" if url[-1] != "0" else "1"), content=data, timeout=60).status_code
    assert 400 <= httpx.put(url.replace(hashlib.sha256(data).hexdigest(), other), content=data, timeout=60).status_code < 500
    assert 201 == httpx.put(url, content=data, timeout=60).status_code


def test_a_result_can_be_read_in_parts(rig: Rig) -> None:
    """A broken download of half a gigabyte goes on where it broke."""
    user = rig.user()
    job = user.spawn(lambda: b"0123456789" * 100_000)
    user.ended(job)
    whole = user.direct.get(f"/v1/jobs/{job.id}/result")
    part = user.direct.get(f"/v1/jobs/{job.id}/result", headers={"Range": "bytes=500000-500099"})
    assert (206, whole.content[500_000:500_100]) == (part.status_code, part.content)
    assert hashlib.sha256(whole.content).hexdigest() in whole.headers["ETag"]


def test_a_value_that_cannot_be_pickled_fails_with_its_type_named(rig: Rig) -> None:
    """The user sees his own mistake, not ours."""

    def lock() -> object:
        import threading

        return threading.Lock()

    user = rig.user()
    with pytest.raises(TypeError, match="lock"):
        user.spawn(lock).result(timeout=60)
