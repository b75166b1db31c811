"""What a function asks for: the arguments of `gw.function`, and the part of a request that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gridweave.errors import Refused
from gridweave.limits import check, unknown


@dataclass(frozen=True)
class Options:
    """vram: per GPU, "8GB" or a number of GB. gpus: how many. gpu: the model. owner: "org", "provider", "provider:<id>" or
    "self_host". exclusive: whole idle GPUs. env: "pip" and "uv" requirements, "env_vars", and "working_dir", a folder.
    max_hours: the job is ended after it. max_cost: and when it has cost so many credits. name: default is the
    function's. Raises Refused for what no gateway takes."""

    vram: str | float = "1GB"
    gpus: int = 1
    gpu: str | None = None
    vendor: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    max_hours: float | None = None
    max_cost: str | float | None = None
    name: str | None = None
    provider: str | None = None
    owner: str | None = None
    exclusive: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)
        if self.provider is not None and self.owner is not None:
            remedy = 'Give one of them; owner="provider:<id>" is the same.'
            raise Refused("provider and owner were both given", field="provider", remedy=remedy)

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """From keyword arguments; None is the same as not given. Raises TypeError for a name that is no option."""
        return Options().changed(**given)

    def changed(self, **changes: Any) -> Options:
        """The same with those that are not None put in place. Raises TypeError for a name that is no option."""
        known = [each.name for each in fields(self)]
        if not set(changes) <= set(known):
            raise unknown(changes, known)
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
