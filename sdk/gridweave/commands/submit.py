"""`gridweave submit FILE.py:FUNC [ARGS…]`: run one function of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gridweave.calls import spawn
from gridweave.commands.arguments import arguments, pairs
from gridweave.commands.following import follow
from gridweave.commands.options import COMMON, HARDWARE, Common, Hardware
from gridweave.commands.scripts import load
from gridweave.functions import Function
from gridweave.options import Options

Several = Parameter(consume_multiple=False)


def submit(
    target: Path,
    /,
    *args: str,
    pip: Annotated[list[str] | None, Several] = None,
    env_var: Annotated[list[str] | None, Several] = None,
    label: Annotated[list[str] | None, Several] = None,
    max_hours: float | None = None,
    max_cost: str | None = None,
    name: str | None = None,
    detach: bool = False,
    idempotency_key: str | None = None,
    hardware: Hardware = HARDWARE,
    common: Common = COMMON,
) -> int:
    """Run a function of a Python file on the cluster, follow its log, and print what it returns.

    Modules beside FILE travel along. Ctrl-C cancels the job, and so does a reader of the log that goes away; at SIGTERM and SIGHUP it
    goes on.

    Parameters
    ----------
    target
        FILE.py:FUNC. Its decorator's options hold where none is given here.
    args
        Arguments: Python literals (7, 2.5, "[1, 2]", None), anything else is text; then those by name (lr=0.1).
        For a parameter annotated bool: true or false; for int and float: a number.
        After -- also what begins with a dash.
    pip
        A requirement to install for it; may be given several times.
    env_var
        NAME=VALUE for its environment; may be given several times.
    label
        KEY=VALUE to find it again; may be given several times.
    max_hours
        End it after that many hours.
    max_cost
        End it when it has cost that many credits.
    name
        The job's name; default is the function's.
    detach
        Print the job's id and leave it running.
    idempotency_key
        The same key and request give the same job, however often they are sent.
    """
    output = common.output()
    function = load(str(target))
    options = hardware.over(function.options).changed(max_hours=max_hours, max_cost=max_cost, name=name)
    wanted: Function[..., Any] = Function(function.__wrapped__, _with(options, pip, env_var, label))
    given, named = arguments(wanted, args)
    client = common.client(retry_for=60)
    if detach:
        job = spawn(client, wanted, given, named, idempotency_key)
        output.emit({"id": job.id}) if output.json else output.line(job.id)
        return 0
    return follow(client, output, wanted, given, named, idempotency_key)


def _with(options: Options, pip: list[str] | None, env_var: list[str] | None, label: list[str] | None) -> Options:
    """The options with what may be given several times added to what the decorator says."""
    env = dict(options.env)
    if pip:
        env["pip"] = [*env.get("pip", ()), *pip]
    if env_var:
        env["env_vars"] = {**env.get("env_vars", {}), **pairs("--env-var", env_var)}
    return options.changed(env=env, labels={**options.labels, **pairs("--label", label)})
