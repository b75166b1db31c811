"""What changes in a kind: one watch per process, folded into the latest state of each object, for any number of readers.

Level-triggered: of an object only its newest state is kept, or that it is gone, in the order of resourceVersions. A
dropped connection goes on from the last version seen, bookmarks included. Where the API server does not remember that
any more (410), or tells an older now (a restored backup), the feed begins anew from now, and readers from before that
are told to read everything. A reader of this process finds its own writes: it waits until the watch has told them.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator

import urllib3
from attrs import frozen

from adapters.k8s.forms import Form
from adapters.k8s.objects import ExpiredError, Objects
from ports.errors import Unavailable

KEPT = 4_096  # objects; a reader that is further behind reads everything
CONNECTION_S = (40, 60)  # a watch is asked for so long, at random, so that not all come back at once
PAUSES_S = (0.1, 5.0)  # after a failed connection: at first, and at most
OWN_WRITES_S = 5.0  # the longest wait for the watch to tell what this process wrote


@frozen
class Change:
    """version: of this change. form: the object as it is; None: it is gone. key: its id."""

    key: str
    version: int
    form: Form | None


class Feed:
    """key_of: the id of an object by its metadata.

    In the feed's own thread: begun is called when it begins, or begins anew; seen, with each object that comes.
    """

    def __init__(
        self,
        objects: Objects,
        key_of: Callable[[Form], str],
        begun: Callable[[], None],
        seen: Callable[[Form], None],
        kept: int = KEPT,
    ) -> None:
        self._objects, self._key_of, self._begun, self._seen, self._kept = objects, key_of, begun, seen, kept
        self._condition = threading.Condition()
        self._log: dict[str, Change] = {}  # by ascending version
        self._own: dict[str, int] = {}  # of objects that this process wrote: the version that the watch has yet to reach
        self._at = 0  # all changes up to this version are in the log, or are older than the horizon
        self._horizon = 0  # changes up to this version may be missing
        self._newest = 0  # the highest version that the API has named
        self._trouble: Unavailable | None = None
        self._thread: threading.Thread | None = None
        self._stream: urllib3.BaseHTTPResponse | None = None
        self._closed = False
        self._fresh = True  # it has begun, and `begun` is yet to be called

    # ------------------------------------------------------------ for readers

    def now(self) -> int:
        """A version from which on everything will be told."""
        with self._condition:
            running = self._thread is not None
        if not running:
            self._begin()
        newest = int(self._objects.newest())
        with self._condition:
            self._newest = max(self._newest, newest)
        return newest

    def reaches(self, version: int) -> bool:
        """Whether everything after `version` can be told; else its reader has to read everything."""
        self._begin()
        with self._condition:
            self._check()
            if version > max(self._newest, self._at):
                behind = True
            else:
                return version >= self._horizon
        if behind:
            newest = int(self._objects.newest())
            with self._condition:
                self._newest = max(self._newest, newest)
                return newest >= version >= self._horizon
        return True

    def after(self, version: int, deadline: float, most: int) -> list[Change] | None:
        """Changes after `version`, oldest first; waits for the first until `deadline` (of time.monotonic). None: see `reaches`."""
        with self._condition:
            self._wait_for_own()
            while True:
                self._check()
                if version < self._horizon:
                    return None
                found = list(self._newer(version))
                left = deadline - time.monotonic()
                if found or left <= 0:
                    return found[::-1][:most]
                self._condition.wait(left)

    def wrote(self, key: str, version: int) -> None:
        """This process made the change of that version: a reader of this process waits until the watch has told it."""
        with self._condition:
            if self._thread is not None and version > self._at and version > self._told(key):
                self._own[key] = max(version, self._own.get(key, 0))

    def drop(self) -> None:
        """Let go of the connection; another one goes on where it ended."""
        with self._condition:
            stream = self._stream
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                stream.shutdown()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            thread = self._thread
            self._condition.notify_all()
        while thread is not None and thread.is_alive():
            self.drop()  # again: it may have been about to connect
            thread.join(0.05)

    def _newer(self, version: int) -> Iterator[Change]:
        for change in reversed(self._log.values()):
            if change.version <= version:
                return
            yield change

    def _told(self, key: str) -> int:
        change = self._log.get(key)
        return change.version if change is not None else 0

    def _check(self) -> None:
        if self._closed:
            raise Unavailable("the job store", "it was closed")
        if self._trouble is not None:
            raise self._trouble

    def _wait_for_own(self) -> None:
        waited = dict(self._own)
        until = time.monotonic() + OWN_WRITES_S
        while any(self._own.get(key, 0) >= version for key, version in waited.items()):
            self._check()
            left = until - time.monotonic()
            if left <= 0:
                raise Unavailable("the job store", "its watch lags behind", 1)
            self._condition.wait(left)

    # ------------------------------------------------------------ the watch

    def _begin(self) -> None:
        """Start to watch, from now: a reader of an earlier process has lost what it knew, and reads everything."""
        with self._condition:
            if self._thread is not None or self._closed:
                return
            self._thread = threading.Thread(target=self._run, name="watch-jobs", daemon=True)
        try:
            newest = int(self._objects.newest())
        except BaseException:
            with self._condition:
                self._thread = None
            raise
        with self._condition:
            self._at = self._horizon = self._newest = newest
            self._own = {key: wanted for key, wanted in self._own.items() if wanted > self._at}
            self._thread.start()

    def _run(self) -> None:
        pause = PAUSES_S[0]
        while not self._closed:
            try:
                self._connect()
                pause = PAUSES_S[0]
            except ExpiredError:
                self._restart()
            except Unavailable as error:
                self._fail(error)
                time.sleep(pause if not self._closed else 0)
                pause = min(pause * 2, PAUSES_S[1])
            except Exception as error:
                self._fail(Unavailable("the job store", f"its watch broke: {type(error).__name__}: {error}"[:200]))
                time.sleep(PAUSES_S[0])

    def _fail(self, error: Unavailable) -> None:
        with self._condition:
            self._trouble = error
            self._condition.notify_all()

    def _connect(self) -> None:
        newest = int(self._objects.newest())
        if newest < self._at:
            self._restart(newest)  # numbers mean something else than before
        stream = self._objects.watch(str(self._at), random.randint(*CONNECTION_S))  # noqa: S311 - no secret
        with self._condition:
            self._stream = stream
            self._trouble = None
            self._condition.notify_all()
        try:
            if self._fresh:
                self._begun()
                self._fresh = False
            for event in events(stream):
                if self._closed:
                    return
                self._fold(event)
        except (urllib3.exceptions.HTTPError, OSError):
            return  # dropped: go on from where it was
        finally:
            with self._condition:
                self._stream = None
            stream.close()

    def _restart(self, newest: int = 0) -> None:
        """Begin anew from now; what was between is not known."""
        try:
            newest = newest or int(self._objects.newest())
        except Unavailable as error:
            self._fail(error)
            return
        with self._condition:
            self._log.clear()
            self._own = {key: wanted for key, wanted in self._own.items() if wanted > newest}
            self._at = self._horizon = self._newest = newest
            self._fresh = True
            self._condition.notify_all()

    def _fold(self, event: Form) -> None:
        kind, form = event["type"], event["object"]
        if kind == "ERROR":
            if form.get("code") == 410:
                raise ExpiredError(str(form.get("message", "")))
            raise Unavailable("the Kubernetes API", str(form.get("message", ""))[:200])
        version = int(form["metadata"]["resourceVersion"])
        with self._condition:
            if kind != "BOOKMARK":
                self._note(Change(self._key_of(form["metadata"]), version, None if kind == "DELETED" else form))
            self._at = max(self._at, version)
            self._newest = max(self._newest, version)
            self._own = {key: wanted for key, wanted in self._own.items() if wanted > self._at}
            self._condition.notify_all()
        if kind in ("ADDED", "MODIFIED"):
            self._seen(form)

    def _note(self, change: Change) -> None:
        self._log.pop(change.key, None)
        self._log[change.key] = change
        while len(self._log) > self._kept:
            oldest = next(iter(self._log))
            self._horizon = self._log.pop(oldest).version


def events(stream: urllib3.BaseHTTPResponse) -> Iterator[Form]:
    """One per line; a line that is cut off by the end is none."""
    rest = b""
    for piece in stream.stream(None, decode_content=False):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)
