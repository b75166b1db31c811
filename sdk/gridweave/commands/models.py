"""`model push`, `model ls`, `model rm`: weights that are kept for you under a name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from gridweave.commands.options import COMMON, Common
from gridweave.lines import Line

app = App(name="model", help="Weights of models, kept under a name: push a folder, list, remove.")
_MIB = 1024 * 1024


class _Going:
    """A line on the terminal that says how far a push is."""

    def __init__(self, name: str) -> None:
        self._name, self._path = name, ""
        self._seen = self._total = self.sent = 0
        self._line = Line(self._words)

    def __call__(self, path: str, seen: int, total: int, sent: int) -> None:
        self._path, self._seen, self._total, self.sent = path, seen, total, sent
        self._line.draw()

    def close(self) -> None:
        self._line.close()

    def _words(self) -> str:
        from rich.markup import escape

        return f"{escape(self._name)} · {escape(self._path)} · {self._seen / _MIB:.0f} of {self._total / _MIB:.0f} MiB"


@app.command
def push(folder: Path, name: str, /, *, skip_broken_links: Annotated[bool, Parameter(negative="")] = False, common: Common = COMMON) -> int:
    """Make the files of a folder the model of that name. What is there already is not sent: after a break, push again.

    Parameters
    ----------
    folder
        The folder of the weights.
    name
        At most 63 lower-case letters, digits and dashes. It is yours from the first push on.
    skip_broken_links
        Leave behind links that lead nowhere, instead of refusing the folder.
    """
    output = common.output()
    with closing(_Going(name)) as going:
        model = common.client().push_model(folder, name, going, skip_broken_links=skip_broken_links)
    facts, files = {**model, "sent": going.sent}, "1 file" if model["files"] == 1 else f"{model['files']} files"
    output.emit(facts) if output.json else output.remark(
        f"{model['name']}: {files}, {model['size']} bytes, of which {going.sent} were sent"
    )
    return 0


@app.command
def ls(*, common: Common = COMMON) -> int:
    """Your models, by name."""
    output, models = common.output(), common.client().models()
    if output.json:
        output.emit(models)
        return 0
    rows = [[model["name"], str(model["size"]), str(model["files"]), str(model["created_at"] or ""), model["owner"]] for model in models]
    output.table(("NAME", "BYTES", "FILES", "PUSHED", "OWNER"), rows)
    if not models:
        output.remark("You have no models yet: gridweave model push DIR NAME")
    return 0


@app.command
def rm(name: str, /, *, common: Common = COMMON) -> int:
    """Remove a model."""
    output = common.output()
    common.client().remove_model(name)
    output.emit({"removed": name}) if output.json else output.remark(f"{name} is removed")
    return 0
