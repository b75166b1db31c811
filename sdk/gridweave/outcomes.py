"""From the stored result back to a value, or to the user's own exception with its causes and remote tracebacks.

An exception is rebuilt from its pickle; where its class cannot be had here, a RemoteError says what it was. The remote
traceback is a note on it, which Python prints below it; its causes are chained to it as they were there. What would stop this
process by itself (SystemExit, KeyboardInterrupt, a cancelled task's) is never raised as such: it ended the job, not this one. Nor is
what would end an iteration (StopIteration): a future takes none, and `map` is one itself. Nor is an exception of this package:
`except gw.Refused` around a call means that the gateway refused, and nobody's function.
"""

from __future__ import annotations

import io
import linecache
import pickle
import re
from collections.abc import Mapping
from typing import Any

from gridweave.downloads import Download
from gridweave.errors import Cancelled, GridweaveError, JobFailed, Refused, RemoteError
from gridweave.exceptions import LenientUnpickler

_FRAME = re.compile(r'(?P<indent> +)File "(?P<file>.+)", line (?P<line>\d+), in ')
_ENDS_LOOPS = (StopIteration, StopAsyncIteration)
_CHAINED = ("direct cause of the following exception", "During handling of the above exception")


def value_of(download: Download, job_id: str) -> Any:
    """The value, or the exception raised. Raises GridweaveError if the value cannot be rebuilt here. Closes the download."""
    if download.raised:
        raise raised_by(download, job_id)
    try:
        download.file.seek(0)
        return _load(download, job_id)
    finally:
        download.close()


def raised_by(download: Download, job_id: str) -> Exception:
    """The exception of a download that holds one, to be raised or shown. Closes the download."""
    try:
        download.file.seek(0)
        return exception_of(pickle.load(download.file), job_id)  # noqa: S301 - the result of the user's own function
    finally:
        download.close()


def _load(download: Download, job_id: str) -> Any:
    try:
        return pickle.load(download.file)  # noqa: S301 - the result of the user's own function
    except Exception as error:
        hint = f" Install {error.name!r} here, or add its folder to sys.path." if isinstance(error, ModuleNotFoundError) else ""
        raise GridweaveError(f"The result of job {job_id} cannot be rebuilt here: {type(error).__name__}: {error}.{hint}") from error


def exception_of(facts: Mapping[str, Any], job_id: str) -> Exception:
    """The exception that a raised result describes, with the chain that led to it."""
    whole = any(words in str(facts.get("traceback")) for words in _CHAINED)
    outermost = _rebuild(facts, job_id)
    above = outermost
    for link in facts.get("chain") or ():
        below = _rebuild({**link, "traceback": ""} if whole else link, job_id)
        if below is above:
            break
        if link.get("link") == "cause":
            above.__cause__ = below
        else:
            above.__context__ = below
        above = below
    return outermost


def _rebuild(facts: Mapping[str, Any], job_id: str) -> Exception:
    error = _unpickled(facts.get("exception"))
    traceback = with_sources(str(facts.get("traceback") or "").rstrip())
    if not isinstance(error, Exception) or isinstance(error, _ENDS_LOOPS) or type(error).__module__.partition(".")[0] == "gridweave":
        kind, message = str(facts.get("type") or "Exception"), str(facts.get("message") or "")
        module = str(facts.get("module") or "builtins")
        shown = kind if module == "builtins" else f"{module}.{kind}"
        error = RemoteError(f"{shown}: {message}" if message else shown, type=kind, module=module, traceback=traceback)
    if traceback:
        _note(error, f"Remote traceback (job {job_id}):\n{traceback}")
    if isinstance(error, ModuleNotFoundError) and error.name:
        _note(error, _missing(error.name.partition(".")[0]))
    return error


def _missing(top: str) -> str:
    if top == "gridweave":  # what a registry has by that name is somebody else's
        return "Of gridweave a job has only what decorates functions: a job can't start jobs. Call the function itself: it runs there."
    return f'The node has no module {top!r}. If it is a package, add it: env={{"pip": ["{top}"]}}.'


def with_sources(traceback: str) -> str:
    """A traceback with the source lines that the node could not show, because the script is here and not there."""
    lines = traceback.split("\n")
    shown = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        shown.append(line)
        found = _FRAME.match(line)
        if found and not after.startswith(f"{found['indent']}  "):
            source = linecache.getline(found["file"], int(found["line"])).strip()
            shown += [f"{found['indent']}  {source}"] if source else []
    return "\n".join(shown)


def _unpickled(data: Any) -> BaseException | None:
    if not isinstance(data, bytes):
        return None
    try:
        error = LenientUnpickler(io.BytesIO(data)).load()
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


def _note(error: BaseException, text: str) -> None:
    try:
        error.add_note(text)
    except Exception:  # a frozen exception: it arrives without its note
        return


_TELLING = ("BudgetExhausted", "BalanceExhausted", "ResultLost", "ResultPending")  # why it is so says more than how its process ended


def failure(refused: Refused, job_id: str, log_shown: bool = False) -> GridweaveError:
    """How a job ended, from the gateway's answer that it has no result. log_shown: its log need not be repeated."""
    facts = refused.facts
    reason, message = str(facts.get("reason") or ""), str(facts.get("message") or "")
    ended = facts.get("exit") or {}
    if facts.get("phase") == "Cancelled":
        return Cancelled(f"Job {job_id} was cancelled{f': {message}' if message else '.'}", job_id=job_id, reason=reason)
    what = (message if reason in _TELLING else "") or _in_words(ended) or message or reason or refused.message
    error = JobFailed(f"Job {job_id} failed: {what}", job_id=job_id, reason=reason, exit=ended)
    if error.traceback:
        error.add_note(f"Remote traceback:\n{error.traceback.rstrip()}")
    if error.log_tail and not log_shown:
        error.add_note(f"Last lines of its log:\n{error.log_tail.rstrip()}")
    return error


def _in_words(ended: Mapping[str, Any]) -> str:
    if ended.get("oom"):
        return "it ran out of memory."
    if ended.get("signal"):
        return f"it was ended by {ended['signal']}."
    if ended.get("code") == 0:
        return "its process exited with code 0 before the function returned: no result came."
    if ended.get("code") is not None:
        return f"it exited with code {ended['code']}."
    return str(ended.get("message") or "")
