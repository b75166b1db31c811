"""What a function asks for: the arguments of `gw.function`, and the part of a request that they become.

The gateway judges the values. Checked here is only what could not be written as JSON, or what this side must read itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridweave.errors import Refused

_ENV_KEYS = ("pip", "uv", "env_vars", "working_dir")


@dataclass(frozen=True)
class Options:
    """vram: per GPU, "8GB" or a number of GB. gpus: how many. gpu: the model. owner: "org", "provider", "provider:<id>" or
    "self_host". exclusive: whole idle GPUs. env: "pip" and "uv" requirements, "env_vars", and "working_dir", a folder.
    max_hours: the job is ended after it. name: default is the function's."""

    vram: str | float = "1GB"
    gpus: int = 1
    gpu: str | None = None
    vendor: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    max_hours: float | None = None
    name: str | None = None
    provider: str | None = None
    owner: str | None = None
    exclusive: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("vram", "max_hours", "gpus"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise Refused(f"{name} is {value}", field=name, value=str(value), remedy="Give a finite number.")
        if self.provider is not None and self.owner is not None:
            remedy = 'Give one of them; owner="provider:<id>" is the same.'
            raise Refused("provider and owner were both given", field="provider", remedy=remedy)
        _check_env(self.env)

    def changed(self, **changes: Any) -> Options:
        """The same with those that are not None put in place."""
        return replace(self, **{key: value for key, value in changes.items() if value is not None})

    def ask(self) -> dict[str, Any]:
        """What decides on GPUs and price."""
        owner = self.owner if self.provider is None else f"provider:{self.provider}"
        return {
            "vram": self.vram,
            "gpus": self.gpus,
            "gpu": self.gpu,
            "vendor": self.vendor,
            "owner": owner,
            "exclusive": self.exclusive,
        }

    def environment(self) -> dict[str, Any]:
        """The environment without its working_dir, which is uploaded first."""
        return {
            "pip": list(self.env.get("pip") or ()),
            "uv": list(self.env.get("uv") or ()),
            "env_vars": dict(self.env.get("env_vars") or {}),
            "working_dir": None,
        }


def job_name(callable_name: str) -> str:
    """A name for a job of that function, with the characters that Kubernetes allows in one."""
    return re.sub(r"[^a-z0-9]+", "-", callable_name.lower()).strip("-")[:50].strip("-") or "job"


def _check_env(env: Mapping[str, Any]) -> None:
    for key in env:
        if key not in _ENV_KEYS:
            raise Refused(f"env has an unknown key {key!r}", field="env", value=str(key), remedy=f"Known are {', '.join(_ENV_KEYS)}.")
    for key in ("pip", "uv"):
        wanted = env.get(key) or ()
        if isinstance(wanted, str) or not all(isinstance(each, str) for each in wanted):
            remedy = f'Give a list of requirements, as in env={{"{key}": ["numpy>=2"]}}.'
            raise Refused(f"env[{key!r}] is not a list of texts", field=f"env.{key}", value=repr(wanted)[:200], remedy=remedy)
    for key, value in dict(env.get("env_vars") or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise Refused(f"env_vars[{key!r}] is not a text", field="env.env_vars", remedy=f"Write it as str, such as {str(1)!r} for 1.")
