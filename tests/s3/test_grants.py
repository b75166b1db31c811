"""Grants of a bucket: what was granted may be done by whoever has nothing else, and nothing beside it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from gridweave_agent.protocol import Grant as AgentGrant
from gridweave_agent.transfer import TransferError, download, upload

from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from ports.blobs import Grant, run_prefix
from ports.units import Instant, Span
from tests.s3.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed

MINE, EARLIER, OTHER = run_prefix("job-a", 2), run_prefix("job-a", 1), run_prefix("job-b", 2)
MAX = 1000
LIFE = Span.of(minutes=5)


@pytest.fixture
def writing(s3_blobs: S3Blobs) -> Grant:
    return s3_blobs.grant_write(MINE, MAX, SystemClock().now() + LIFE)


def as_agent(grant: Grant, **changes: Any) -> AgentGrant:
    facts = {"method": grant.method, "url": grant.url, "prefix": grant.prefix, "max_size": grant.max_size, "fields": grant.fields}
    return AgentGrant(**{**facts, **changes})


def post(grant: Grant, key: str, data: bytes = b"x", changed: Mapping[str, str] | None = None) -> httpx.Response:
    """A form as an agent sends it, or as somebody who has its grant would."""
    return httpx.post(
        grant.url, data={**grant.fields, "key": key, **(changed or {})}, files={"file": ("file", data)}, timeout=30, trust_env=False
    )


def keys(store: S3Blobs) -> list[str]:
    return [info.key for info in store.list("")]


def test_an_agent_stores_by_its_grant_and_the_digest_stays_with_the_object(writing: Grant, s3_blobs: S3Blobs, tmp_path: Path) -> None:
    """So that every reader can tell whole from damaged, without asking whoever wrote it."""
    data = os.urandom(900)
    (tmp_path / "log").write_bytes(data)
    upload(as_agent(writing), "result", str(tmp_path / "log"))
    upload(as_agent(writing), "logs/0/000000000", str(tmp_path / "log"), 100, 300)
    assert data == b"".join(s3_blobs.get(f"{MINE}result"))
    assert data[100:300] == b"".join(s3_blobs.get(f"{MINE}logs/0/000000000"))
    found = s3_blobs.stat(f"{MINE}logs/0/000000000")
    assert found is not None
    assert hashlib.sha256(data[100:300]).hexdigest() == found.sha256


def test_an_agent_reads_its_inputs_by_grant(s3_blobs: S3Blobs, tmp_path: Path) -> None:
    """It has no key of S3, and needs none."""
    s3_blobs.put("jobs/job-a/args", [b"arguments"])
    grant = s3_blobs.grant_read("jobs/job-a/args", SystemClock().now() + LIFE)
    download(as_agent(grant, max_size=100), "args", str(tmp_path / "args"), lambda: False)
    assert b"arguments" == (tmp_path / "args").read_bytes()
    assert SECRET_KEY not in grant.url


@pytest.mark.parametrize(
    "key",
    [
        f"{OTHER}result",
        f"{EARLIER}result",
        "jobs/job-a/function",
        "jobs/job-a/manifest.json",
        "jobs/job-a/20/result",
        "uploads/x/y",
        f"{MINE}../1/result",
        f"{MINE}../../job-b/2/result",
        f"{MINE}logs/../../1/result",
        f"/{OTHER}result",
        f"../{BUCKET}/{OTHER}result",
        "",
    ],
)
def test_a_grant_writes_below_its_own_prefix_and_nowhere_else(writing: Grant, s3_blobs: S3Blobs, key: str) -> None:
    """Another user's job, another attempt, an input: whatever the key looks like."""
    before = {name: s3_blobs.put(name, [b"theirs"]).sha256 for name in (f"{OTHER}result", f"{EARLIER}result", "jobs/job-a/function")}
    refused = post(writing, key, b"mine")
    assert 400 <= refused.status_code < 500, refused.text
    assert sorted(before) == sorted(keys(s3_blobs))
    assert {b"theirs"} == {b"".join(s3_blobs.get(name)) for name in before}


@pytest.mark.parametrize("key", [f"{MINE}%2e%2e/1/result", f"{MINE}..%2f1/result", f"{MINE}%2e%2e%2f%2e%2e%2fjob-b%2f2%2fresult"])
def test_an_encoded_way_out_is_just_an_odd_name(writing: Grant, s3_blobs: S3Blobs, key: str) -> None:
    """What is not decoded leads nowhere; whether S3 keeps it under the granted prefix or refuses it."""
    s3_blobs.put(f"{EARLIER}result", [b"theirs"])
    s3_blobs.put(f"{OTHER}result", [b"theirs"])
    post(writing, key, b"mine")
    assert all(name.startswith(MINE) for name in keys(s3_blobs) if name not in (f"{EARLIER}result", f"{OTHER}result"))
    assert [b"theirs"] * 2 == [b"".join(s3_blobs.get(name)) for name in (f"{EARLIER}result", f"{OTHER}result")]


