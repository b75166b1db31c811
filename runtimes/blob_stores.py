"""Where functions, results and logs live: decided by BLOBS."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from adapters.local.blobs import FolderBlobs
from ports.blobs import BlobStore
from ports.clock import Clock
from ports.errors import Refused
from runtimes import check_image
from runtimes.settings import Blobs, Settings


def open_blobs(settings: Settings, folder: Path, gateway_url: str, secret: bytes, clock: Clock, opened: ExitStack) -> BlobStore:
    """What is opened is closed by `opened`. Nothing is connected before the first call.

    Raises Unavailable, or Refused where the keys of S3 are to be found and this image could not find any.
    """
    if settings.blobs is Blobs.FOLDER:
        return FolderBlobs(folder / "blobs", gateway_url, secret)
    wrong = [] if settings.s3_access_key else check_image.aws()
    if wrong:
        raise Refused(f"BLOBS=s3 without S3_ACCESS_KEY, but this image finds no keys: {wrong[0].what}", "S3_ACCESS_KEY", wrong[0].fix)
    from adapters.s3.blobs import S3Blobs  # boto3 takes a third of a second to import: only where it is used
    from adapters.s3.client import connect

    client = connect(settings.s3_endpoint, settings.s3_access_key.get_secret_value(), settings.s3_secret_key.get_secret_value())
    opened.callback(client.close)
    return S3Blobs(client, settings.s3_bucket, clock)
