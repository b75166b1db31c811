"""Models by the SDK, through a real gateway into a real bucket: what broke off goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import gridweave as gw
import pytest
from gridweave import commands
from gridweave import models as sdk

from adapters.s3.blobs import S3Blobs
from core.models import Model, part_key
from ports.wire import load
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.contract.races import in_threads
from tests.e2e.gateways import Gateway
from tests.e2e.platform import Platform
from tests.e2e.secrecy import canaries, check_left, check_standing
from tests.s3.seaweed import Seaweed

PART = 64 * 1024


@pytest.fixture(scope="module")
def platform(seaweed: Seaweed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """In front of a gateway that has the bucket and no cluster."""
    own = {
        "GATEWAY_HOST": "127.0.0.1",
        "PLATFORM_TOKEN": PLATFORM_TOKEN,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "RAY_HEAD_ADDRESS": "127.0.0.1:1",
    }
    gateway = Gateway(tmp_path_factory.mktemp("models") / "state", {**own, **seaweed.environment})
    gateway.start()
    gateway.answers()
    front = Platform(gateway.port, PLATFORM_TOKEN)
    yield front
    check_standing(gateway, known := canaries(gateway.state))
    front.close()
    gateway.stop()
    check_left(gateway.state.parent, known, front.errors)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sdk, "PART", PART)
    folder = tmp_path / "weights"
    (folder / "shards").mkdir(parents=True)
    (folder / "config.json").write_text('{"layers": 2}')
    (folder / "shards" / "part 1.safetensors").write_bytes(os.urandom(5 * PART + 17))
    (folder / "shards" / "part-2.safetensors").write_bytes(os.urandom(3 * PART))
    (folder / "empty").touch()
    return folder


def in_bucket(store: S3Blobs, name: str) -> dict[str, bytes]:
    """The files of a model, by a reader that has nothing but the bucket."""
    model = load(b"".join(store.get(f"models/{name}/manifest.json")).decode(), Model)
    found = {file.path: b"".join(store.join(part_key(name, part.sha256) for part in file.parts)) for file in model.files}
    assert [hashlib.sha256(found[file.path]).hexdigest() for file in model.files] == [file.sha256 for file in model.files]
    return found


def on_disk(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_push_that_broke_off_sends_only_what_is_missing(platform: Platform, weights: Path, s3_blobs: S3Blobs) -> None:
    """Weights are a hundred gigabytes, and connections break."""
    total, sent = sum(map(len, on_disk(weights).values())), list[int]()

    def breaks(path: str, seen: int, total: int, so_far: int) -> None:
        sent.append(so_far)
        if so_far > 4 * PART:
            raise ConnectionResetError("the train went into a tunnel")

    with gw.Client(platform.url, "ann:paid:user") as client:
        with pytest.raises(ConnectionResetError):
            client.push_model(weights, "tiny", breaks)
        assert [] == client.models()
        first, again = sent[-1], list[int]()
        made = client.push_model(weights, "tiny", lambda path, seen, total, so_far: again.append(so_far))
        assert total - first == again[-1]
        assert (total, 4) == (made["size"], made["files"])
        assert on_disk(weights) == in_bucket(s3_blobs, "tiny")
        (weights / "config.json").write_text('{"layers": 3}')
        client.push_model(weights, "tiny", lambda path, seen, total, so_far: again.append(so_far))
        assert 13 == again[-1], "a new version sends what has changed"
        assert on_disk(weights) == in_bucket(s3_blobs, "tiny")


def test_the_command_line_pushes_lists_and_removes(
    platform: Platform, weights: Path, s3_blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a person or a script does."""
    monkeypatch.setenv("GRIDWEAVE_URL", platform.url)
    monkeypatch.setenv("GRIDWEAVE_API_KEY", "ann:paid:user")

    def said(*words: str) -> tuple[int, object]:
        code = commands.run(["model", *words, "--json"])
        told = capsys.readouterr()
        return code, json.loads(told.out or told.err)

    code, made = said("push", str(weights), "tiny")
    assert (0, "tiny", 4) == (code, made["name"], made["files"])  # type: ignore[index]
    code, found = said("ls")
    assert (0, ["tiny"]) == (code, [model["name"] for model in found])  # type: ignore[attr-defined]
    monkeypatch.setenv("GRIDWEAVE_API_KEY", "bob:paid:user")
    assert (0, []) == said("ls")
    assert 0 != said("rm", "tiny")[0]
    assert 0 != said("push", str(weights), "tiny")[0]
    monkeypatch.setenv("GRIDWEAVE_API_KEY", "ann:paid:user")
    assert (0, {"removed": "tiny"}) == said("rm", "tiny")
    assert [] == list(s3_blobs.list("models/"))
    assert 0 != said("push", str(weights / "nowhere"), "tiny")[0]
    (weights / "shards" / "part 1.safetensors").unlink()
    assert 0 == commands.run(["model", "push", str(weights / "shards"), "tiny"])
    assert f"tiny: 1 file, {3 * PART} bytes, of which {3 * PART} were sent\n" == capsys.readouterr().err
    assert 0 == said("rm", "tiny")[0]


