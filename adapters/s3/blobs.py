"""Blobs in a bucket.

A blob is spooled before it is sent, on disk where it is large: so its digest goes along as metadata in the one request
that makes it, a broken connection can be repeated from the start, and a writer that fails leaves nothing. What is larger
than one request should be goes in parts, which S3 joins in the end or not at all.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import boto3.exceptions
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from adapters.s3.client import Connection
from adapters.s3.errors import STORE, answering, code_of, is_missing
from adapters.s3.grants import read_grant, write_grant
from adapters.s3.joining import joined
from adapters.s3.reading import SHA256, Blocks
from ports.blob_keys import checked_key, checked_prefix, is_key
from ports.blobs import BlobInfo, Grant
from ports.clock import Clock
from ports.errors import AlreadyExists, Invalid, NotFound, Unavailable
from ports.units import Instant

MIB = 1024 * 1024
IN_MEMORY = 4 * MIB  # of a blob that is being put
IN_ONE = 256 * MIB  # what is larger goes in parts
PART = 8 * MIB
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}
_PARTS = TransferConfig(multipart_threshold=IN_ONE, multipart_chunksize=PART, max_concurrency=4)


class S3Blobs:
    """`ports.blobs.BlobStore`. Safe to share between threads; any number of processes may share the bucket."""

    def __init__(self, connection: Connection, bucket: str, clock: Clock) -> None:
        """clock: the lives of grants are counted by it."""
        self._connection, self._client = connection, connection.client
        self._bucket, self._clock = bucket, clock

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        checked_key(key)
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
            digest, size = _spooled(spool, data)
            with answering(key):
                try:
                    self._send(spool, key, size, digest, only_new)
                except ClientError as error:
                    if only_new and code_of(error) in _TAKEN:
                        raise AlreadyExists(key) from None
                    raise
                except boto3.exceptions.S3UploadFailedError:  # its message names what may be secret
                    raise Unavailable(STORE, f"{key} could not be sent whole") from None
        return BlobInfo(key, size, self._clock.now(), digest)

    def _send(self, spool: IO[bytes], key: str, size: int, digest: str, only_new: bool) -> None:
        about: dict[str, Any] = {"Metadata": {SHA256: digest}}
        if only_new:
            about["IfNoneMatch"] = "*"
        if size > IN_ONE:
            self._client.upload_fileobj(spool, self._bucket, key, ExtraArgs=about, Config=_PARTS)
        else:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=spool, ContentLength=size, **about)

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        checked_key(key)
        if offset < 0 or (length is not None and length < 0):
            raise Invalid(f"There is no range of {length} bytes from {offset}.", "range", "Give 0 or more.")
        if length == 0:
            if self.stat(key) is None:
                raise NotFound(f"There is no blob {key}.", "key")
            return iter(())
        return Blocks(self._client, self._bucket, key, offset, length)

    def join(self, keys: Iterable[str]) -> Iterator[bytes]:
        return joined(self._connection, self._bucket, map(checked_key, keys), self.get)

    def stat(self, key: str) -> BlobInfo | None:
        checked_key(key)
        with answering(key):
            try:
                found = self._client.head_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise
        return BlobInfo(key, found["ContentLength"], _instant(found["LastModified"]), found.get("Metadata", {}).get(SHA256, ""))

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Without digests: a listing asks for no object. What others have put into the bucket under names that are no keys is not seen."""
        checked_prefix(prefix)
        return self._listed(prefix)

    def _listed(self, prefix: str) -> Iterator[BlobInfo]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        with answering(prefix):
            for page in pages:
                for found in filter(lambda each: is_key(each["Key"]), page.get("Contents", ())):
                    yield BlobInfo(found["Key"], found["Size"], _instant(found["LastModified"]))

    def copy(self, source: str, target: str) -> BlobInfo:
        """Within S3, and its digest goes along."""
        origin = {"Bucket": self._bucket, "Key": checked_key(source)}
        checked_key(target)
        if source != target:  # S3 refuses to copy an object onto itself
            with answering(source):
                self._client.copy_object(Bucket=self._bucket, Key=target, CopySource=origin)
        found = self.stat(target)
        if found is None:
            raise NotFound(f"There is no blob {source}.", "key")
        return found

    def delete(self, key: str) -> None:
        checked_key(key)
        with answering(key):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def grant_read(self, key: str, expires: Instant) -> Grant:
        with answering():
            return read_grant(self._client, self._bucket, key, expires, self._clock.now())

    def grant_write(self, prefix: str, max_size: int, expires: Instant) -> Grant:
        with answering():
            return write_grant(self._client, self._bucket, prefix, max_size, expires, self._clock.now())


def _spooled(spool: IO[bytes], data: Iterable[bytes]) -> tuple[str, int]:
    """SHA-256 and size. An error of `data` itself passes as it is."""
    digest, size = hashlib.sha256(), 0
    for block in data:
        digest.update(block)
        size += len(block)
        spool.write(block)
    spool.seek(0)
    return digest.hexdigest(), size


def _instant(when: Any) -> Instant:
    return Instant(int(when.timestamp() * 1000))
