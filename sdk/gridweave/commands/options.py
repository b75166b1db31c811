"""Options that several commands share."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.commands.numbers import WHOLE
from gridweave.commands.output import Output
from gridweave.options import Options

_SOON = 5  # seconds that a quick command keeps trying


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What every command takes."""

    json: bool = False
    "Print JSON on stdout, and nothing else there."
    url: str | None = None
    "The gateway; default GRIDWEAVE_URL, else http://127.0.0.1:8200."

    def output(self) -> Output:
        return Output(self.json)

    def client(self, retry_for: float = _SOON) -> Client:
        client = Client(self.url, retry_for=retry_for)
        atexit.register(client.close)
        return client


@Parameter(name="*")
@dataclass(frozen=True)
class Hardware:
    """What work asks for; where not given, as the function's decorator says."""

    vram: str | None = None
    "VRAM per GPU, such as 8GB."
    gpus: Annotated[int | None, WHOLE] = None
    "How many GPUs."
    gpu: str | None = None
    "The GPU's model, such as A100-80GB."
    vendor: str | None = None
    "The GPU's vendor."
    provider: str | None = None
    "Only this provider's hardware."
    owner: Annotated[str | None, Parameter(completer=lambda _: ["org", "provider", "self_host"])] = None
    "Whose hardware: org, provider, provider:ID or self_host."
    exclusive: bool = False
    "Whole idle GPUs."

    def over(self, options: Options) -> Options:
        """Those options, with what was given on the command line put in place."""
        base = options.changed(exclusive=self.exclusive or None)
        if self.provider or self.owner:
            base = Options(**{**base.__dict__, "provider": None, "owner": None})
        return base.changed(vram=self.vram, gpus=self.gpus, gpu=self.gpu, vendor=self.vendor, provider=self.provider, owner=self.owner)


COMMON, HARDWARE = Common(), Hardware()  # what a command has when nothing was given
