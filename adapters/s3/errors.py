"""What S3 and the way to it say when something is wrong, in our words. Neither keys nor signed URLs get into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, NoCredentialsError, PartialCredentialsError

from ports.errors import GridweaveError, NotFound, Unavailable

STORE = "the blob store"
_MISSING = {"NoSuchKey", "NotFound", "404"}
_REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "Forbidden", "403"}
_NO_KEYS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)


def code_of(error: ClientError) -> str:
    """As in S3's list of error codes; the status where there was no body to name one."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    facts: dict[str, Any] = error.response.get("ResponseMetadata", {})
    return int(facts.get("HTTPStatusCode", 0))


def is_missing(error: ClientError) -> bool:
    """Whether there is no such object; a missing bucket is another matter."""
    return code_of(error) in _MISSING


@contextmanager
def answering(key: str = "") -> Iterator[None]:
    """Raises NotFound for a missing object, Unavailable for whatever else S3 or the network refuses."""
    try:
        yield
    except ClientError as error:
        raise _said(error, key) from None  # the cause could hold a signed request
    except BotoCoreError as error:
        raise _unreachable(error) from None


def _said(error: ClientError, key: str) -> GridweaveError:
    code = code_of(error)
    if code == "NoSuchBucket":
        return Unavailable(STORE, "there is no such bucket; make it, or set S3_BUCKET")
    if is_missing(error):
        return NotFound(f"There is no blob {key}.", "key")
    if code in _REFUSED:
        why = f"S3 refuses us ({code}): look at S3_ACCESS_KEY and S3_SECRET_KEY, or at the pod's identity and its policy"
        return Unavailable(STORE, why, 30)
    return Unavailable(STORE, f"S3 answered {status_of(error)} {code}".strip())


def _unreachable(error: BotoCoreError) -> Unavailable:
    if isinstance(error, _NO_KEYS):
        why = "no AWS credentials were found: set S3_ACCESS_KEY and S3_SECRET_KEY, or check the image with gridweave-check-image"
        return Unavailable(STORE, why, 30)
    return Unavailable(STORE, f"S3 can't be reached ({type(error).__name__})")
