"""Grants of S3: presigned, so that they work without any other credential, for one object or one prefix, and for a time.

A permission to write is the policy of a form upload: it fixes bucket, prefix, size and end, and S3 itself holds to it.
One that is made with temporary credentials ends with them at the latest.
"""

from __future__ import annotations

from typing import Any

from adapters.s3.reading import SHA256
from ports.blob_keys import checked_folder, checked_key
from ports.blobs import Grant
from ports.errors import Invalid
from ports.units import Instant

DIGEST_FIELD = f"x-amz-meta-{SHA256}"
LONGEST_S = 7 * 86_400  # what S3 allows


def read_grant(client: Any, bucket: str, key: str, expires: Instant, now: Instant) -> Grant:
    """Raises Invalid for a key that is none."""
    target = {"Bucket": bucket, "Key": checked_key(key)}
    return Grant("GET", client.generate_presigned_url("get_object", target, ExpiresIn=_seconds(expires, now)), key, 0, expires)


def write_grant(client: Any, bucket: str, prefix: str, max_size: int, expires: Instant, now: Instant) -> Grant:
    """Whoever uploads puts the digest into the field that is there for it; it stays with the object. Raises Invalid."""
    if max_size < 0:
        raise Invalid(f"max_size is {max_size}.", "max_size", "Give a number of bytes.", str(max_size))
    limits = [
        ["starts-with", "$key", checked_folder(prefix)],
        ["content-length-range", 0, max_size],
        ["starts-with", f"${DIGEST_FIELD}", ""],
    ]
    # The key that boto3 wants has a variable of S3's at its end, lest it be fixed by the policy.
    form = client.generate_presigned_post(bucket, f"{prefix}${{filename}}", Conditions=limits, ExpiresIn=_seconds(expires, now))
    fields = {name: value for name, value in form["fields"].items() if name != "key"}
    return Grant("POST", form["url"], prefix, max_size, expires, {**fields, DIGEST_FIELD: ""})


def _seconds(expires: Instant, now: Instant) -> int:
    """Whole ones, and what is over stays over: S3 refuses a negative life."""
    return min((expires.ms - now.ms) // 1000, LONGEST_S)
