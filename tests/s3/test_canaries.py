"""The search for secrets sees all of a bucket: keys, metadata and bytes."""

from __future__ import annotations

import pytest

from adapters.s3.client import Connection
from adapters.s3.errors import answering
from tests.canaries import S3_SECRET, Canaries
from tests.s3.seaweed import BUCKET, Seaweed
from tests.sinks import BLOCK, bucket


@pytest.mark.parametrize("where", ["key", "metadata", "bytes", "nowhere"])
def test_a_secret_in_any_part_of_an_object_is_found(seaweed: Seaweed, s3_connection: Connection, where: str) -> None:
    """Whoever may read the bucket reads all three."""
    key = f"jobs/a/{S3_SECRET if where == 'key' else 'x'}"
    body = b"y" * BLOCK + (S3_SECRET.encode() if where == "bytes" else b"")
    with answering():
        s3_connection.client.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"note": S3_SECRET if where == "metadata" else "x"})
    try:
        found = {each.partition(" in ")[0] for each in Canaries().search(bucket(s3_connection.client, BUCKET)).found}
    finally:
        s3_connection.client.delete_object(Bucket=BUCKET, Key=key)
    assert (set() if where == "nowhere" else {"S3_SECRET_KEY"}) == found
