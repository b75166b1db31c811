"""Setting a run up, in a thread of its own: inputs, environment, folders, and at last a warm process.

Everything that may take long or fail is here, before `go` and so before anything is billed. It can be begun again
from the journal by a successor.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gridweave_agent import archive, launch
from gridweave_agent.environments import Environments
from gridweave_agent.forker import Forker, ForkFailed
from gridweave_agent.installer import InstallFailed
from gridweave_agent.links import Links
from gridweave_agent.protocol import Gpu, Grant
from gridweave_agent.rundir import RunDir, persistently, write_atomic, write_json
from gridweave_agent.settings import Settings
from gridweave_agent.table import Run, Table
from gridweave_agent.transfer import TransferError, download_until

_MAIN = '''"""Gives processes that multiprocessing spawns the names of the user's script."""
import cloudpickle as _pickle
import inspect as _inspect

with open({path!r}, "rb") as _file:
    _plain = _inspect.unwrap(_pickle.load(_file))
for _name, _value in list(getattr(_plain, "__globals__", {{}}).items()):
    if not _name.startswith("__"):
        globals().setdefault(_name, _value)
globals().setdefault(getattr(_plain, "__name__", "_plain"), _plain)
for _kind in list(_pickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS):
    globals().setdefault(_kind.__name__, _kind)
'''


class Preparing:
    """Brings runs from prepared to ready. failed(run, message, again): the set-up did not work; again: it may another time,
    since it failed for nothing that its user gave."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        gpus: Mapping[int, Gpu],
        environments: Environments,
        forker: Forker,
        links: Links,
        failed: Callable[[Run, str, bool], None],
    ) -> None:
        self._settings, self._table, self._gpus, self._environments = settings, table, gpus, environments
        self._forker, self._links, self._failed = forker, links, failed

    def begin(self, run: Run) -> None:
        threading.Thread(target=self._thread, args=(run,), name="preparing", daemon=True).start()

    def _thread(self, run: Run) -> None:
        try:
            self._set_up(run)
        except TransferError as error:
            self._fail(run, str(error), error.again)
        except (InstallFailed, archive.BadArchive, ValueError) as error:
            self._fail(run, str(error), False)
        except ForkFailed as error:
            self._fail(run, str(error), True)
        except OSError as error:
            self._fail(run, f"the node could not set the run up: {error}", True)

    def _fail(self, run: Run, why: str, again: bool) -> None:
        persistently(lambda: self._failed(run, why, again))

    def _set_up(self, run: Run) -> None:
        deadline = time.monotonic() + run.prepare.setup_bound_ms / 1000
        stopped = run.stop.is_set
        os.makedirs(run.dir.inputs, mode=0o755, exist_ok=True)
        for name in run.prepare.inputs:
            if name not in ("function", "args"):
                self._detail(run, f"Fetching {name}…")
            self._fetch(run, name, deadline)
        environment = self._environments.ensure(run.prepare.env, deadline, stopped, lambda text: self._detail(run, text))
        self._folders(run.dir, run)
        venv = f"{environment}/venv" if environment else ""
        what = launch.build(run.prepare, run.dir, self._settings, self._gpus, venv, os.environ.get("PATH", os.defpath))
        with self._table.changed:
            run.environment = environment
            run.forked = not stopped()
            if not run.forked:
                return  # who stopped it has ended it
        self._fork(run, what)

    def _fetch(self, run: Run, name: str, deadline: float) -> None:
        """By whatever grant is the newest: the server of an older one may be gone."""

        def newest() -> Grant:
            with self._table.changed:
                return run.prepare.inputs[name]

        def say(why: str) -> None:
            def change(run: Run) -> None:
                run.fetch_error = why

            if why != run.fetch_error:
                self._table.change(run, change)

        download_until(newest, name, f"{run.dir.inputs}/{name}", deadline, run.stop.is_set, say)

    def _folders(self, folder: RunDir, run: Run) -> None:
        for name, target in (("code", folder.code), ("working_dir", folder.work)):
            shutil.rmtree(target, ignore_errors=True)
            if name in run.prepare.inputs:
                os.mkdir(target)
                archive.unpack(f"{folder.inputs}/{name}", target, name)
        os.makedirs(folder.work, exist_ok=True)
        Path(folder.inputs, "main.py").write_text(_MAIN.format(path=f"{folder.inputs}/function"), encoding="utf-8")
        if self._settings.run_as_uid is not None and os.geteuid() == 0:
            _give(self._settings.run_as_uid, folder.inputs, folder.work, folder.code)

    def _fork(self, run: Run, what: dict[str, object]) -> None:
        claim = self._table.incarnation
        write_atomic(run.dir.claim, claim.encode(), sync=False)
        write_json(run.dir.launch, what, sync=False)
        line = self._forker.assign(run.dir.path, claim)
        self._links.watch(run.id, line)

    def _detail(self, run: Run, text: str) -> None:
        def change(run: Run) -> None:
            run.detail = text

        self._table.change(run, change)


def _give(uid: int, *folders: str) -> None:
    for top in folders:
        for folder, names, files in os.walk(top):
            for name in (".", *names, *files):
                os.chown(os.path.join(folder, name), uid, -1, follow_symlinks=False)
