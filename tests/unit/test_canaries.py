"""The search for secrets can fail: one that is planted in any kind of sink is found, and told without being told."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.local.grants import read_grant
from ports.units import Span
from tests import sinks
from tests.canaries import ADMIN_TOKEN, ALLOWED, MARK, OVERLAP, PLATFORM_TOKEN, RUN_SECRET, S3_SECRET, WRONG_TOKEN, Allowed, Canaries
from tests.contract import peers

GRANT = read_grant(b"k" * 32, "http://gateway", "jobs/a/args", SystemClock().now() + Span(1000)).url


def written(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def into_log(folder: Path) -> None:
    written(folder / "gateway.log", "x" * 5000 + f'{{"event": "started", "token": "{ADMIN_TOKEN}"}}\n')


def into_name(folder: Path) -> None:
    written(folder / "blobs" / ADMIN_TOKEN, "")


def into_database(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "gridweave.db")) as database:
        database.execute("CREATE TABLE jobs (said TEXT)")
        database.execute("INSERT INTO jobs VALUES (?)", (json.dumps({"token": ADMIN_TOKEN}),))
        database.commit()


def into_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "code", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("module.py", f"TOKEN = '{ADMIN_TOKEN}'\n" + "#" * 1000)


def into_blob(folder: Path) -> None:
    blobs = FolderBlobs(folder / "blobs", "http://gateway", b"k" * 32, fsync=False)
    blobs.put("jobs/a/1/traceback.txt", [f"ValueError: {ADMIN_TOKEN}".encode()])


def into_node(folder: Path) -> None:
    written(folder / "agents/n1/agent.log", base64.b64encode(b"user:" + ADMIN_TOKEN.encode()))


def into_hex(folder: Path) -> None:
    written(folder / "scheduler.log", ADMIN_TOKEN.encode().hex())


def over_a_border(folder: Path) -> None:
    written(folder / "log", b"x" * (sinks.BLOCK - 5) + ADMIN_TOKEN.encode())


PLANTS = (into_log, into_name, into_database, into_zip, into_blob, into_node, into_hex, over_a_border)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_secret_in_any_file_is_found(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """A search that finds nothing in a sink proves nothing of it."""
    written(tmp_path / "other.log", "nothing here")
    assert () == Canaries().search(sinks.files(tmp_path)).found
    plant(tmp_path)
    assert {"ADMIN_TOKEN"} == {each.partition(" in ")[0] for each in Canaries().search(sinks.files(tmp_path)).found}


def test_a_row_that_is_only_in_the_journal_of_a_database_is_found(tmp_path: Path) -> None:
    """A database that was killed has its newest rows there."""
    with closing(sqlite3.connect(tmp_path / "gridweave.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE jobs (said TEXT)")
        database.execute("INSERT INTO jobs VALUES (?)", (ADMIN_TOKEN,))
        database.commit()
        assert ("ADMIN_TOKEN in state/gridweave.db-wal",) == Canaries().search(sinks.files(tmp_path, "state")).found


@contextmanager
def serving(answers: Callable[[str], tuple[int, bytes]]) -> Iterator[str]:
    """A service that gives those answers; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, body = answers(self.path) if self.path != "/openapi.json" else (200, b'{"paths": {"/v1/jobs": {"get": {}}}}')
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Said", WRONG_TOKEN if self.path == "/v1/header" else "")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that the library calls

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with peers.serving(Handler) as url:
        yield url


@pytest.mark.parametrize("path", ["/metrics", "/v1/jobs", "/nowhere", "/v1/jobs/submit", ""])
def test_a_secret_in_any_answer_is_found(path: str) -> None:
    """Metrics, listings and errors are read by more people than secrets."""
    with serving(lambda asked: (404 if path == "/nowhere" else 200, f'{{"said": "{PLATFORM_TOKEN}"}}'.encode() * (asked == path))) as url:
        found = Canaries().search(sinks.answers(url)).found
    assert bool(path) == bool(found)
    assert all(each.startswith(f"PLATFORM_TOKEN in http{path}") for each in found)


def test_a_secret_in_a_bundle_or_an_error_is_found() -> None:
    """They are mailed to strangers."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("settings.json", json.dumps({"s3_secret_key": S3_SECRET}))
    assert ("S3_SECRET_KEY in bundle!settings.json",) == Canaries().search(sinks.unzipped("bundle", made)).found
    assert ("a token that was refused in errors",) == Canaries().search(sinks.errors([f"no such token: {WRONG_TOKEN}".encode()])).found


def test_secrets_that_were_made_meanwhile_parts_of_secrets_and_grants_are_found() -> None:
    """A token of an agent is known to nobody before; a line that was cut short still gives away most of it."""
    known = Canaries({"the token of n1": "0123456789abcdef" * 4})
    said = [f"GET {GRANT}".encode(), b"bearer " + b"0123456789abcdef" * 4, f"{MARK}adm".encode()]
    found = known.search([("log", [each]) for each in said]).found
    assert ("a grant in log", "the token of n1 in log", "a part of a secret in log") == found


def test_what_is_found_is_named_and_never_shown() -> None:
    """The report of a test run is a sink, too."""
    known = Canaries({"the token of n1": "0123456789abcdef" * 4})
    searched = known.search([("log", [ADMIN_TOKEN.encode(), b"0123456789abcdef" * 4])])
    with pytest.raises(AssertionError, match="ADMIN_TOKEN in log") as caught:
        searched.check()
    assert [] == [secret for secret in (ADMIN_TOKEN, "0123456789abcdef") if secret in f"{caught.value} {known!r} {searched!r}"]


def test_a_search_that_saw_too_little_fails() -> None:
    """A renamed folder would make it silent for ever."""
    searched = Canaries().search([("state/gateway.log", [b"x"])])
    searched.check("state/*.log")
    with pytest.raises(AssertionError, match=r"did not see \['state/gridweave\.db'\]"):
        searched.check("state/gateway.log", "state/gridweave.db")


def test_a_place_is_allowed_for_its_own_secret_only() -> None:
    """The environment of a run is in its job's spec; the bucket's key is not."""
    rows = [("home/state/gridweave.db-wal", [RUN_SECRET.encode(), b"x" * OVERLAP, S3_SECRET.encode()])]
    assert ("S3_SECRET_KEY in home/state/gridweave.db-wal",) == Canaries().search(rows).found
    assert 2 == len(Canaries().search(rows, ()).found)
    assert 1 == len(Canaries().search([("s3/jobs/a/manifest.json", [RUN_SECRET.encode()])]).found)
    assert all(isinstance(each, Allowed) and each.why for each in ALLOWED)


def test_no_source_holds_what_is_searched_for() -> None:
    """Modules travel to the nodes as the code of jobs, and would be found there."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    assert [] == [str(path) for path in sources if MARK.encode() in path.read_bytes()]
