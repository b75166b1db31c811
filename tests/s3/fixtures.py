"""The fixtures of tests on a real S3: `seaweed`, one per worker, and `s3_blobs`, its bucket emptied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from adapters.s3.client import connect
from tests.s3.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed, running


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with running(tmp_path_factory.mktemp("seaweed")) as started:
        yield started


@pytest.fixture(scope="session")
def s3_client(seaweed: Seaweed) -> Iterator[Any]:
    with closing(connect(seaweed.url, ACCESS_KEY, SECRET_KEY)) as client:
        yield client


@pytest.fixture
def s3_blobs(s3_client: Any) -> S3Blobs:
    """A store on a bucket that is empty."""
    store = S3Blobs(s3_client, BUCKET, SystemClock())
    for info in list(store.list("")):
        store.delete(info.key)
    return store
