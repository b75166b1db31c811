"""Options that several commands share."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.commands.output import Output
from gridweave.errors import NotFound, Refused
from gridweave.options import Options

_SOON = 5  # seconds that a quick command keeps trying
_PAGES = 10  # of 1,000 jobs, searched for a shortened id


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
    gpus: int | None = None
    "How many GPUs."
    gpu: str | None = None
    "The GPU's model, such as A100-80GB."
    vendor: str | None = None
    "The GPU's vendor."
    provider: str | None = None
    "Only this provider's hardware."
    owner: str | None = None
    "Whose hardware: org, provider, provider:<id> or self_host."
    exclusive: bool = False
    "Whole idle GPUs."

    def over(self, options: Options) -> Options:
        """Those options, with what was given on the command line put in place."""
        base = options.changed(exclusive=self.exclusive or None)
        if self.provider or self.owner:
            base = Options(**{**base.__dict__, "provider": None, "owner": None})
        return base.changed(vram=self.vram, gpus=self.gpus, gpu=self.gpu, vendor=self.vendor, provider=self.provider, owner=self.owner)


COMMON, HARDWARE = Common(), Hardware()  # what a command has when nothing was given
JobId = Annotated[str, Parameter(help="A job's id, or the start of one if no other job's begins like it.")]


def full_id(client: Client, given: str) -> str:
    """The id that this one shortens. Raises NotFound, or Refused if several jobs fit."""
    try:
        return str(client.status(given)["id"])
    except NotFound as error:
        missing = error
    except Refused as error:
        if error.status != 400:
            raise
        missing = NotFound(f"There is no job {given!r}.", kind="not-found", status=404, field="id", value=given)
    fitting = sorted({str(job["id"]) for job in client.jobs(limit=1000, pages=_PAGES) if given and str(job["id"]).startswith(given)})
    if len(fitting) > 1:
        remedy = f"Give more of it: {', '.join(fitting[:5])}{' …' if len(fitting) > 5 else ''}"
        raise Refused(f"{len(fitting)} jobs begin with {given!r}.", kind="ambiguous", field="id", value=given, remedy=remedy)
    if not fitting:
        missing.remedy = missing.remedy or "gridweave ps --all lists your jobs."
        raise missing
    return fitting[0]
