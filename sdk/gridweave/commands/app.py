"""All commands, and how they are told apart."""

from __future__ import annotations

from cyclopts import App, Parameter

from gridweave.commands.fleet import estimate, gpus
from gridweave.commands.jobs import cancel, logs, ps, result, status
from gridweave.commands.money import bill
from gridweave.commands.submit import submit
from gridweave.commands.versions import version
from gridweave.version import __version__

app = App(
    name="gridweave",
    help=(
        "Run Python functions on the exact GPUs of a shared cluster.\n\n"
        "The gateway is GRIDWEAVE_URL (default http://127.0.0.1:8200), your key GRIDWEAVE_API_KEY.\n\n"
        "Exit codes: 0 ok, 1 the job failed, 2 usage or refused, 3 unavailable, 4 cancelled, 5 not found, 130 interrupted."
    ),
    version=__version__,
    version_flags=["--version"],
    default_parameter=Parameter(negative=()),
)
for _command in (submit, ps, status, logs, result, cancel, gpus, estimate, bill, version):
    app.command(_command)
app.register_install_completion_command()
