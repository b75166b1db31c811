"""What every store of blobs keeps to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from ports.blobs import BlobStore
from ports.errors import AlreadyExists, Invalid, NotFound, Unavailable
from ports.units import Instant, Span
from tests.contract.races import in_threads
from tests.memory.blobs import MemoryBlobs

MIB = 1024 * 1024
BAD_KEYS = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/..",
    "../a",
    "a/../b",
    "a/./b",
    "a\x00",
    "a\n",
    "a b",
    "a%2e",
    "ä",
    "🦉",
    "a\\b",
    "a~",
    "{name}",
    "a" * 201,
    "a/" * 16 + "a",
]


def read(store: BlobStore, key: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join(store.get(key, offset, length))


def keys(store: BlobStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


class BlobsContract:
    """Give a fixture `store`: an empty one."""

    def test_what_is_put_is_read_back(self, store: BlobStore) -> None:
        """Byte for byte, in whatever pieces it came, with its size and digest."""
        data = bytes(range(256)) * 5000
        info = store.put("jobs/j-1/1/result", [data[:1], b"", data[1:70000], data[70000:]])
        assert data == read(store, "jobs/j-1/1/result")
        assert ("jobs/j-1/1/result", len(data), hashlib.sha256(data).hexdigest()) == (info.key, info.size, info.sha256)
        found = store.stat("jobs/j-1/1/result")
        assert found == evolve(info, modified=found.modified if found is not None else info.modified)

    def test_an_empty_blob_is_a_blob(self, store: BlobStore) -> None:
        """A function without arguments, a log without lines."""
        assert 0 == store.put("empty", []).size
        assert b"" == read(store, "empty")
        assert ["empty"] == keys(store)

    def test_a_second_put_replaces_the_first(self, store: BlobStore) -> None:
        """An upload that is repeated after a time-out ends as if it had come once."""
        store.put("a", [b"a long first one"])
        store.put("a", [b"second"])
        assert b"second" == read(store, "a")

    def test_a_put_of_the_new_only_leaves_the_old(self, store: BlobStore) -> None:
        """The first manifest counts, whoever writes a second."""
        store.put("a", [b"first"], only_new=True)
        with pytest.raises(AlreadyExists):
            store.put("a", [b"second"], only_new=True)
        assert b"first" == read(store, "a")

    def test_a_put_that_fails_leaves_what_was(self, store: BlobStore) -> None:
        """A client that hangs up in the middle leaves neither half a blob nor a hole."""

        def broken() -> Iterator[bytes]:
            yield b"x" * 100_000
            raise ConnectionResetError("the client hung up")

        store.put("old", [b"old"])
        for key in ("old", "new"):
            with pytest.raises(ConnectionResetError):
                store.put(key, broken())
        assert ["old"] == keys(store)
        assert b"old" == read(store, "old")

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, 3, b"012"),
            (2, 3, b"234"),
            (8, 100, b"89"),
            (9, None, b"9"),
            (10, None, b""),
            (11, 1, b""),
            (5, 0, b""),
            (0, None, b"0123456789"),
        ],
    )
    def test_a_range_is_read(self, store: BlobStore, offset: int, length: int | None, expected: bytes) -> None:
        """A reader of logs goes on where it stopped; beyond the end there is nothing yet."""
        store.put("log", [b"0123456789"])
        assert expected == read(store, "log", offset, length)

    def test_a_range_over_several_blocks_is_read(self, store: BlobStore) -> None:
        """Blocks join without a seam."""
        data = b"".join(number.to_bytes(4, "big") for number in range(300_000))
        store.put("large", [data])
        assert data[777_777:1_111_111] == read(store, "large", 777_777, 333_334)

    @pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1)])
    def test_a_range_below_zero_is_refused(self, store: BlobStore, offset: int, length: int | None) -> None:
        """Python would count it from the end."""
        store.put("a", [b"abc"])
        with pytest.raises(Invalid, match="range"):
            store.get("a", offset, length)

    def test_a_missing_blob_is_told_at_the_call(self, store: BlobStore) -> None:
        """Before the first byte of an answer is sent, it can still become a 404."""
        with pytest.raises(NotFound):
            store.get("jobs/j-1/1/result")
        assert store.stat("jobs/j-1/1/result") is None

    def test_blobs_are_joined_in_the_order_of_their_keys_as_given(self, store: BlobStore) -> None:
        """The chunks of a log are one stream: empty ones, large ones and thousands of small ones among them."""
        parts = [b"%06d" % n * (n % 7) for n in range(300)] + [bytes(range(256)) * 4096, b"", b"last"]
        names = [f"logs/{n:09d}" for n in range(len(parts))]
        for name, part in zip(names, parts, strict=True):
            store.put(name, [part])
        assert b"".join(parts) == b"".join(store.join(names))
        assert parts[3] + parts[2] + parts[3] == b"".join(store.join([names[3], names[2], names[3]]))
        assert b"" == b"".join(store.join([]))

    def test_a_missing_part_of_what_is_joined_is_told_where_it_is_missing(self, store: BlobStore) -> None:
        """What was there before it has been read; a gap is never passed over."""
        for name in ("a", "c"):
            store.put(name, [name.encode()])
        joined = store.join(["a", "b", "c"])
        assert b"a" == next(joined)
        with pytest.raises(NotFound):
            next(joined)
        with pytest.raises(Invalid):
            list(store.join(["a", "../b"]))

    def test_a_reader_is_not_disturbed(self, store: BlobStore) -> None:
        """Whoever began to read one blob reads that one to its end."""
        data = b"1" * (2 * MIB)
        store.put("a", [data])
        reader = store.get("a")
        first = next(reader)
        store.put("a", [b"2" * MIB])
        store.delete("a")
        assert data == first + b"".join(reader)

    def test_a_list_is_by_key_below_a_prefix(self, store: BlobStore) -> None:
        """Log chunks of one folder are joined in the order of the list; a prefix is text, as with S3."""
        names = [
            "a",
            "a-b",
            "a.b",
            "a/b",
            "a/b/c",
            "a/b-c",
            "a0",
            "A",
            "b/logs/0/000000000",
            "b/logs/0/000000010",
            "b/logs/1/000000002",
            "ab/c",
        ]
        for name in names:
            store.put(name, [name.encode()])
        assert sorted(names) == sorted(keys(store))
        assert ["b/logs/0/000000000", "b/logs/0/000000010"] == keys(store, "b/logs/0/")
        for prefix in ("a", "a/", "a/b", "b/logs/0/", "b/logs/0/00000001", "b/logs/", "c", "b/logs/0/000000000"):
            assert sorted(name for name in names if name.startswith(prefix)) == sorted(keys(store, prefix)), prefix
        assert {name: len(name) for name in names} == {info.key: info.size for info in store.list("")}

    def test_a_deleted_blob_is_gone(self, store: BlobStore) -> None:
        """And deleting it twice is deleting it once; its neighbours stay."""
        for key in ("a/b", "a/b/c", "a/d"):
            store.put(key, [b"x"])
        store.delete("a/b")
        store.delete("a/b")
        store.delete("never/was")
        assert ["a/b/c", "a/d"] == keys(store)
        assert store.stat("a/b") is None

    def test_a_copy_stands_for_itself(self, store: BlobStore) -> None:
        """A job keeps its function when the upload expires, or is put anew."""
        made = store.put("uploads/u/1", [b"function"])
        copy = store.copy("uploads/u/1", "jobs/j-1/function")
        assert ("jobs/j-1/function", made.size, made.sha256) == (copy.key, copy.size, copy.sha256)
        store.put("uploads/u/1", [b"another"])
        assert b"function" == read(store, "jobs/j-1/function")
        store.delete("uploads/u/1")
        assert b"function" == read(store, "jobs/j-1/function")

    def test_a_copy_replaces_its_target_and_may_be_repeated(self, store: BlobStore) -> None:
        """A submit that is repeated copies again."""
        store.put("a", [b"new"])
        store.put("b", [b"old"])
        for _ in range(3):
            store.copy("a", "b")
            store.copy("a", "a")
        assert [b"new", b"new"] == [read(store, "a"), read(store, "b")]
        assert ["a", "b"] == keys(store)

    def test_a_copy_of_nothing_is_told(self, store: BlobStore) -> None:
        """An upload that has expired meanwhile must not become an empty function."""
        with pytest.raises(NotFound):
            store.copy("a", "b")
        assert [] == keys(store)

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_outside_the_grammar_is_refused_everywhere(self, store: BlobStore, key: str) -> None:
        """No key ever names anything outside the store, or means two things in two stores."""
        store.put("a", [b"x"])
        for call in (
            lambda: store.put(key, [b"x"]),
            lambda: store.get(key),
            lambda: store.stat(key),
            lambda: store.copy("a", key),
            lambda: store.copy(key, "b"),
            lambda: store.delete(key),
            lambda: store.grant_read(key, Instant(1)),
            lambda: store.grant_write(key + "/", 1, Instant(1)),
        ):
            with pytest.raises(Invalid):
                call()
        assert ["a"] == keys(store)

    @pytest.mark.parametrize("key", ["a", "..a", "a..", "...", ".a", "-", "_", "a" * 200, "/".join("a" * 16), "x.tar.gz"])
    def test_a_key_within_the_grammar_is_taken(self, store: BlobStore, key: str) -> None:
        """Names that look odd but are harmless."""
        store.put(key, [b"x"])
        assert [key] == keys(store)
        assert b"x" == read(store, key)

    @pytest.mark.parametrize("prefix", ["..", "../", "a/../", "/", "a//"])
    def test_a_prefix_outside_the_grammar_lists_nothing(self, store: BlobStore, prefix: str) -> None:
        """Neither the folder above nor everything."""
        store.put("a/b", [b"x"])
        try:
            found = keys(store, prefix)
        except Invalid:
            found = []
        assert [] == found

    def test_a_grant_says_what_it_grants(self, store: BlobStore) -> None:
        """Whoever passes it on renews it in time, and puts the object's name where the URL has a place for it."""
        expires = Instant(5_000)
        written = store.grant_write("jobs/j-1/1/", 1000, expires)
        assert ("jobs/j-1/1/", 1000, expires) == (written.prefix, written.max_size, expires)
        assert written.method in ("PUT", "POST")
        assert ("{name}" in written.url) == (written.method == "PUT")
        assert ("GET", expires) == (store.grant_read("jobs/j-1/args", expires).method, expires)

    @pytest.mark.parametrize("prefix", ["", "jobs", "jobs/j-1", "/", "jobs/../"])
    def test_a_grant_to_write_is_for_one_folder(self, store: BlobStore, prefix: str) -> None:
        """`jobs/j-1` without a slash would grant `jobs/j-10` too."""
        with pytest.raises(Invalid):
            store.grant_write(prefix, 1, Instant(1))

    def test_of_threads_that_put_the_new_only_one_wins(self, store: BlobStore) -> None:
        """Exactly one manifest counts."""

        def put(number: int) -> str:
            try:
                store.put("jobs/j-1/manifest.json", [str(number).encode()] * 1000, only_new=True)
            except AlreadyExists:
                return "lost"
            return "won"

        answers = in_threads(put, 8)
        assert str(answers.index("won")).encode() * 1000 == read(store, "jobs/j-1/manifest.json")
        assert 7 == answers.count("lost")

    def test_readers_see_a_whole_blob_beside_writers(self, store: BlobStore) -> None:
        """A blob is all there or not at all, also while it is replaced, deleted and its folder comes and goes."""

        def work(number: int) -> set[bytes]:
            seen = set()
            for _ in range(30):
                if number % 2:
                    store.put("a/b/c", [bytes([number])] * 100)
                    store.delete("a/b/c")
                else:
                    try:
                        seen.add(read(store, "a/b/c"))
                    except NotFound:
                        continue
            return seen

        seen: set[bytes] = set().union(*in_threads(work, 6))  # type: ignore[arg-type]
        assert seen <= {bytes([number]) * 100 for number in (1, 3, 5)}


