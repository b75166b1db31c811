"""Where functions, results and logs live: decided by BLOBS."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from adapters.local.blobs import FolderBlobs
from ports.blobs import BlobStore
from ports.clock import Clock
from runtimes.settings import Blobs, Settings


def open_blobs(settings: Settings, folder: Path, gateway_url: str, secret: bytes, clock: Clock, opened: ExitStack) -> BlobStore:
    """What is opened is closed by `opened`. Nothing is connected before the first call. Raises Unavailable."""
    if settings.blobs is Blobs.FOLDER:
        return FolderBlobs(folder / "blobs", gateway_url, secret)
    from adapters.s3.blobs import S3Blobs  # boto3 takes a third of a second to import: only where it is used
    from adapters.s3.client import connect

    client = connect(settings.s3_endpoint, settings.s3_access_key.get_secret_value(), settings.s3_secret_key.get_secret_value())
    opened.callback(client.close)
    return S3Blobs(client, settings.s3_bucket, clock)
