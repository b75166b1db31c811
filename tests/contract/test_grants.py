"""Grants of the folder store: what was granted may be done, and nothing beside it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from adapters.local.blobs import FolderBlobs
from adapters.local.grants import GrantedRead, GrantedWrite, open_grant
from ports.errors import Forbidden, Invalid
from ports.units import Instant

SECRET = b"s" * 32
EXPIRES = Instant(2_000)
NOW = Instant(1_999)


@pytest.fixture
def store(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path, "http://127.0.0.1:8200/", SECRET)


def opened(url: str, method: str, now: Instant = NOW, secret: bytes = SECRET) -> GrantedRead | GrantedWrite:
    parts = urlsplit(url)
    return open_grant(secret, method, parts.path, parts.query, now)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_grant_opens_its_blob(store: FolderBlobs, method: str) -> None:
    """An agent fetches the function without any other credential."""
    grant = store.grant_read("jobs/j-1/function", EXPIRES)
    assert grant.url.startswith("http://127.0.0.1:8200/v1/blobs/jobs/j-1/function?")
    assert GrantedRead("jobs/j-1/function") == opened(grant.url, method)


def test_a_write_grant_opens_each_name_below_its_prefix(store: FolderBlobs) -> None:
    """One grant serves the result and all log chunks of a run."""
    grant = store.grant_write("jobs/j-1/1/", 1000, EXPIRES)
    for name in ("result", "logs/0/000000000"):
        assert GrantedWrite(f"jobs/j-1/1/{name}", 1000) == opened(grant.url.replace("{name}", name), "PUT")


def test_a_grant_ends(store: FolderBlobs) -> None:
    """At its very moment, and for ever."""
    url = store.grant_read("a", EXPIRES).url
    for now in (EXPIRES, Instant(10**15)):
        with pytest.raises(Forbidden, match="expired"):
            opened(url, "GET", now)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/blobs/jobs/j-1/10/result",
        "/v1/blobs/jobs/j-1/result",
        "/v1/blobs/jobs/j-1/1",
        "/v1/blobs/jobs/j-1/1/",
        "/v1/blobs/jobs/j-1/1/../2/result",
        "/v1/blobs/jobs/j-1/1/..",
        "/v1/blobs/jobs/j-1/1//result",
        "/v1/blobs//jobs/j-1/1/result",
        "/v1/blobs/jobs/j-1/1/%2e%2e/2/result",
        "/v1/blobs/jobs/j-1/1/a\x00",
        "/v1/blobs/jobs/j-1/1/{name}",
        "/v1/jobs/jobs/j-1/1/result",
        "jobs/j-1/1/result",
        "",
    ],
)
def test_a_write_grant_opens_nothing_else(store: FolderBlobs, path: str) -> None:
    """A run writes below its own prefix: not to another's, nor to a later attempt of its own."""
    query = urlsplit(store.grant_write("jobs/j-1/1/", 1000, EXPIRES).url).query
    with pytest.raises(Forbidden):
        open_grant(SECRET, "PUT", path, query, NOW)


def test_a_read_grant_opens_no_other_blob(store: FolderBlobs) -> None:
    """The key is part of what is signed."""
    query = urlsplit(store.grant_read("jobs/j-1/args", EXPIRES).url).query
    for path in ("/v1/blobs/jobs/j-2/args", "/v1/blobs/jobs/j-1/args/x", "/v1/blobs/jobs"):
        with pytest.raises(Forbidden):
            open_grant(SECRET, "GET", path, query, NOW)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "get", ""])
def test_a_read_grant_does_not_write(store: FolderBlobs, method: str) -> None:
    """A user who learns the URL of his input must not change it."""
    with pytest.raises(Forbidden):
        opened(store.grant_read("jobs/j-1/1/x", EXPIRES).url, method)


def test_a_write_grant_does_not_read(store: FolderBlobs) -> None:
    """Uploads are one way."""
    url = store.grant_write("jobs/j-1/1/", 1, EXPIRES).url.replace("{name}", "result")
    for method in ("GET", "HEAD"):
        with pytest.raises(Forbidden):
            opened(url, method)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max=1000", "max=1001"),
        ("max=1000", "max=01000"),
        ("max=1000", "max=-1"),
        ("max=1000", "max=\uff11000"),
        ("max=1000", "max="),
        ("max=1000&", ""),
        ("max=1000", "max=1000&max=9999"),
        ("expires=2000", "expires=9000"),
        ("expires=2000", "expires=2000.0"),
        ("expires=2000", "expires=%2B2000"),
        ("prefix=jobs/j-1/1/", "prefix=jobs/"),
        ("prefix=jobs/j-1/1/", "prefix="),
        ("prefix=jobs/j-1/1/&", ""),
        ("method=PUT", "method=GET"),
        ("sig=", "sig=0"),
        ("sig=", "sig=%ff"),
        ("sig=", "sign="),
        ("sig=", "more=1&sig="),
        ("&sig=", ";sig="),
        ("method=PUT", "method"),
    ],
)
def test_a_stretched_grant_opens_nothing(store: FolderBlobs, old: str, new: str) -> None:
    """Time, size, prefix and method are signed, and each field counts once."""
    path, query = "/v1/blobs/jobs/j-1/1/result", urlsplit(store.grant_write("jobs/j-1/1/", 1000, EXPIRES).url).query
    assert GrantedWrite("jobs/j-1/1/result", 1000) == open_grant(SECRET, "PUT", path, query, NOW)
    assert old in query
    with pytest.raises(Forbidden):
        open_grant(SECRET, "PUT", path, query.replace(old, new), NOW)


def test_another_secret_opens_nothing(store: FolderBlobs) -> None:
    """Grants of another installation, or from before a rotated secret."""
    with pytest.raises(Forbidden):
        opened(store.grant_read("a", EXPIRES).url, "GET", secret=b"another")


def test_an_error_never_shows_the_signature(store: FolderBlobs) -> None:
    """Errors are logged and shown; a signature is a credential."""
    url = store.grant_read("a", EXPIRES).url
    signature = url.rpartition("sig=")[2]
    with pytest.raises(Forbidden) as caught:
        opened(url, "GET", EXPIRES)
    assert signature not in str(caught.value) + repr(caught.value)


def test_a_size_below_zero_is_refused(store: FolderBlobs) -> None:
    """It would be signed, and mean nothing."""
    with pytest.raises(Invalid, match="max_size"):
        store.grant_write("jobs/j-1/1/", -1, EXPIRES)
