"""Sinks: everywhere that a secret of a rig could have got to, as named streams of bytes for `tests.canaries`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.canaries import API_KEY, PLATFORM_TOKEN, WRONG_TOKEN, Sink

if TYPE_CHECKING:
    from tests.kube.plane import Plane

ROOT = Path(__file__).parents[1]
BLOCK = 4 * 1024 * 1024
KINDS = ("gridweavejobs", "gridweaveendpoints", "gridweavenodes", "gridweavetariffs", "gridweaveepochs", "events", "leases", "configmaps")


def files(folder: Path, name: str = "") -> Iterator[Sink]:
    """Every file below that folder, as it lies there: databases with their journals, logs, blobs, folders of nodes. What is in a
    zip is looked at beside the zip."""
    for above, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not _is_code(Path(above, each)) and not Path(above, each).is_symlink()]
        for each in names:
            path = Path(above, each)
            if path.is_file() and not path.is_symlink():
                told = f"{name or folder.name}/{path.relative_to(folder)}"
                yield told, _read(path)
                yield from unzipped(told, path)


def _is_code(folder: Path) -> bool:
    """An interpreter's: no process of ours writes there."""
    return folder.name == "__pycache__" or (folder / "pyvenv.cfg").exists()


def _read(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
    except FileNotFoundError:  # an agent has cleared up
        return


def unzipped(name: str, path: Path | io.BytesIO) -> Iterator[Sink]:
    """Each member of a zip; nothing of what is none."""
    try:
        with zipfile.ZipFile(path) as opened:
            for member in opened.namelist():
                yield f"{name}!{member}", [opened.read(member)]
    except (zipfile.BadZipFile, OSError):
        return


def bucket(client: Any, name: str) -> Iterator[Sink]:
    """Every object: its key, its metadata, its bytes."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
        for found in page.get("Contents", ()):
            answer = client.get_object(Bucket=name, Key=found["Key"])
            yield f"s3/{found['Key']}!metadata", [json.dumps(answer["Metadata"]).encode()]
            yield f"s3/{found['Key']}", answer["Body"].iter_chunks(BLOCK)


def objects(plane: Plane, namespace: str, kinds: Collection[str] = KINDS) -> Iterator[Sink]:
    """The objects of a namespace, part by part, and its events."""
    for kind in kinds:
        told = plane.kubectl("get", kind, "-o", "json", "--show-managed-fields", namespace=namespace)
        assert told.returncode == 0, told.stderr
        for item in json.loads(told.stdout)["items"]:
            for part, value in item.items():
                yield f"kubernetes/{kind}/{item['metadata']['name']}/{part}", [json.dumps(value).encode()]


def answers(url: str, admin_token: str = "") -> Iterator[Sink]:
    """What a gateway says to whoever asks: its metrics, its document, all that can be listed, and its errors."""
    ann = {"X-User-Id": "ann", "X-User-Plan": "paid", "X-Platform-Token": PLATFORM_TOKEN}
    stranger = {"Authorization": f"Bearer {WRONG_TOKEN}", "X-User-Id": "ann", "X-Platform-Token": WRONG_TOKEN}
    admin = {"Authorization": f"Bearer {admin_token}"} if admin_token else ann
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        document = client.get("/openapi.json")
        yield "http/openapi.json", [document.content]
        paths = [path for path, methods in document.json()["paths"].items() if "get" in methods and "{" not in path]
        for path in (*paths, "/metrics", "/nowhere", "/v1/jobs/nothing/status", "/v1/statement?month=13"):
            for who, headers in (("ann", ann), ("admin", admin), ("stranger", stranger), ("nobody", {})):
                said = client.get(path, headers=headers)
                yield f"http{path} for {who}", [repr(said.headers.raw).encode(), said.content]
        for body in (b"{", b'{"vram": "8GB"}', b"[" * 2000):
            yield "http/v1/jobs/submit", [client.post("/v1/jobs/submit", content=body, headers=ann).content]


def bundle(state: Path, settings: Mapping[str, str], arguments: Sequence[str] = ()) -> Iterator[Sink]:
    """A gateway's debug bundle, and what is said when it is made."""
    sources = os.pathsep.join(str(ROOT / part) for part in ("", "sdk", "agent"))
    env = {**os.environ, **settings, "STATE_DIR": str(state), "PYTHONPATH": sources}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bundle.zip")
        command = [sys.executable, "-m", "runtimes.http.gateway", "--debug-bundle", str(file), *arguments]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=120, check=False)
        yield "bundle!output", [done.stdout, done.stderr]
        assert done.returncode == 0, "no bundle could be made"
        yield from unzipped("bundle", io.BytesIO(file.read_bytes()))


def errors(seen: Collection[bytes]) -> Iterator[Sink]:
    """Bodies of errors that a platform has passed on."""
    yield "errors", seen


def key(user: str, plan: str = "paid", role: str = "user") -> str:
    """An API key of the platform."""
    return f"{user}:{plan}:{role}:{API_KEY}"
