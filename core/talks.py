"""What this term has said to an agent about a run, and what it has heard in answer.

A command may be under way for as long as the term lasts, whatever its sender has given up on. So a run that was
never prepared by this term, and that its agent did not name in hello, is not there; one that was prepared is not there
only once the agent has answered a kill with "I don't know it", which bars it from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from ports.cluster import Answer, Command, Kill, Prepare, Renew
from ports.units import Span
from ports.workloads import RunId

PATIENCE = 3  # refusals of a prepare until the attempt is given up: what is still ending there may need a moment


@define
class Talk:
    """With one agent about one run. sent: when each kind of command was sent last. granted: when it was last given
    grants. denied: it does not know the run, and will refuse it. refusals: of prepare; error: the last one's words."""

    sent: dict[type[Command], Span] = field(factory=dict)
    granted: Span | None = None
    prepared: bool = False
    denied: bool = False
    refusals: int = 0
    error: str = ""

    @property
    def absent(self) -> bool:
        """Whether a run that the agent does not report can't be there, nor come."""
        return self.denied or not self.prepared

    @property
    def refused(self) -> str:
        """Why the agent will not have it, "" as long as it may."""
        return self.error if self.refusals >= PATIENCE else ""


class Talks:
    """By node and run."""

    def __init__(self, resend: Span) -> None:
        self._resend = resend
        self._talks: dict[tuple[str, RunId], Talk] = {}

    def about(self, node: str, run: RunId) -> Talk:
        """What is known, or nothing yet."""
        return self._talks.get((node, run)) or Talk()

    def due(self, node: str, run: RunId, kind: type[Command], now: Span) -> bool:
        """Whether that command may be sent (again) now."""
        last = self.about(node, run).sent.get(kind)
        return last is None or now - last >= self._resend

    def sent(self, node: str, command: Command, now: Span) -> None:
        talk = self._talks.setdefault((node, command.run), Talk())
        talk.sent[type(command)] = now
        if isinstance(command, Prepare | Renew):
            talk.granted = now
        if isinstance(command, Prepare):
            talk.prepared = True

    def heard(self, node: str, command: Command, answer: Answer) -> None:
        talk = self._talks.setdefault((node, command.run), Talk())
        if isinstance(command, Prepare) and not answer.ok:
            self.refuse(node, command.run, answer.error)
        elif isinstance(command, Kill) and not answer.known:
            talk.denied = True

    def refuse(self, node: str, run: RunId, why: str, times: int = 1) -> None:
        talk = self._talks.setdefault((node, run), Talk())
        talk.refusals, talk.error = talk.refusals + times, why

    def again(self, node: str) -> None:
        """The agent was asked anew who it is: whatever is still to be done there may be sent at once."""
        for (name, _), talk in self._talks.items():
            if name == node:
                talk.sent.clear()

    def drop(self, node: str, run: RunId) -> None:
        self._talks.pop((node, run), None)

    def all(self) -> Iterator[tuple[str, RunId]]:
        yield from self._talks
