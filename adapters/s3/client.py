"""The connection: addresses, keys, deadlines, retries. Everything that could differ between two S3 services is decided here."""

from __future__ import annotations

from typing import Any

import boto3
from attrs import frozen
from botocore.config import Config
from botocore.credentials import Credentials

from adapters.s3.errors import answering

CONNECT_S = 3
READ_S = 20  # without a byte
ATTEMPTS = 4  # of one call, with pauses that double and jitter
CONNECTIONS = 64  # threads that talk to it at once
_REGION = "us-east-1"  # for services that know no regions


@frozen
class Connection:
    """client: of boto3, safe to share between threads. credentials: of botocore, which renews them; None where there are none."""

    client: Any
    credentials: Any
    region: str

    @property
    def endpoint(self) -> str:
        url: str = self.client.meta.endpoint_url
        return url

    def close(self) -> None:
        self.client.close()


def connect(endpoint: str, access_key: str = "", secret_key: str = "", *, attempts: int = ATTEMPTS, read_s: float = READ_S) -> Connection:
    """S3 is not asked before the first call.

    Without keys the default chain of AWS finds them: environment, profile, web identity, pod identity, instance. Raises
    Unavailable where one of these is there and gives none.
    """
    session = boto3.session.Session()
    region = session.region_name or _REGION
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path"},
        connect_timeout=CONNECT_S,
        read_timeout=read_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        # Checksums in trailers are not understood by every S3; our own digests travel with each object.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    with answering():
        client = session.client(
            "s3",
            endpoint_url=endpoint or None,
            aws_access_key_id=access_key or None,
            aws_secret_access_key=secret_key or None,
            region_name=region,
            config=config,
        )
        return Connection(client, Credentials(access_key, secret_key) if access_key else session.get_credentials(), region)