class TestMemoryBlobs(BlobsContract):
    @pytest.fixture
    def store(self) -> MemoryBlobs:
        return MemoryBlobs(SystemClock())


class TestS3Blobs(BlobsContract):
    """On a real SeaweedFS."""

    @pytest.fixture
    def store(self, s3_blobs: S3Blobs) -> S3Blobs:
        return s3_blobs


class TestFolderBlobs(BlobsContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "blobs"

    @pytest.fixture
    def store(self, folder: Path) -> FolderBlobs:
        return FolderBlobs(folder, "http://127.0.0.1:8200", b"secret")

    def test_what_was_stored_is_there_after_a_restart(self, store: FolderBlobs, folder: Path) -> None:
        """State outlives every process of ours."""
        made = store.put("a/b", [b"x"])
        assert made == FolderBlobs(folder, "http://other", b"another").stat("a/b")

    def test_nothing_is_left_beside_the_blobs(self, store: FolderBlobs, folder: Path) -> None:
        """Neither temporary files, nor empty folders of what was deleted."""
        store.put("a/b/c", [b"x"])
        store.copy("a/b/c", "a/d")
        store.copy("a/b/c", "a/d")
        store.delete("a/b/c")
        store.delete("a/d")
        assert ["objects", "temporary"] == sorted(each.name for each in folder.rglob("*"))

    def test_only_idle_temporary_files_are_swept(self, store: FolderBlobs, folder: Path) -> None:
        """What a dead writer left goes; a slow writer's file stays."""
        (folder / "temporary" / "left").write_bytes(b"x")
        assert 0 == store.sweep(Span.of(hours=1))
        assert 1 == store.sweep(Span(0))
        assert 0 == store.sweep(Span(0))

    def test_a_file_that_was_cut_short_is_never_read_as_whole(self, store: FolderBlobs, folder: Path) -> None:
        """After a power cut a result is missing, never silently wrong."""
        store.put("a", [b"0123456789" * 10])
        file = next(path for path in folder.rglob("*") if path.is_file())
        file.write_bytes(file.read_bytes()[:-10])
        with pytest.raises(Unavailable, match="damaged"):
            store.get("a")
        with pytest.raises(Unavailable, match="damaged"):
            store.stat("a")

    def test_an_upload_that_was_cut_short_is_to_be_sent_again(self, store: FolderBlobs, folder: Path) -> None:
        """Uploads are not synced to the disk: after a power cut nobody could use that function until its upload had expired."""
        upload = "uploads/alice/digest"
        store.put(upload, [b"0123456789" * 10])
        file = next(path for path in folder.rglob("*") if path.is_file())
        os.truncate(file, file.stat().st_size - 10)
        os.utime(file, (0, 0))
        assert store.stat(upload) is None
        with pytest.raises(NotFound):
            store.copy(upload, "jobs/job-1/inputs-1.function")
        assert 0 == file.stat().st_mtime
        assert [] == list(store.list("jobs/"))
        store.put(upload, [b"0123456789" * 10], only_new=True)
        assert 100 == store.copy(upload, "jobs/job-1/inputs-1.function").size
        with pytest.raises(AlreadyExists):
            store.put(upload, [b"other"], only_new=True)

    def test_a_damaged_blob_is_not_copied(self, store: FolderBlobs, folder: Path) -> None:
        """Nor is its time renewed."""
        store.put("a", [b"0123456789" * 10])
        file = next(path for path in folder.rglob("*") if path.is_file())
        os.truncate(file, file.stat().st_size - 10)
        os.utime(file, (0, 0))
        with pytest.raises(Unavailable, match="damaged"):
            store.copy("a", "b")
        with pytest.raises(AlreadyExists):
            store.put("a", [b"other"], only_new=True)
        assert ["a"] == [info.key for info in store.list("")]
        assert 0 == file.stat().st_mtime

    def test_a_large_blob_is_never_in_memory_as_a_whole(self, store: FolderBlobs) -> None:
        """512 MiB pass through a small gateway: each block is gone before the next one comes."""
        alive: list[int] = []

        class Block(bytes):
            def __del__(self) -> None:
                alive.pop()

        def blocks() -> Iterator[bytes]:
            for _ in range(20):
                alive.append(1)
                assert 2 >= len(alive)
                yield Block(b"x" * MIB)

        store.put("large", blocks())
        assert 256 * 1024 == max(len(block) for block in store.get("large"))

    def test_a_folder_that_vanished_is_unavailable(self, store: FolderBlobs, folder: Path) -> None:
        """Whatever the file system can't do is asked again later, in our words."""
        (folder / "temporary").rmdir()
        with pytest.raises(Unavailable, match="blob store"):
            store.put("a", [b"x"])
