"""The words of protocol 1 between scheduler and agent: values, and how each is read from JSON.

Whatever is wrong in a message is a BadMessage that names the field and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

PROTOCOL = 1

PREPARING, READY, RUNNING, GONE = "preparing", "ready", "running", "gone"

RETURNED, RAISED, EXITED, SIGNALLED = "Returned", "Raised", "Exited", "Signalled"
KILLED, SETUP_FAILED, RUNNER_LOST, NEVER_RAN = "Killed", "SetupFailed", "RunnerLost", "NeverRan"

Json = Mapping[str, object]


class BadMessage(ValueError):
    """A message that can't be understood; its text says which field and what would be right."""


def read(message: Json, name: str, kind: type[object], default: object = None, *, required: bool = True) -> object:
    """`message[name]`, checked to be a `kind`; the default if it is absent or null and not required."""
    value = message.get(name)
    if value is None:
        if required:
            raise BadMessage(f"{name}: missing; wanted {kind.__name__}")
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadMessage(f"{name}: {type(value).__name__} given; wanted {kind.__name__}")
    return value


def read_str(message: Json, name: str, default: str | None = None) -> str:
    return cast(str, read(message, name, str, default, required=default is None))


def read_int(message: Json, name: str, default: int | None = None) -> int:
    value = cast(int, read(message, name, int, default, required=default is None))
    if value < 0:
        raise BadMessage(f"{name}: {value} given; wanted 0 or more")
    return value


def read_map(message: Json, name: str, *, required: bool = True) -> Json:
    return cast(Json, read(message, name, dict, {}, required=required))


def read_list(message: Json, name: str, *, required: bool = True) -> Sequence[object]:
    return cast(Sequence[object], read(message, name, list, [], required=required))


def read_texts(message: Json, name: str) -> tuple[str, ...]:
    values = read_list(message, name, required=False)
    if not all(isinstance(value, str) and value and "\0" not in value for value in values):
        raise BadMessage(f"{name}: wanted a list of non-empty strings")
    return tuple(str(value) for value in values)


@dataclass(frozen=True)
class Slot:
    """One share of one GPU. gpu: its index. mib: VRAM in MiB."""

    gpu: int
    mib: int

    @staticmethod
    def parse(value: object) -> Slot:
        if not isinstance(value, dict):
            raise BadMessage('slots: wanted a list of {"gpu", "mib"}')
        return Slot(read_int(value, "gpu"), read_int(value, "mib"))

    def json(self) -> dict[str, object]:
        return {"gpu": self.gpu, "mib": self.mib}


@dataclass(frozen=True)
class Gpu:
    """One GPU of this node. total_mib: its VRAM in MiB. uuid: "" if it has none."""

    index: int
    model: str
    vendor: str
    total_mib: int
    uuid: str = ""

    @staticmethod
    def parse(value: object) -> Gpu:
        if not isinstance(value, dict):
            raise BadMessage('gpus: wanted a list of {"index", "model", "vendor", "total_mib", "uuid"}')
        return Gpu(
            read_int(value, "index"),
            read_str(value, "model"),
            read_str(value, "vendor"),
            read_int(value, "total_mib"),
            read_str(value, "uuid", ""),
        )

    def json(self) -> dict[str, object]:
        return {"index": self.index, "model": self.model, "vendor": self.vendor, "total_mib": self.total_mib, "uuid": self.uuid}


