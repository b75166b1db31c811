"""All commands, and how they are told apart."""

from __future__ import annotations

from cyclopts import App, Parameter

from gridweave.commands.exits import WORDS
from gridweave.commands.fleet import estimate, gpus
from gridweave.commands.jobs import cancel, status
from gridweave.commands.logs import logs
from gridweave.commands.models import app as models
from gridweave.commands.money import bill
from gridweave.commands.ps import ps
from gridweave.commands.results import result
from gridweave.commands.submit import submit
from gridweave.commands.versions import version
from gridweave.version import __version__

app = App(
    name="gridweave",
    help=(
        "Run Python functions on the exact GPUs of a shared cluster.\n\n"
        "The gateway is GRIDWEAVE_URL (default http://127.0.0.1:8200), your key GRIDWEAVE_API_KEY."
    ),
    help_epilogue=WORDS,
    version=__version__,
    version_flags=["--version"],
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,  # run says what became of a submit
)
for _command in (submit, ps, status, logs, result, cancel, gpus, estimate, bill, version):
    app.command(_command)
app.command(models)
app.register_install_completion_command()
