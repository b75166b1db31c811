"""What submit and estimate take, and how it becomes a Submission."""

from __future__ import annotations

import base64
import binascii
import hashlib
from fractions import Fraction
from typing import Annotated, Any

from attrs import field, frozen
from msgspec import Meta

from core.submit import Submission
from ports.errors import Invalid
from ports.units import MS_PER_HOUR, Credits, Mib, Span
from ports.workloads import Ask, BlobRef, Environment
from runtimes.http.bodies import fields, strict

MAX_BODY = 2 * 1024 * 1024  # bytes of a submit: four inline payloads and an environment fit
MAX_ENV_BYTES = 256 * 1024
_OURS = ("GRIDWEAVE_", "RAY_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_RESERVED = ("gridweave.io/", "kubernetes.io/", "k8s.io/")


@frozen
class Payload:
    """Bytes of the client: either `sha256` and `size` of what it has uploaded, or the bytes themselves, `inline`."""

    sha256: fields.Sha256 | None = None
    size: fields.BlobSize | None = None
    inline: fields.Inline | None = None


@frozen
class Uploaded:
    """Bytes that the client has uploaded."""

    sha256: fields.Sha256
    size: fields.BlobSize


Vram = Annotated[int | float | str, Meta(description='VRAM per GPU: "8GB", "40960MiB" or a number of GB; a whole number of MiB')]


@frozen
class EstimateBody:
    """The shape of what is wanted. owner narrows whose hardware may be used; exclusive asks for whole idle GPUs."""

    vram: Vram
    gpus: fields.Gpus = 1
    gpu: fields.Model | None = None
    vendor: fields.Vendor | None = None
    owner: fields.OwnerConstraint | None = None
    exclusive: bool = False


@frozen
class EnvBody:
    """pip, uv: requirements. env_vars: arrive byte for byte. working_dir: an uploaded zip."""

    pip: Annotated[tuple[fields.Requirement, ...], Meta(max_length=200, description="at most 200 requirements")] = ()
    uv: Annotated[tuple[fields.Requirement, ...], Meta(max_length=200, description="at most 200 requirements")] = ()
    env_vars: Annotated[dict[fields.EnvKey, fields.EnvValue], Meta(max_length=500, description="at most 500 variables")] = field(
        factory=dict
    )
    working_dir: Uploaded | None = None


@frozen
class ClientBody:
    """Versions that must agree with the cluster's: Python's minor, cloudpickle's major."""

    python: fields.ClientVersion
    cloudpickle: fields.ClientVersion


@frozen
class SubmitBody:
    """A function with its arguments, and what it needs to run."""

    function: Payload
    args: Payload
    vram: Vram
    client: ClientBody
    name: fields.Name = "job"
    code: Payload | None = None
    gpus: fields.Gpus = 1
    gpu: fields.Model | None = None
    vendor: fields.Vendor | None = None
    owner: fields.OwnerConstraint | None = None
    exclusive: bool = False
    env: EnvBody = EnvBody()
    max_hours: fields.Hours | None = None
    max_cost: fields.Cost | None = None
    labels: Annotated[dict[fields.LabelKey, fields.LabelValue], Meta(max_length=64, description="at most 64 labels")] = field(factory=dict)


@frozen
class Received:
    """A submit as it came: the submission, and inline payloads that are still to be stored, by their digest."""

    submission: Submission
    inline: dict[str, bytes]


def _cap(amount: int | float | str | None) -> Credits | None:
    """Raises Invalid."""
    if amount is None:
        return None
    given = Credits.parse(str(amount), "max_cost")
    if given.micro <= 0:
        raise Invalid(f"max_cost is {amount}.", "max_cost", "Give more than 0 credits, or leave it out.", str(amount))
    return given


def ask_of(body: EstimateBody | SubmitBody) -> Ask:
    """Raises Invalid on an amount of VRAM that is none."""
    return Ask(Mib.parse(body.vram), body.gpus, 1, body.gpu, body.vendor, body.owner, body.exclusive)


def received(data: bytes, key: str) -> Received:
    """Read a submit. Raises Invalid, naming the field."""
    said = strict.parse(data)
    body = strict.structure(said, SubmitBody)
    inline: dict[str, bytes] = {}
    function, args = _blob(body.function, "function", inline), _blob(body.args, "args", inline)
    code = None if body.code is None else _blob(body.code, "code", inline)
    check_labels(body.labels)
    submission = Submission(
        name=body.name,
        ask=ask_of(body),
        function=function,
        args=args,
        code=code,
        env=_environment(body.env),
        max_runtime=_runtime(body.max_hours),
        labels=dict(body.labels),
        python=body.client.python,
        cloudpickle=body.client.cloudpickle,
        key=key,
        cap=_cap(body.max_cost),
        body_sha256=hashlib.sha256(strict.canonical(said)).hexdigest(),
    )
    return Received(submission, inline)


def estimated(data: bytes) -> Ask:
    return ask_of(strict.structure(strict.parse(data), EstimateBody))


def check_labels(labels: dict[str, str]) -> None:
    for key in labels:
        prefix, slash, name = key.rpartition("/")
        if (prefix + slash).endswith(_RESERVED):
            raise Invalid(f"The label {key!r} has a reserved prefix.", f"labels.{key}", "Use a prefix of your own, or none.", key)
        if len(prefix) > 253 or len(name) > 63:
            raise Invalid(f"The label key {key!r:.80} is too long.", f"labels.{key:.80}", "At most 253 and 63 characters.", key)


def _blob(payload: Payload, name: str, inline: dict[str, bytes]) -> BlobRef:
    if payload.inline is not None:
        if payload.sha256 is not None or payload.size is not None:
            raise Invalid(f"{name} says inline and sha256 or size.", name, 'Send either {"sha256", "size"} or {"inline"}.')
        data = _decoded(payload.inline, name)
        digest = hashlib.sha256(data).hexdigest()
        inline[digest] = data
        return BlobRef(digest, len(data))
    if payload.sha256 is None or payload.size is None:
        raise Invalid(
            f"{name} says neither sha256 and size nor inline.", name, 'Send {"sha256", "size"} of an upload, or {"inline": base64}.'
        )
    return BlobRef(payload.sha256, payload.size)


def _decoded(text: str, name: str) -> bytes:
    try:
        data = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{name}.inline is not base64.", f"{name}.inline", "Send standard base64 with its padding.", text) from error
    if len(data) > fields.MAX_INLINE:
        message = f"{name}.inline is {len(data)} bytes; inline takes {fields.MAX_INLINE}."
        raise Invalid(message, f"{name}.inline", "Upload it by POST /v1/uploads and send its sha256 and size.")
    return data


def _environment(body: EnvBody) -> Environment:
    for key in body.env_vars:
        if key.upper().startswith(_OURS):
            raise Invalid(f"The variable {key!r} is ours to set.", f"env.env_vars.{key}", "Use another name.", key)
    if sum(len(key) + len(value.encode("utf-8", "surrogateescape")) for key, value in body.env_vars.items()) > MAX_ENV_BYTES:
        raise Invalid(f"env.env_vars has more than {MAX_ENV_BYTES} bytes.", "env.env_vars", "Put large values into the arguments.")
    folder = body.working_dir
    return Environment(body.pip, body.uv, dict(body.env_vars), None if folder is None else BlobRef(folder.sha256, folder.size))


def _runtime(hours: Any) -> Span | None:
    """A part of a millisecond counts as a whole one."""
    return None if hours is None else Span(-(-Fraction(hours) * MS_PER_HOUR // 1))