@dataclass(frozen=True)
class Grant:
    """A permission to read one object (GET) or to write below a prefix (PUT, POST). expires_ms: since the epoch.

    sha256 and size: of what a GET gives, "" and 0 if not told.
    """

    method: str
    url: str
    prefix: str = ""
    max_size: int = 0
    expires_ms: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    size: int = 0

    @staticmethod
    def parse(value: object, name: str) -> Grant:
        if not isinstance(value, dict):
            raise BadMessage(f"{name}: wanted a grant")
        grant = Grant(
            read_str(value, "method"),
            read_str(value, "url"),
            read_str(value, "prefix", ""),
            read_int(value, "max_size", 0),
            read_int(value, "expires_ms", 0),
            {str(key): str(text) for key, text in read_map(value, "fields", required=False).items()},
            read_str(value, "sha256", ""),
            read_int(value, "size", 0),
        )
        if grant.method not in ("GET", "PUT", "POST"):
            raise BadMessage(f"{name}.method: {grant.method!r} given; wanted GET, PUT or POST")
        if not grant.url.startswith(("http://", "https://")):
            raise BadMessage(f"{name}.url: wanted an absolute http or https address")
        return grant

    def json(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class EnvSpec:
    """What a run needs around its function. pip, uv: requirements. env_vars: byte for byte (surrogateescape)."""

    pip: tuple[str, ...] = ()
    uv: tuple[str, ...] = ()
    env_vars: dict[str, str] = field(default_factory=dict)
    working_dir: bool = False

    @staticmethod
    def parse(message: Json) -> EnvSpec:
        env_vars = read_env(message, "env_vars")
        return EnvSpec(read_texts(message, "pip"), read_texts(message, "uv"), env_vars, bool(message.get("working_dir")))

    def json(self) -> dict[str, object]:
        return {"pip": list(self.pip), "uv": list(self.uv), "env_vars": self.env_vars, "working_dir": self.working_dir}


def read_env(message: Json, name: str) -> dict[str, str]:
    """Environment variables. Raises BadMessage for what no process can have: NUL, "=" in a name, an empty name."""
    result: dict[str, str] = {}
    for key, value in read_map(message, name, required=False).items():
        if not isinstance(value, str) or not key or "=" in key or "\0" in key + value:
            raise BadMessage(f"{name}.{key!r}: wanted a name without '=' and a string, both without NUL")
        result[key] = value
    return result


@dataclass(frozen=True)
class Prepare:
    """Set up a run up to where it only waits for `go`. gpu_totals: MiB of each slot's GPU. setup_bound_ms: for all of it.
    uid: tells runs of the same name of different workloads apart; "" from a scheduler that does not know of it."""

    run: str
    user: str
    name: str
    slots: tuple[Slot, ...]
    gpu_totals: tuple[int, ...]
    env: EnvSpec
    inputs: dict[str, Grant]
    output: Grant
    setup_bound_ms: int
    extra_env: dict[str, str] = field(default_factory=dict)
    uid: str = ""

    @staticmethod
    def parse(message: Json) -> Prepare:
        slots = tuple(Slot.parse(value) for value in read_list(message, "slots"))
        totals = [total for total in read_list(message, "gpu_totals", required=False) if isinstance(total, int)]
        inputs = read_inputs(message)
        if unknown := sorted(set(inputs) - {"function", "args", "code", "working_dir"}):
            raise BadMessage(f"inputs.{unknown[0]}: wanted function, args, code or working_dir")
        if missing := sorted({"function", "args"} - set(inputs)):
            raise BadMessage(f"inputs.{missing[0]}: missing")
        return Prepare(
            read_run(message),
            read_str(message, "user", ""),
            read_str(message, "name", ""),
            slots,
            tuple(totals),
            EnvSpec.parse(read_map(message, "env", required=False)),
            inputs,
            Grant.parse(message.get("output"), "output"),
            read_int(message, "setup_bound_ms"),
            read_env(message, "extra_env"),
            read_str(message, "uid", ""),
        )

    def json(self) -> dict[str, object]:
        return {
            "run": self.run,
            "user": self.user,
            "name": self.name,
            "slots": [slot.json() for slot in self.slots],
            "gpu_totals": list(self.gpu_totals),
            "env": self.env.json(),
            "inputs": {name: grant.json() for name, grant in self.inputs.items()},
            "output": self.output.json(),
            "setup_bound_ms": self.setup_bound_ms,
            "extra_env": self.extra_env,
            "uid": self.uid,
        }


def read_inputs(message: Json, *, required: bool = True) -> dict[str, Grant]:
    """Grants to fetch, by the input's name."""
    return {name: Grant.parse(value, f"inputs.{name}") for name, value in read_map(message, "inputs", required=required).items()}


def read_run(message: Json) -> str:
    """The run's id, as text."""
    run = read_str(message, "run")
    if not run or len(run) > 400 or not run.isprintable():
        raise BadMessage(f"run: {run[:60]!r} given; wanted workload/attempt")
    return run


@dataclass(frozen=True)
class Exit:
    """How a run ended; the fields are those of the report."""

    kind: str
    code: int | None = None
    signal: str = ""
    oom: bool = False
    message: str = ""
    traceback: str = ""
    log_tail: str = ""

    def json(self) -> dict[str, object]:
        return dict(self.__dict__)

    @staticmethod
    def parse(message: Json) -> Exit:
        code = message.get("code")
        return Exit(
            read_str(message, "kind"),
            code if isinstance(code, int) else None,
            read_str(message, "signal", ""),
            bool(message.get("oom")),
            read_str(message, "message", ""),
            read_str(message, "traceback", ""),
            read_str(message, "log_tail", ""),
        )


@dataclass(frozen=True)
class Result:
    """A result blob on this node's disk. size: bytes. raised: it holds the user's exception."""

    size: int
    sha256: str
    raised: bool

    def json(self) -> dict[str, object]:
        return {"name": "result", "size": self.size, "sha256": self.sha256, "raised": self.raised}

    @staticmethod
    def parse(message: Json) -> Result:
        return Result(read_int(message, "size"), read_str(message, "sha256"), bool(message.get("raised")))
