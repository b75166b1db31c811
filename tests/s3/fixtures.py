"""The fixtures of tests on a real S3: `seaweed`, one per worker, and `s3_blobs`, its bucket emptied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from adapters.s3.client import Connection
from tests.canaries import Canaries
from tests.s3.seaweed import BUCKET, Seaweed, running
from tests.sinks import bucket


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with running(tmp_path_factory.mktemp("seaweed")) as started:
        yield started


@pytest.fixture(scope="session")
def s3_connection(seaweed: Seaweed) -> Iterator[Connection]:
    with closing(seaweed.connection()) as connection:
        yield connection


@pytest.fixture
def s3_blobs(s3_connection: Connection) -> Iterator[S3Blobs]:
    """A store on a bucket that is empty. What a test leaves there is searched for secrets before the next one empties it."""
    pages = s3_connection.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    for key in [found["Key"] for page in pages for found in page.get("Contents", ())]:
        s3_connection.client.delete_object(Bucket=BUCKET, Key=key)
    yield S3Blobs(s3_connection, BUCKET, SystemClock())
    Canaries().search(bucket(s3_connection.client, BUCKET)).check()