def test_a_late_upload_of_an_older_attempt_changes_nothing_of_a_newer_one(s3_blobs: S3Blobs) -> None:
    """A node that was thought dead comes back with yesterday's result."""
    older = s3_blobs.grant_write(EARLIER, MAX, SystemClock().now() + LIFE)
    s3_blobs.put(f"{MINE}result", [b"new"])
    assert 204 == post(older, f"{EARLIER}result", b"old").status_code
    assert b"new" == b"".join(s3_blobs.get(f"{MINE}result"))


def test_a_grant_has_a_size(writing: Grant, s3_blobs: S3Blobs) -> None:
    """One run must not fill the bucket."""
    assert 204 == post(writing, f"{MINE}result", b"x" * MAX).status_code
    assert 400 <= post(writing, f"{MINE}larger", b"x" * (MAX + 1)).status_code < 500
    assert [f"{MINE}result"] == keys(s3_blobs)


def test_a_grant_has_an_end(s3_blobs: S3Blobs) -> None:
    """What was leaked yesterday opens nothing today."""
    s3_blobs.put("jobs/job-a/args", [b"arguments"])
    past = Instant(SystemClock().now().ms - 2_000)
    assert 403 == post(s3_blobs.grant_write(MINE, MAX, past), f"{MINE}result").status_code
    assert 400 <= httpx.get(s3_blobs.grant_read("jobs/job-a/args", past).url, trust_env=False).status_code < 500


@pytest.mark.parametrize("field", ["policy", "x-amz-signature", "x-amz-credential", "x-amz-date"])
def test_a_grant_that_was_altered_is_none(writing: Grant, s3_blobs: S3Blobs, field: str) -> None:
    """Its limits are signed."""
    changed = writing.fields[field][:-3] + ("AAA" if field == "policy" else "000")
    assert 400 <= post(writing, f"{MINE}result", changed={field: changed}).status_code < 500
    assert [] == keys(s3_blobs)


def test_a_grant_to_read_is_for_one_object_and_for_reading(s3_blobs: S3Blobs) -> None:
    """The same URL with another key, another method or another bucket opens nothing."""
    s3_blobs.put("jobs/job-a/args", [b"mine"])
    s3_blobs.put("jobs/job-b/args", [b"theirs"])
    url = s3_blobs.grant_read("jobs/job-a/args", SystemClock().now() + LIFE).url
    assert b"mine" == httpx.get(url, trust_env=False).content
    for other in (
        ("job-a/args", "job-b/args"),
        ("job-a/args", "job-a/../job-b/args"),
        ("job-a/args", "job-a/%2e%2e/job-b/args"),
        ("/job-a/args", ""),
    ):
        assert b"theirs" not in httpx.get(url.replace(*other), trust_env=False).content
        assert 200 != httpx.get(url.replace(*other), trust_env=False).status_code
    assert 200 > httpx.put(url, content=b"x", trust_env=False).status_code or b"mine" == b"".join(s3_blobs.get("jobs/job-a/args"))
    assert 400 <= httpx.delete(url, trust_env=False).status_code < 500
    assert b"mine" == b"".join(s3_blobs.get("jobs/job-a/args"))


def test_without_a_grant_the_bucket_is_closed(seaweed: Seaweed, s3_blobs: S3Blobs) -> None:
    """Otherwise the tests above would prove nothing."""
    s3_blobs.put("jobs/job-a/args", [b"mine"])
    for path in ("", "/jobs/job-a/args", "?list-type=2&prefix=jobs/"):
        assert 403 == httpx.get(f"{seaweed.url}/{BUCKET}{path}", trust_env=False).status_code


def test_what_the_store_says_of_a_refusal_holds_no_part_of_the_grant(s3_blobs: S3Blobs, tmp_path: Path) -> None:
    """An agent's error is shown to the job's user."""
    (tmp_path / "log").write_bytes(b"x")
    grant = s3_blobs.grant_write(MINE, MAX, Instant(SystemClock().now().ms - 2_000))
    for fields in (grant.fields, {**grant.fields, "x-amz-signature": "0" * 64}):
        with pytest.raises(TransferError) as caught:
            upload(as_agent(grant, fields=fields), "result", str(tmp_path / "log"))
        told = str(caught.value)
        assert "the store answered 403" in told
        assert not [secret for secret in (ACCESS_KEY, SECRET_KEY, *grant.fields.values()) if secret and secret in told]
