"""What cannot work on another machine is refused before anything is sent, naming the variable and the way out."""

from __future__ import annotations

import asyncio
import queue
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gridweave as gw
import pytest
from gridweave import payloads

from tests.unit.sdk.gateway import Gateway


class Holder:
    """An object with something inside."""

    def __init__(self, inner: object) -> None:
        self.inner = inner


@gw.function
def take(*values: Any, **named: Any) -> None: ...


def refusal(*args: Any, **kwargs: Any) -> gw.Refused:
    with pytest.raises(gw.Refused) as caught:
        take.spawn(*args, **kwargs)
    return caught.value


@pytest.mark.parametrize(
    ("make", "what", "remedy"),
    [
        (lambda: (x for x in "ab"), "a generator", "Pass list"),
        (threading.Lock, "a lock", "inside the function"),
        (threading.Event, "a lock", "inside the function"),
        (queue.Queue, "a queue", "pass a list"),
        (asyncio.new_event_loop, "event loop", "inside the function"),
    ],
)
def test_bad_arguments_are_named(gateway: Gateway, make: Callable[[], Any], what: str, remedy: str) -> None:
    """Pickle alone says `cannot pickle '_thread.lock' object`, and not which."""
    bad = make()
    words = str(refusal(1, {"deep": [0, Holder(bad)]}, key=2))
    assert "argument 2: item 'deep': item 1: attribute inner is " in words
    assert what in words
    assert remedy in words
    assert str(refusal(key=bad)).startswith("argument key is ")
    assert 0 == gateway.calls.total()
    if isinstance(bad, asyncio.AbstractEventLoop):
        bad.close()


def test_open_files_sockets_and_connections_are_refused(gateway: Gateway, tmp_path: Path) -> None:
    """cloudpickle would send a file's content as if it were the file."""
    (tmp_path / "a.txt").write_text("x")
    with (tmp_path / "a.txt").open() as file, socket.socket() as endpoint:
        assert "argument 1 is an open file (_io.TextIOWrapper), and cannot be sent. Pass its path" in str(refusal(file))
        assert "an open socket" in str(refusal(endpoint))
    connection = sqlite3.connect(":memory:")
    assert "database connection" in str(refusal(connection))
    connection.close()


def test_captured_variables_and_globals_are_named(gateway: Gateway) -> None:
    """The mistake is in the function, not in its arguments."""
    guard = threading.Lock()

    def helper() -> bool:
        return guard.locked()

    @gw.function
    def work() -> bool:
        return helper()

    with pytest.raises(gw.Refused, match="function work: captured variable helper: captured variable guard is a lock"):
        work.spawn()

    namespace: dict[str, Any] = {"LOCK": guard, "__name__": "__main__"}
    exec("def other():\n    return LOCK.locked()", namespace)  # noqa: S102 - a function of a script
    with pytest.raises(gw.Refused, match="function other: global LOCK is a lock"):
        gw.function(namespace["other"]).spawn()


def test_what_pickle_itself_refuses_is_named_too(gateway: Gateway) -> None:
    """An object may have its own reasons."""

    class Stubborn:
        def __reduce__(self) -> Any:
            raise RuntimeError("I stay here.")

    assert "argument 1: item 0 (" in str(refusal([Stubborn()]))
    assert "cannot be pickled: I stay here. Create it" in str(refusal([Stubborn()]))


def test_a_coroutine_is_refused(gateway: Gateway) -> None:
    """A forgotten await."""

    async def compute() -> int:
        return 1

    pending = compute()
    assert "a coroutine" in str(refusal(pending))
    pending.close()


def test_too_large_is_refused_before_uploading(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a gigabyte takes minutes to send, only to be refused."""
    monkeypatch.setattr(payloads, "LIMIT", 1024 * 1024)
    assert "arguments are larger than 1 MiB when pickled" in str(refusal(bytes(2 * 1024 * 1024)))
    assert 0 == gateway.calls.total()


def test_what_looks_bad_but_works_is_sent(gateway: Gateway) -> None:
    """Loggers, buffers and lists of numbers travel as always."""
    import io
    import logging

    @gw.function
    def read(buffer: io.StringIO, logger: logging.Logger, items: Iterator[int]) -> tuple[str, str, list[int]]:
        return buffer.read(), logger.name, list(items)

    assert ("text", "mine", [1, 2]) == read.remote(io.StringIO("text"), logging.getLogger("mine"), iter([1, 2]))
