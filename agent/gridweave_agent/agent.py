"""The agent: obeys the newest scheduler, once; says what is so; and alone says that a run is gone.

It holds no lock while it waits for a disk or a peer: state is in the table, durable facts are in the journal, long
work is in threads. An epoch is raised only when no command of an older one is still being carried out.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from gridweave_agent import adoption, clock, probe
from gridweave_agent.ended import Ended
from gridweave_agent.environments import Environments
from gridweave_agent.forker import Forker
from gridweave_agent.journal import Journal
from gridweave_agent.links import Links
from gridweave_agent.preparing import Preparing
from gridweave_agent.protocol import (
    GONE,
    NEVER_RAN,
    PREPARING,
    PROTOCOL,
    READY,
    RUNNING,
    SETUP_FAILED,
    BadMessage,
    Exit,
    Grant,
    Json,
    Prepare,
    read_inputs,
    read_int,
    read_run,
    read_str,
)
from gridweave_agent.rundir import read_json, write_json
from gridweave_agent.settings import Settings
from gridweave_agent.table import KNOWN, MOST_BARRED, Run, Table
from gridweave_agent.uploads import Uploads

log = logging.getLogger("gridweave_agent")

Answer = dict[str, object]
_MOST_PREPARING = 256
_ENDED_EARLY = "It was ended on request while it was being set up."


class StaleEpoch(Exception):
    """The command is of an older term than one that was obeyed already."""

    def __init__(self, newest: int) -> None:
        super().__init__(f"epoch {newest} is obeyed here")
        self.newest = newest


class Agent:
    """One node's agent. `start` sweeps what ran before it; only then may it answer."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self.settings, self._journal = settings, journal
        self.gpus = settings.gpus if settings.gpus is not None else probe.gpus()
        self.table = Table(self.gpus)
        self._epoch = journal.epoch()
        self._obeying = 0
        self._environments = Environments(journal.home / "envs", settings.uv, settings.env_count, settings.env_bytes, self._in_use)
        self._forker = Forker(settings.isolation, settings.spares)
        self._links = Links(self._heard, self._closed)
        self._uploads = Uploads(settings, self.table)
        by_index = {gpu.index: gpu for gpu in self.gpus}
        self._preparing = Preparing(settings, self.table, by_index, self._environments, self._forker, self._links, self._setup_failed)
        self._adoption = adoption.Adoption(self.table, self._links, self.end)
        self._kinds: dict[str, Callable[[Json, int], Answer]] = {
            "prepare": self._prepare,
            "go": self._go,
            "kill": self._kill,
            "grant": self._grant,
            "forget": self._forget,
        }

    def start(self) -> None:
        """Take over from the journal: runs that live are adopted, those that were being set up are set up again, the rest is gone."""
        self._journal.empty_trash()
        for barred in self._journal.barred(MOST_BARRED):
            self.table.bar(barred, lambda _: None)
        for folder, prepare, epoch in self._journal.load():
            run = Run(prepare, folder, epoch, prepare.output)
            self.table.adopt(run)
            self._uploads.follow(run)
            if self._adoption.take(run) == adoption.SET_UP_AGAIN:
                self._preparing.begin(run)
            self._uploads.notice(run, now=True)

    def stop(self) -> None:
        """Let go of everything and end nothing: runs live on, a successor adopts them."""
        self._uploads.stop()
        self._links.stop()
        self._forker.close()
        self._journal.close()

    # ------------------------------------------------------------ what a scheduler may ask

    def hello(self, epoch: int) -> Answer:
        """Obey that term from now on. Raises StaleEpoch. When it answers, no command of an older one is under way."""
        self._enter(epoch, commands=False)
        return {
            "protocol": PROTOCOL,
            "node": self.settings.node,
            "incarnation": self.table.incarnation,
            "epoch": epoch,
            "python": platform.python_version(),
            "cloudpickle": version("cloudpickle"),
            "gpus": [gpu.json() for gpu in self.gpus],
            "runs": [run.report() for run in self.table.all()],
        }

    def command(self, epoch: int, commands: Sequence[object]) -> list[Answer]:
        """Each is idempotent and answered on its own; nothing here waits for a run. Raises StaleEpoch."""
        self._enter(epoch, commands=True)
        try:
            return [self._obey(command, epoch) for command in commands]
        finally:
            with self.table.changed:
                self._obeying -= 1
                self.table.changed.notify_all()

    def _enter(self, epoch: int, *, commands: bool) -> None:
        with self.table.changed:
            if epoch < self._epoch:
                raise StaleEpoch(self._epoch)
            newer = epoch > self._epoch
            self._epoch = epoch
            while newer and self._obeying:
                self.table.changed.wait()
            if epoch < self._epoch:
                raise StaleEpoch(self._epoch)
            self._obeying += commands
        if newer:
            try:
                self._journal.raise_epoch(epoch)
            except BaseException:
                with self.table.changed:
                    self._obeying -= commands
                raise

    def _obey(self, command: object, epoch: int) -> Answer:
        try:
            if not isinstance(command, dict):
                raise BadMessage("command: wanted an object")
            kind = read_str(command, "kind")
            if kind not in self._kinds:
                raise BadMessage(f"kind: {kind!r} given; wanted one of {', '.join(self._kinds)}")
            return self._kinds[kind](command, epoch)
        except BadMessage as error:
            return _refused(str(error))
        except OSError as error:
            return _refused(f"the node could not do it: {error}")

    # ------------------------------------------------------------ commands

    def _prepare(self, command: Json, epoch: int) -> Answer:
        prepare = Prepare.parse(command)
        if refusal := self.table.known(prepare):
            return _done() if refusal == KNOWN else _refused(refusal)
        preparing = sum(run.state == PREPARING for run in self.table.all())
        if preparing >= _MOST_PREPARING:
            return _refused(f"{preparing} runs are being set up here already; ask again later")
        if refusal := self.table.refusal(prepare.slots):
            return _refused(refusal)
        folder = self._journal.add(prepare, epoch)
        run = Run(prepare, folder, epoch, prepare.output)
        if refusal := self.table.add(run):
            if refusal == KNOWN:
                return _done()
            self._journal.remove(folder)
            return _refused(refusal)
        self._uploads.follow(run)
        self._preparing.begin(run)
        return _done()

    def _go(self, command: Json, epoch: int) -> Answer:
        run = self.table.get(read_run(command))
        if run is None:
            return _unknown()
        limit = command.get("max_runtime_ms")
        limit = None if limit is None else read_int(command, "max_runtime_ms")
        with self.table.changed:
            if run.started or run.busy:
                return _done()
            if run.state != READY or run.killed:
                return _refused("not ready" if run.state != GONE else "gone")
            run.busy = True
        order = {"do": "go", "at_ms": clock.now_ms(), "max_runtime_ms": limit, "boot": clock.boot_id(), "epoch": epoch}
        try:
            write_json(run.dir.go, order)

            def started(run: Run) -> None:
                run.state, run.started, run.go_ms, run.detail = RUNNING, True, int(str(order["at_ms"])), ""

            self.table.change(run, started)
        finally:
            with self.table.changed:
                run.busy = False
        self._links.send(run.id, order)  # if its line has ended, whoever finds that out delivers the stored order
        return _done()

    def _kill(self, command: Json, _: int) -> Answer:
        """Of a run that is not known: whoever asked may rely on it that it will not come."""
        if self.table.bar(read_run(command), self._journal.bar):
            return {"ok": True, "known": False, "error": ""}
        run = self.table.get(read_run(command))
        if run is None:  # forgotten a moment ago
            return {"ok": True, "known": False, "error": ""}
        grace = read_int(command, "grace_ms", 3000)
        with self.table.changed:
            run.killed = True
            run.stop.set()
            unborn = run.state == PREPARING and not run.forked
            run.kill_ms = grace
        if unborn:
            self._ended(run, Exit(NEVER_RAN, message=_ENDED_EARLY))
        else:
            self._pass_on_kill(run)
        return _done()

    def _pass_on_kill(self, run: Run) -> None:
        if run.kill_ms is not None and self._links.send(run.id, {"do": "kill", "grace_ms": run.kill_ms}):
            run.kill_ms = None

    def _grant(self, command: Json, _: int) -> Answer:
        run = self.table.get(read_run(command))
        if run is None:
            return _unknown()
        grant, inputs = Grant.parse(command.get("output"), "output"), read_inputs(command, required=False)
        for name, given in inputs.items():
            known = run.prepare.inputs.get(name)
            if known is None or (known.sha256, known.size) != (given.sha256, given.size):
                raise BadMessage(f"inputs.{name}: a grant for another object than the run was prepared with")
        renewed = replace(run.prepare, output=grant, inputs={**run.prepare.inputs, **inputs})
        self._journal.keep(run.dir, renewed, run.epoch)
        with self.table.changed:
            run.output, run.prepare = grant, renewed
        self._uploads.notice(run, now=True)
        return _done()

    def _forget(self, command: Json, _: int) -> Answer:
        run = self.table.get(read_run(command))
        if run is None:
            return {"ok": True, "known": False, "error": ""}
        if run.state != GONE:
            return _refused(f"the run is {run.state}; only what is gone can be forgotten")
        self.table.forget(run)
        self._uploads.forget(run)
        self._journal.remove(run.dir)
        return _done()

    # ------------------------------------------------------------ what happens to runs

    def _heard(self, name: str, summary: Mapping[str, object]) -> None:
        """A supervisor says how its run is."""
        run = self.table.get(name)
        if run is None:
            return
        state, size = str(summary["state"]), int(str(summary["log_bytes"]))
        grown = size != run.log_bytes

        def change(run: Run) -> None:
            run.log_bytes = size
            if state == READY and run.state == PREPARING:
                run.state, run.detail = READY, ""

        if grown or (state == READY and run.state == PREPARING):
            self.table.change(run, change)
        if grown:
            self._uploads.notice(run)
        if run.kill_ms is not None:
            self._pass_on_kill(run)
        elif state == READY and run.started:
            self._deliver(run)
        if state == GONE:
            self._closed(name)

    def _deliver(self, run: Run) -> None:
        """A go that is in the journal and was not heard: its agent died in between, or its line broke."""
        order = read_json(run.dir.go)
        if order is not None:
            self._links.send(run.id, order)

    def _closed(self, name: str) -> None:
        """A supervisor's line ended: it has recorded the end, or it is lost."""
        run = self.table.get(name)
        if run is None or run.state == GONE:
            return
        if not self._adoption.ended(run):
            self._adoption.look_into(run)

    def _setup_failed(self, run: Run, message: str, again: bool) -> None:
        """again: by no fault of its user's, so that another attempt may be made."""
        if run.killed:
            self._ended(run, Exit(NEVER_RAN, message=_ENDED_EARLY))
        else:
            self._ended(run, Exit(NEVER_RAN if again else SETUP_FAILED, message=message))

    def _ended(self, run: Run, how: Exit) -> None:
        """Nothing of it was ever told to go."""
        self.end(run, Ended(how, run.started, 0, run.log_bytes))

    def end(self, run: Run, ended: Ended) -> None:
        """The run is gone. It ends in one way, whoever else says so at the same moment: the one that is recorded first."""
        with run.ending:
            if run.state == GONE:
                return
            recorded = Ended.read(run.dir)
            if recorded is None:
                write_json(run.dir.exit, ended.json())
            final = recorded or ended

            def change(run: Run) -> None:
                run.state, run.exit, run.result, run.ran_ms = GONE, final.exit, final.result, final.ran_ms
                run.log_bytes, run.detail, run.fetch_error = final.log_bytes, "", ""

            self.table.change(run, change)
        self._uploads.notice(run, now=True)

    def _in_use(self) -> set[str]:
        """Folders of environments that live runs use."""
        return {run.environment for run in self.table.all() if run.state != GONE}


def _done() -> Answer:
    return {"ok": True, "known": True, "error": ""}


def _refused(why: str) -> Answer:
    return {"ok": False, "known": True, "error": why}


def _unknown() -> Answer:
    return {"ok": False, "known": False, "error": "unknown run"}
