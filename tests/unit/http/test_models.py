"""Models over HTTP: whose they are, and that nothing is published that is not there."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest
from attrs import evolve

from core.models import part_key
from core.sweep import sweep
from ports.units import Span
from tests.unit.http.conftest import ADMIN, ALICE, BOB, Gateway

PARTS = (b"weights" * 1000, b"more weights", b"")


def reference(part: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(part).hexdigest(), "size": len(part)}


def put(gateway: Gateway, part: bytes, name: str = "llama", headers: Any = None) -> bool:
    """Whether it had to be sent."""
    said = gateway.post(f"/v1/models/{name}/parts", headers, json=reference(part)).json()
    if not said["present"]:
        assert 201 == gateway.request("PUT", said["url"], {}, content=part).status_code
    return not said["present"]


def file(path: str, *parts: bytes, **changes: Any) -> dict[str, Any]:
    return {"path": path, **reference(b"".join(parts)), "parts": [reference(part) for part in parts], **changes}


def publish(gateway: Gateway, *files: dict[str, Any], name: str = "llama", headers: Any = None) -> httpx.Response:
    return gateway.request("PUT", f"/v1/models/{name}", headers, json={"files": list(files)})


def pushed(gateway: Gateway, name: str = "llama", headers: Any = None) -> None:
    for part in PARTS:
        put(gateway, part, name, headers)
    said = publish(gateway, file("a/one.bin", *PARTS[:2]), file("empty", PARTS[2]), name=name, headers=headers)
    assert 200 == said.status_code, said.text


def test_a_model_is_listed_once_it_is_whole(gateway: Gateway) -> None:
    """Half a model would be served as one."""
    for part in PARTS:
        assert put(gateway, part)
        assert not put(gateway, part), "it is not sent twice"
    assert [] == gateway.get("/v1/models").json()["models"]
    pushed(gateway)
    (model,) = gateway.get("/v1/models").json()["models"]
    assert ("llama", "alice", len(PARTS[0]) + len(PARTS[1]), 2) == (model["name"], model["owner"], model["size"], model["files"])


def test_a_model_is_its_owners(gateway: Gateway) -> None:
    """A name that anybody could take over would be a way into everybody's endpoints."""
    pushed(gateway)
    assert [] == gateway.get("/v1/models", BOB).json()["models"]
    assert (403, "name") == _refused(gateway.post("/v1/models/llama/parts", BOB, json=reference(b"x")))
    assert (403, "name") == _refused(publish(gateway, headers=BOB))
    assert (404, "name") == _refused(gateway.request("DELETE", "/v1/models/llama", BOB))
    admin = {"Authorization": f"Bearer {ADMIN}"}
    assert ["llama"] == [model["name"] for model in gateway.get("/v1/models", admin).json()["models"]]
    assert 204 == gateway.request("DELETE", "/v1/models/llama", ALICE).status_code
    assert [] == list(gateway.house.blobs.list("models/"))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (file("a", b"never sent"), "files[0].parts"),
        (file("a", PARTS[0], size=1), "files[0].size"),
        (file("../a", PARTS[0]), "files[0].path"),
        (file("a/./b", PARTS[0]), "files[0].path"),
        (file("/etc/passwd", PARTS[0]), "files.path"),
        (file("a\\b", PARTS[0]), "files.path"),
        (file("", PARTS[0]), "files.path"),
        (file("a", PARTS[0], sha256="x"), "files.sha256"),
    ],
)
def test_what_can_not_be_a_model_is_refused_and_the_old_one_stays(gateway: Gateway, wrong: dict[str, Any], field: str) -> None:
    """A path leads out of nobody's cache, and no part is missing when an endpoint starts."""
    pushed(gateway)
    assert (400, field) == _refused(publish(gateway, wrong))
    assert 2 == gateway.get("/v1/models").json()["models"][0]["files"]


def test_a_file_comes_once(gateway: Gateway) -> None:
    """Which of two would it be?"""
    put(gateway, PARTS[0])
    assert (400, "files[1].path") == _refused(publish(gateway, file("a", PARTS[0]), file("a", PARTS[0])))


@pytest.mark.parametrize("name", ["Llama", "a_b", "-a", "a" * 64, "a.b"])
def test_a_name_that_is_none_is_refused(gateway: Gateway, name: str) -> None:
    """It becomes part of keys, folders and names of objects."""
    assert (400, "name") == _refused(gateway.post(f"/v1/models/{name}/parts", json=reference(b"x")))


def test_a_part_that_is_not_what_its_name_says_is_not_kept(gateway: Gateway) -> None:
    """Bits that fell over on the way would be served for years."""
    said = gateway.post("/v1/models/llama/parts", json=reference(PARTS[0])).json()
    assert (400, "sha256") == _refused(gateway.request("PUT", said["url"], {}, content=b"x" + PARTS[0][1:]))
    assert gateway.house.blobs.stat(part_key("llama", reference(PARTS[0])["sha256"])) is None


def test_a_new_version_is_a_whole_one_and_only_unnamed_parts_are_swept(gateway: Gateway) -> None:
    """What is served must not lose a part, and what nobody names must not fill the bucket."""
    pushed(gateway)
    put(gateway, b"another version")
    assert 200 == publish(gateway, file("a/one.bin", PARTS[0]), file("b", b"another version")).status_code
    assert 2 == gateway.get("/v1/models").json()["models"][0]["files"]
    put(gateway, b"of a push that broke off")
    house = evolve(gateway.house, clock=_Later(gateway.house.clock))
    assert 3 == sweep(house).uploads  # two of the first version, one of the push
    left = {info.key.rpartition("/")[2] for info in house.blobs.list("models/")}
    assert {"manifest.json", *(reference(part)["sha256"] for part in (PARTS[0], b"another version"))} == left


class _Later:
    """A clock two days on."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def now(self) -> Any:
        return self._clock.now() + Span.of(hours=48)

    def elapsed(self) -> Any:
        return self._clock.elapsed()


def _refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("field", "")
