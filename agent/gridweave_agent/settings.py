"""The agent's settings, read once from the mapping given to `start`; every wrong value is named at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from gridweave_agent.protocol import BadMessage, Gpu

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Sizes in bytes, times in milliseconds.

    gpus: None: probe by NVML. uv: None: found beside the interpreter, on PATH or in the `uv` package.
    isolation: "namespace", "subreaper", or "auto": namespace where it works.
    """

    node: str
    dir: str  # fixed per node: the journal, and what runs leave until they are forgotten
    token: str
    tail_token: str = ""  # may only read logs; empty: none may but the command token
    host: str = "127.0.0.1"
    port: int = 0
    gpus: tuple[Gpu, ...] | None = None
    uv: str | None = None
    chunk_bytes: int = MIB  # a log chunk is closed at this size
    chunk_age_ms: int = 2000  # or at this age, so that a slow log is readable from the store too
    run_as_uid: int | None = None
    isolation: str = "auto"
    log_cap_bytes: int = 1024 * MIB
    result_cap_bytes: int = 512 * MIB
    lock_wait_ms: int = 30_000  # for a predecessor that is still ending
    heartbeat_ms: int = 1000  # what a lost run can be billed short
    env_count: int = 32  # environments kept
    env_bytes: int = 50 * 1024 * MIB
    upload_retry_ms: int = 500  # first pause; doubles to a minute
    spares: int = 1  # supervisors forked ahead of the runs that will need them
    max_threads: int = 256  # connections at once
    max_body_bytes: int = 16 * MIB

    def __repr__(self) -> str:
        return f"Settings(node={self.node!r}, dir={self.dir!r})"  # never the tokens

    @property
    def home(self) -> Path:
        return Path(self.dir)

    @staticmethod
    def read(config: Mapping[str, object]) -> Settings:
        """Raises ValueError naming each setting that is wrong."""
        known = {field.name: field for field in fields(Settings)}
        wrong = [f"{name}: unknown setting" for name in config if name not in known]
        values: dict[str, object] = {}
        for name, value in config.items():
            if name in known and value is not None:
                try:
                    values[name] = _checked(name, str(known[name].type), value)
                except BadMessage as error:
                    wrong.append(str(error))
        wrong += [f"{name}: missing" for name in ("node", "dir", "token") if not values.get(name)]
        if wrong:
            raise ValueError("agent settings: " + "; ".join(wrong))
        return Settings(**cast("dict[str, Any]", values))  # each value was checked against its field's type above


def _checked(name: str, kind: str, value: object) -> object:
    if name == "gpus":
        if not isinstance(value, (list, tuple)):
            raise BadMessage('gpus: wanted a list of {"index", "model", "vendor", "total_mib", "uuid"}')
        return tuple(gpu if isinstance(gpu, Gpu) else Gpu.parse(gpu) for gpu in value)
    wanted: type[object] = int if kind.startswith("int") else str
    if not isinstance(value, wanted) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise BadMessage(f"{name}: {type(value).__name__} given; wanted {'an integer of 0 or more' if wanted is int else 'a string'}")
    if name == "isolation" and value not in ("auto", "namespace", "subreaper"):
        raise BadMessage(f"isolation: {value!r} given; wanted auto, namespace or subreaper")
    return value
