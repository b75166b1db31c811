"""A store of blobs in lock-step with the plain one in memory.

A later store joins by a subclass that opens it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from ports.blobs import BlobInfo, BlobStore
from ports.errors import GridweaveError
from tests.memory.blobs import MemoryBlobs

SEGMENTS = st.sampled_from(["a", "b", "a-", "a.", "0", "..", ""])
KEYS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
DATA = st.lists(st.binary(max_size=20), max_size=3)


def outcome(call: Callable[[], object]) -> object:
    """What a call gave, or the class of its refusal. Times are each store's own."""
    try:
        found = call()
    except GridweaveError as error:
        return type(error)
    return (found.key, found.size, found.sha256) if isinstance(found, BlobInfo) else found


class BlobsMachine(RuleBasedStateMachine):
    """Subclasses give `self.store`, an empty one, in their `__init__`."""

    store: BlobStore

    def __init__(self) -> None:
        super().__init__()
        self.model = MemoryBlobs(SystemClock())

    def both(self, call: Callable[[BlobStore], object]) -> None:
        assert outcome(lambda: call(self.model)) == outcome(lambda: call(self.store))

    @rule(key=KEYS, data=DATA, only_new=st.booleans())
    def put(self, key: str, data: list[bytes], only_new: bool) -> None:
        self.both(lambda store: store.put(key, data, only_new))

    @rule(key=KEYS, offset=st.integers(-1, 30), length=st.none() | st.integers(-1, 30))
    def get(self, key: str, offset: int, length: int | None) -> None:
        self.both(lambda store: b"".join(store.get(key, offset, length)))

    @rule(key=KEYS)
    def stat(self, key: str) -> None:
        self.both(lambda store: store.stat(key))

    @rule(source=KEYS, to=KEYS)
    def copy(self, source: str, to: str) -> None:
        self.both(lambda store: store.copy(source, to))

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.both(lambda store: store.delete(key))

    @rule(prefix=KEYS)
    def list_some(self, prefix: str) -> None:
        self.both(lambda store: sorted((info.key, info.size) for info in store.list(prefix)))

    @invariant()
    def both_hold_the_same(self) -> None:
        self.both(lambda store: sorted((info.key, info.size, b"".join(store.get(info.key))) for info in store.list("")))


class FolderMachine(BlobsMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store: FolderBlobs = FolderBlobs(Path(self.folder.name), "http://127.0.0.1", b"secret", fsync=False)

    @invariant()
    def nothing_is_left_beside_the_blobs(self) -> None:
        files = [path for path in Path(self.folder.name).rglob("*") if path.is_file()]
        assert len(list(self.store.list(""))) == len(files)

    def teardown(self) -> None:
        self.folder.cleanup()


@pytest.mark.parametrize("machine", [FolderMachine])
def test_a_store_is_in_lock_step_with_the_model(machine: type[BlobsMachine]) -> None:
    """Combinations that nobody thought of: a key that is also a folder, copies onto themselves, folders that come and go."""
    run_state_machine_as_test(machine, settings=settings(max_examples=settings().max_examples // 4, stateful_step_count=30))


def test_a_bucket_is_in_lock_step_with_the_model(s3_blobs: S3Blobs) -> None:
    """The same of a real S3, with fewer examples, since each step is some requests."""

    folders: set[str] = set()

    class BucketMachine(BlobsMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store = s3_blobs
            for info in list(s3_blobs.list("")):
                s3_blobs.delete(info.key)

        @rule(key=KEYS, data=DATA, only_new=st.booleans())
        def put(self, key: str, data: list[bytes], only_new: bool) -> None:
            """SeaweedFS takes a folder, even one that was emptied a moment ago, for an object that is there already."""
            super().put(key, data, only_new and key not in folders)
            folders.update(key[:at] for at, each in enumerate(key) if each == "/")

    run_state_machine_as_test(BucketMachine, settings=settings(max_examples=settings().max_examples // 10, stateful_step_count=20))