def test_a_link_that_leads_nowhere_is_no_part_of_a_model_in_silence(
    platform: Platform, weights: Path, s3_blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Caches of weights are folders of links; one that was copied without their targets looks whole until somebody loads it."""
    (weights / "shards" / "linked").symlink_to(weights / "config.json")
    (weights / "shards" / "tokenizer.json").symlink_to("../../blobs/gone")
    monkeypatch.setenv("GRIDWEAVE_URL", platform.url)
    monkeypatch.setenv("GRIDWEAVE_API_KEY", "ann:paid:user")
    assert 2 == commands.run(["model", "push", str(weights), "tiny"])
    told = " ".join(capsys.readouterr().err.split())
    for part in ("shards/tokenizer.json is a link that leads nowhere: to ../../blobs/gone", "--skip-broken-links"):
        assert part in told
    assert [] == list(s3_blobs.list("models/"))
    assert 0 == commands.run(["model", "push", str(weights), "tiny", "--skip-broken-links"])
    assert on_disk(weights) == in_bucket(s3_blobs, "tiny")
    assert "shards/linked" in in_bucket(s3_blobs, "tiny")


@pytest.mark.parametrize("there", [False, True], ids=["a new name", "a model that is there"])
def test_of_two_pushes_at_once_one_wins_whole(platform: Platform, tmp_path: Path, s3_blobs: S3Blobs, there: bool) -> None:
    """Whatever is listed, at whatever moment, is one of the two folders, and never some files of each."""
    folders = [tmp_path / f"version-{n}" for n in range(2)]
    for n, folder in enumerate(folders):
        folder.mkdir()
        (folder / f"only-{n}").write_bytes(os.urandom(1000))
        for name in ("same", "other"):
            (folder / name).write_bytes(os.urandom(1000))
    wholes = [on_disk(folder) for folder in folders]
    done, seen = threading.Event(), list[bool]()

    def push(number: int) -> str:
        with gw.Client(platform.url, "ann:paid:user") as client:
            try:
                client.push_model(folders[number], f"raced-{turn}")
            except gw.Refused as refused:
                return refused.kind
            return "won"

    def read() -> None:
        while not done.is_set():
            seen.extend(in_bucket(s3_blobs, info.key.split("/")[1]) in wholes for info in s3_blobs.list("models/") if is_manifest(info.key))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for turn in range(4):
            if there:
                assert "won" == push(turn % 2)
            ends = in_threads(push, 2)
            assert "won" in ends
            assert set(ends) <= {"won"} if there else set(ends) <= {"won", "conflict"}
            assert in_bucket(s3_blobs, f"raced-{turn}") in (wholes if there or ends == ["won"] * 2 else [wholes[ends.index("won")]])
    finally:
        done.set()
        reader.join()
    assert seen
    assert all(seen)


def is_manifest(key: str) -> bool:
    return key.endswith("/manifest.json")
