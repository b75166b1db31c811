"""Other rights, other ways: no right to make namespaces, and a uid of the run's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.agent.conftest import Blobs, Node, script

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give rights away or change its uid")

SLEEPER = (
    "import os, subprocess\n"
    "def work():\n"
    "    subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    "    return os.readlink('/proc/self') == str(os.getpid()), os.getuid()\n"
)


@needs_root
def test_an_agent_without_the_right_to_make_namespaces_ends_runs_whole_too(tmp_path: Path, blobs: Blobs) -> None:
    """Containers are like that; a user namespace or subreapers do it there."""
    node = Node(tmp_path, blobs)
    node.without_admin = True
    node.start()
    try:
        report = node.run(script(SLEEPER)["work"])
        assert (True, 0) == node.result(report["run"])
        assert not any(f"GRIDWEAVE_RUN={report['run']}".encode() in environ(process) for process in Path("/proc").iterdir())
    finally:
        node.close()


def environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes() if process.name.isdigit() else b""
    except OSError:
        return b""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other uids may pass through; pytest's own may not be."""
    folder = Path(tempfile.mkdtemp(prefix="gridweave-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("isolation", ["namespace", "subreaper"])
def test_a_run_may_have_a_uid_of_its_own(open_folder: Path, blobs: Blobs, isolation: str) -> None:
    """Then it reads nothing of the agent's, and writes in its own folder."""
    node = Node(open_folder, blobs, run_as_uid=54_321, isolation=isolation).start()
    source = (
        "import os\n"
        "def work(journal):\n"
        "    with open('mine', 'w') as file: file.write('x')\n"
        "    denied = []\n"
        "    for path in (journal + '/prepare.json', '/proc/self/../%d/environ' % os.getppid()):\n"
        "        try: open(path).close()\n"
        "        except (PermissionError, FileNotFoundError): denied.append(True)\n"
        "    return os.getresuid(), os.getgroups(), os.environ['HOME'], denied, len(open('/proc/self/environ').read()) > 0\n"
    )
    try:
        work, journal = script(source)["work"], str(node.folder_of("uid/1"))
        assert ((54_321,) * 3, [], "/", [True, True], True) == node.value(work, (journal,), run="uid/1")
    finally:
        node.close()
