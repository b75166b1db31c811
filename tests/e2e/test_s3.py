"""The whole on a bucket: everything that a job needs and leaves lies in S3, and a store that is away loses nothing.

On a cluster and an S3 of its own, since the store is stopped here and runs are killed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from attrs import frozen

from tests.e2e.rig import BIG, NODES, Rig, standing, until
from tests.s3.seaweed import BUCKET, Seaweed, running

KIB = 1024


@frozen
class House:
    """The rig, the S3 beside it, and a client of an operator who looks into the bucket."""

    rig: Rig
    seaweed: Seaweed
    bucket: Any

    def read(self, key: str) -> bytes:
        data: bytes = self.bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str) -> list[str]:
        return [each["Key"] for each in self.bucket.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])]

    def log(self, job: str, attempt: int = 1) -> bytes:
        return b"".join(self.read(key) for key in self.keys(f"jobs/{job}/{attempt}/logs/0/"))

    def manifest(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read(f"jobs/{job}/manifest.json"))
        return found


@pytest.fixture(scope="module")
def standing_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with running(tmp_path_factory.mktemp("seaweed")) as seaweed, closing(seaweed.client()) as bucket:
        settings = {**seaweed.environment, "LOG_CHUNK_BYTES": str(4 * KIB), "LOG_CHUNK_AGE_SECONDS": "1"}
        with standing(tmp_path_factory.mktemp("s3"), {BIG: NODES[BIG]}, **settings) as rig:
            yield House(rig, seaweed, bucket)


@pytest.fixture
def house(standing_house: House) -> Iterator[House]:
    yield standing_house
    standing_house.rig.forget_users()
    until(standing_house.rig.idle, "every GPU free again")


def test_function_arguments_result_and_log_lie_in_the_bucket(house: House) -> None:
    """Nothing of a job is left on a disk that dies with its machine."""

    def turned(data: bytes) -> bytes:
        print("turning " + "x" * 100)
        return data[::-1]

    data, user = os.urandom(300 * KIB), house.rig.user()
    job = user.spawn(turned, data)
    assert data[::-1] == job.result(timeout=120)
    user.ended(job)
    expected = {f"jobs/{job.id}/{name}" for name in ("function", "args", "manifest.json", "1/result", "1/logs/0/000000000")}
    assert expected == set(house.keys(f"jobs/{job.id}/"))
    assert b"turning " + b"x" * 100 + b"\n" == house.log(job.id) == user.log(job)
    manifest = house.manifest(job.id)
    assert ("Completed", "Returned", 1, "Returned") == (
        manifest["phase"],
        manifest["reason"],
        manifest["attempt"],
        manifest["exit"]["kind"],
    )
    result = house.read(f"jobs/{job.id}/1/result")
    assert (len(result), hashlib.sha256(result).hexdigest()) == (manifest["result"]["size"], manifest["result"]["sha256"])
    assert not list((house.rig.gateway.state / "blobs").rglob("*"))
