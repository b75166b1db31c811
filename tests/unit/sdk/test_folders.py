"""A working folder arrives whole, or is refused by the name of what cannot travel."""

from __future__ import annotations

import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import gridweave as gw
import pytest
from gridweave.bundles import folder_bundle

from tests.unit.sdk.gateway import Gateway


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "a.txt").write_text("a")
    (folder / "run.sh").touch(0o755)
    return folder


def packed(folder: Path) -> list[str]:
    bundle = folder_bundle(str(folder))
    target = folder.with_suffix(".zip")
    target.write_bytes(b"".join(bundle.chunks()))
    bundle.close()
    return zipfile.ZipFile(target).namelist()


def test_all_travels_but_caches_and_environments(folder: Path) -> None:
    """What is left out is left out by a rule that the guide states; a .env is data like any other."""
    for name in (".git/HEAD", ".venv/pyvenv.cfg", "own-env/pyvenv.cfg", "deep/__pycache__/a.pyc", "node_modules/x.js"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".env").write_text("KEY=1")
    (folder / "cached" / "__pycache__").mkdir(parents=True)
    (folder / "link.txt").symlink_to("deep/er/a.txt")
    assert [".env", "cached/", "deep/er/a.txt", "link.txt", "run.sh"] == packed(folder)


def test_an_empty_folder_arrives(gateway: Gateway, folder: Path) -> None:
    """A function that writes into `out` should find it."""
    (folder / "out" / "of").mkdir(parents=True)

    @gw.function(env={"working_dir": str(folder)})
    def look() -> bool:
        import os

        return os.path.isdir("out/of")

    assert look.remote()


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda path: path.symlink_to("nowhere"), "odd is a link that leads nowhere: to nowhere. Bring the file there"),
        (lambda path: path.symlink_to("odd"), "odd is a link that leads nowhere: to odd"),
        (lambda path: path.symlink_to("er"), "odd is a link to a folder: er. Put the folder itself in its place"),
        (lambda path: path.symlink_to(".."), r"odd is a link to a folder: \.\."),
        (os.mkfifo, "odd is neither a file nor a folder"),
        (_socket, "odd is neither a file nor a folder"),
        (lambda path: Path(os.fsdecode(os.fsencode(path) + b"\xff")).touch(), r"odd\\udcff has a name that is no UTF-8"),
    ],
)
def test_what_cannot_travel_is_refused_by_name(folder: Path, made: Callable[[Path], None], words: str) -> None:
    """A file that is missing there, without a word, is found out by a wrong result."""
    made(folder / "deep" / "odd")
    with pytest.raises(gw.Refused, match=words) as caught:
        folder_bundle(str(folder))
    assert "env.working_dir" == caught.value.field


def test_what_cannot_be_read_is_refused_by_name(folder: Path) -> None:
    """Not by what Python says of it; this one nobody can read, whoever he is."""
    (folder / "odd").symlink_to("/proc/self/mem")
    with pytest.raises(gw.Refused, match=r"odd cannot be read: Input/output error\. Make it readable"):
        folder_bundle(str(folder))


def test_no_folder_is_not_the_current_one() -> None:
    """A variable that is empty by mistake would send whatever happens to be here."""
    with pytest.raises(gw.Refused, match="working_dir '' is not a folder"):
        folder_bundle("")


def sparse(path: Path, gib: float) -> None:
    with path.open("wb") as file:
        file.truncate(int(gib * 1024**3))


@pytest.mark.parametrize(
    ("names", "gib", "words"),
    [
        (["a.bin", "b.bin"], 5, r"/folder': at least 10240.0 MiB, more than the 8192.0 MiB that a node unpacks\. Largest: a.bin \(5120"),
        (
            ["a.zip", "b.MP4"],
            0.3,
            r"/folder': at least 614.4 MiB, more than the 512.0 MiB that can be sent when packed\. Largest: a.zip \(307",
        ),
    ],
)
def test_sizes_alone_tell_of_much_too_large_a_folder(folder: Path, names: list[str], gib: float, words: str) -> None:
    """Who names his home by mistake should not wait minutes to hear of it: nothing is read."""
    for name in names:
        sparse(folder / name, gib)
    told = list[tuple[int, int]]()
    with pytest.raises(gw.Refused, match=words) as caught:
        folder_bundle(str(folder), lambda so_far, total: told.append((so_far, total)))
    assert ("env.working_dir", []) == (caught.value.field, told)


def test_too_many_files_are_refused_before_any_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node would refuse them, after the upload."""
    monkeypatch.setattr("gridweave.bundles.MOST_FILES", 2)
    (folder / "one-more").touch()
    with pytest.raises(gw.Refused, match="has more than the 2 files and folders that a node unpacks"):
        folder_bundle(str(folder))


def test_packing_tells_how_far_it_is(folder: Path) -> None:
    """Of what has to be read, which is all."""
    (folder / "deep" / "b.bin").write_bytes(bytes(3_000_000))
    told = list[tuple[int, int]]()
    folder_bundle(str(folder), lambda so_far, total: told.append((so_far, total))).close()
    assert ([(0, 3_000_001), (1_048_576, 3_000_001)], (3_000_001, 3_000_001)) == (told[:2], told[-1])
    assert sorted(told) == told


def test_a_file_of_more_than_two_gib_may_travel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it packs well: what is written of its size then needs another form. The bound is moved here, to be quick."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1_000_000)
    (folder / "b.bin").write_bytes(bytes(3_000_000))
    assert "b.bin" in packed(folder)
