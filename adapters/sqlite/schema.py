"""The two files' schemas, step by step, and how to open them.

A step that was released is never edited: a change is a new step, which a newer release carries out on the
older one's file. Stored bodies are JSON by `ports.wire`; what is searched for has a column of its own.
"""

from __future__ import annotations

from pathlib import Path

from adapters.sqlite.database import Database, Schema, version_of
from ports.errors import Refused

_WORKLOADS_1 = (
    # jobs: the newest write's number, from 1. horizon: the newest tombstone that was pruned. store: told apart in cursors.
    "CREATE TABLE sequence (jobs INTEGER NOT NULL, horizon INTEGER NOT NULL, nodes INTEGER NOT NULL, store TEXT NOT NULL) STRICT",
    "INSERT INTO sequence VALUES (0, 0, 0, lower(hex(randomblob(8))))",
    """CREATE TABLE jobs (
        id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, created_at INTEGER NOT NULL, user TEXT NOT NULL,
        phase TEXT NOT NULL, name TEXT NOT NULL, schema INTEGER NOT NULL, body BLOB NOT NULL) STRICT""",
    "CREATE INDEX jobs_by_creation ON jobs (created_at, id)",
    "CREATE INDEX jobs_by_user ON jobs (user, created_at, id)",
    "CREATE INDEX jobs_by_phase ON jobs (phase, created_at, id)",
    "CREATE TABLE labels (job TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (job, key)) STRICT, WITHOUT ROWID",
    "CREATE INDEX labels_by_value ON labels (key, value, job)",
    "CREATE TABLE tombstones (seq INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT",
    "CREATE TABLE nodes (name TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, spec BLOB NOT NULL, status BLOB NOT NULL) STRICT",
    "CREATE TABLE tariffs (version INTEGER NOT NULL PRIMARY KEY, effective INTEGER NOT NULL, body BLOB NOT NULL) STRICT",
    "CREATE TABLE epoch (newest INTEGER NOT NULL) STRICT",
    "INSERT INTO epoch VALUES (0)",
)
_WORKLOADS_2 = (
    "ALTER TABLE sequence DROP COLUMN jobs",  # it is the highest number in jobs and tombstones
    "DROP INDEX jobs_by_creation",  # a list of all is one of each phase, merged
)
_CREDITS_1 = (
    "CREATE TABLE accounts (name TEXT NOT NULL PRIMARY KEY, balance INTEGER NOT NULL, held INTEGER NOT NULL, plan TEXT NOT NULL) STRICT",
    """CREATE TABLE journal (
        seq INTEGER NOT NULL PRIMARY KEY, at INTEGER NOT NULL, posting INTEGER NOT NULL, account TEXT NOT NULL, amount INTEGER NOT NULL,
        kind TEXT NOT NULL, key TEXT NOT NULL, run TEXT NOT NULL, until INTEGER NOT NULL, memo TEXT NOT NULL, hash BLOB NOT NULL) STRICT""",
    "CREATE INDEX journal_by_account ON journal (account, seq)",
    # The journal's end, so that rows cut off there are missed: the newest seq, posting and hash.
    "CREATE TABLE journal_end (seq INTEGER NOT NULL, posting INTEGER NOT NULL, hash BLOB NOT NULL) STRICT",
    "INSERT INTO journal_end VALUES (0, 0, zeroblob(32))",
    "CREATE TABLE posted (key TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID",
    """CREATE TABLE holds (
        key TEXT NOT NULL PRIMARY KEY, account TEXT NOT NULL, amount INTEGER NOT NULL, have INTEGER NOT NULL,
        state TEXT NOT NULL, at INTEGER NOT NULL) STRICT""",
    # The highest totals of a run: until (ms of running), and per account.
    """CREATE TABLE charges (
        uid TEXT NOT NULL, run TEXT NOT NULL, payer TEXT NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (uid, run)) STRICT""",
    """CREATE TABLE totals (
        uid TEXT NOT NULL, run TEXT NOT NULL, account TEXT NOT NULL, total INTEGER NOT NULL,
        PRIMARY KEY (uid, run, account)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE alarms (
        seq INTEGER NOT NULL PRIMARY KEY, at INTEGER NOT NULL, uid TEXT NOT NULL, run TEXT NOT NULL, until INTEGER NOT NULL,
        detail TEXT NOT NULL, UNIQUE (uid, run, until, detail)) STRICT""",
    """CREATE TABLE usage (
        seq INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL) STRICT""",
)
_CREDITS_2 = ("CREATE INDEX journal_by_time ON journal (account, at, kind, amount)",)
_CREDITS_3 = (
    "CREATE TABLE caps (account TEXT NOT NULL PRIMARY KEY, cap INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    # What each user has spent in each month of UTC.
    """CREATE TABLE spent (account TEXT NOT NULL, month TEXT NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY (account, month))
        STRICT, WITHOUT ROWID""",
    """INSERT INTO spent SELECT account, strftime('%Y-%m', at / 1000, 'unixepoch') AS month, -sum(amount) FROM journal
        WHERE account LIKE 'user:%' AND kind IN ('charge', 'call') AND amount < 0 GROUP BY account, month""",
    # The steps of a month's cap that were told.
    """CREATE TABLE cap_steps (account TEXT NOT NULL, month TEXT NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (account, month, percent))
        STRICT, WITHOUT ROWID""",
)

_FILE = "gridweave.db"
GRIDWEAVE = Schema("workloads", (_WORKLOADS_1, _WORKLOADS_2))
CREDITS = Schema("credits", (_CREDITS_1, _CREDITS_2, _CREDITS_3))


def prepare_gridweave(folder: Path, alone: bool) -> None:
    """Bring the file of workloads up to date before anybody serves from it. alone: whether nobody else does.

    Raises Refused for a file of a newer release, and for one of an older release whose processes may still be there: a schema that
    changes below them would stop them, and what they hold.
    """
    path = folder / _FILE
    if not alone and 0 < version_of(path) < len(GRIDWEAVE.steps):
        raise Refused(
            f"{path.name} is of an older release, and a gateway runs on that state folder.",
            remedy="Stop all gateways on it first: this one then brings the file up to date.",
        )
    open_gridweave(folder).close()


def open_gridweave(folder: Path) -> Database:
    """Workloads, nodes, tariffs, epoch. What was answered survives a killed process; a power cut may take the last moments."""
    return Database(folder / _FILE, GRIDWEAVE, synchronous="NORMAL")


def open_credits(folder: Path) -> Database:
    """The journal of money. What was answered survives a power cut too."""
    return Database(folder / "credits.db", CREDITS, synchronous="FULL")
