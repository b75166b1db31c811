"""Models: weights in the blob store, known by a name that belongs to who pushed it first.

    models/<name>/manifest.json       owner, and of each file its path, size, digest and parts in order; schema 1
    models/<name>/parts/<sha256>      the bytes, in parts that are known by their content

So a push that broke off sends only what is missing, a new version shares what has not changed, and the manifest, which is
written last, changes a model as a whole. A part that no manifest names is swept like an upload that no submit has used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from core.callers import Caller
from core.house import House
from core.retention import OFFERED
from ports.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unavailable
from ports.units import Instant
from ports.wire import dump, load
from ports.workloads import BlobRef

MODEL_SCHEMA = 1
MOST_FILES, MOST_PARTS = 10_000, 50_000
MODELS, _MANIFEST = "models/", "manifest.json"


@frozen
class ModelFile:
    """path: relative, parted by slashes. size, sha256: of the whole file. parts: in their order."""

    path: str
    size: int
    sha256: str
    parts: tuple[BlobRef, ...]


@frozen
class Model:
    """What a manifest says."""

    name: str
    owner: str
    created_at: Instant
    files: tuple[ModelFile, ...]
    schema: int = MODEL_SCHEMA

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(part.sha256 for file in self.files for part in file.parts)


def part_key(name: str, sha256: str) -> str:
    return f"{MODELS}{name}/parts/{sha256}"


def model_of(key: str) -> str:
    """The name of the model that the blob at `key` belongs to."""
    return key.split("/")[1]


def is_part(key: str) -> bool:
    """Whether the last segment of that key is the digest of its bytes."""
    parts = key.split("/")
    return len(parts) == 4 and f"{parts[0]}/" == MODELS and parts[2] == "parts"


def read(house: House, name: str) -> Model | None:
    """Raises Unavailable, also where a newer release has written the manifest."""
    try:
        data = b"".join(house.blobs.get(f"{MODELS}{name}/{_MANIFEST}"))
    except NotFound:
        return None
    try:
        model = load(data.decode(), Model)
    except Exception as error:  # whatever a damaged or newer form makes the converter raise
        raise Unavailable("the model store", f"the manifest of {name} can't be read: {type(error).__name__}") from error
    if model.schema > MODEL_SCHEMA:
        raise Unavailable("the model store", f"a newer release wrote the manifest of {name} (schema {model.schema})")
    return model


def listing(house: House, caller: Caller) -> Iterator[Model]:
    """The caller's, by name; an admin's are all."""
    for info in house.blobs.list(MODELS):
        parts = info.key.split("/")
        if len(parts) == 3 and parts[2] == _MANIFEST:
            model = read(house, parts[1])
            if model is not None and (caller.admin or model.owner == caller.user):
                yield model


def wanted(house: House, caller: Caller, name: str, part: BlobRef) -> bool:
    """Whether those bytes are still to be sent. Raises Forbidden if the name is another's."""
    return not _is_there(house, _own(house, caller, name), name, part)


def publish(house: House, caller: Caller, name: str, files: Sequence[ModelFile]) -> Model:
    """The model is these files from now on. Raises Forbidden, Invalid naming what is missing, Conflict if it was faster made by another."""
    old = _own(house, caller, name)
    _check(files)
    for number, file in enumerate(files):
        for part in file.parts:
            if not _is_there(house, old, name, part):
                remedy = "Push again: what is there is not sent twice."
                raise Invalid(f"A part of {file.path} is not there.", f"files[{number}].parts", remedy, part.sha256)
    model = Model(name, old.owner if old is not None else caller.user, house.clock.now(), tuple(files))
    try:
        house.blobs.put(f"{MODELS}{name}/{_MANIFEST}", [dump(model).encode()], only_new=old is None)
    except AlreadyExists:
        _own(house, caller, name)
        raise Conflict(name) from None
    return model


def remove(house: House, caller: Caller, name: str) -> None:
    """The manifest first: a model is there as a whole or not at all. Raises NotFound if there is none of the caller's."""
    model = read(house, name)
    if model is None or not (caller.admin or model.owner == caller.user):
        raise NotFound(f"There is no model {name!a:.80}.", "name", "`gridweave model ls` lists your models.", name)
    house.blobs.delete(f"{MODELS}{name}/{_MANIFEST}")
    for info in list(house.blobs.list(f"{MODELS}{name}/parts/")):
        house.blobs.delete(info.key)


def _own(house: House, caller: Caller, name: str) -> Model | None:
    model = read(house, name)
    if model is not None and not (caller.admin or model.owner == caller.user):
        raise Forbidden(f"The name {name} is taken by somebody else's model.", "name", "Choose another name.", name)
    return model


def _is_there(house: House, model: Model | None, name: str, part: BlobRef) -> bool:
    """And stays: it is named by the manifest, or too young to be swept before it will be."""
    info = house.blobs.stat(part_key(name, part.sha256))
    if info is None or info.size != part.size:
        return False
    return (model is not None and part.sha256 in model.digests) or house.clock.now() - info.modified < OFFERED


def _check(files: Sequence[ModelFile]) -> None:
    if len(files) > MOST_FILES or sum(len(file.parts) for file in files) > MOST_PARTS:
        raise Invalid(f"{len(files)} files are too many, or have too many parts.", "files", f"At most {MOST_FILES}, of {MOST_PARTS} parts.")
    seen: set[str] = set()
    for number, file in enumerate(files):
        if not set(file.path.split("/")).isdisjoint({"", ".", ".."}) or file.path in seen:
            remedy = "Give each file once, by its path below the model's folder."
            raise Invalid(f"{file.path!r:.80} is no path of a file, or comes twice.", f"files[{number}].path", remedy, file.path)
        if file.size != sum(part.size for part in file.parts):
            raise Invalid(
                f"The parts of {file.path!r:.80} are not {file.size} bytes.", f"files[{number}].size", "Push again.", str(file.size)
            )
        seen.add(file.path)
