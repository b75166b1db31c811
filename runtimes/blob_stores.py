"""Where functions, results and logs live: decided by BLOBS."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from adapters.local.blobs import FolderBlobs
from ports.blobs import BlobStore
from ports.clock import Clock
from ports.errors import Invalid
from runtimes import check_image
from runtimes.settings import Blobs, Settings, WrongSettingsError


def check(settings: Settings) -> None:
    """Before anything is served: whether keys that are to be found could be found on this image. Raises WrongSettingsError."""
    if settings.blobs is Blobs.S3 and not settings.s3_access_key:
        wrong = [
            Invalid(f"BLOBS=s3 without S3_ACCESS_KEY, but this image finds no keys of AWS: {each.what}", "S3_ACCESS_KEY", each.fix)
            for each in check_image.aws()
        ]
        if wrong:
            raise WrongSettingsError(wrong)


def open_blobs(settings: Settings, folder: Path, gateway_url: str, secret: bytes, clock: Clock, opened: ExitStack) -> BlobStore:
    """What is opened is closed by `opened`. S3 is not asked before the first call. Raises Unavailable."""
    if settings.blobs is Blobs.FOLDER:
        return FolderBlobs(folder / "blobs", gateway_url, secret)
    from adapters.s3.blobs import S3Blobs  # boto3 takes a third of a second to import: only where it is used
    from adapters.s3.client import connect

    connection = connect(settings.s3_endpoint, settings.s3_access_key.get_secret_value(), settings.s3_secret_key.get_secret_value())
    opened.callback(connection.close)
    return S3Blobs(connection, settings.s3_bucket, clock)
