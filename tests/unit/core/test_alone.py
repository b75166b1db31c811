"""`core` is a library: whoever plans capacity with it needs neither Ray nor a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PLAN = """
import importlib, pkgutil, sys

ALLOWED = {"core", "ports", "attr", "attrs", "cattr", "cattrs", "exceptiongroup", "typing_extensions"} | set(sys.stdlib_module_names)

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED and not name.startswith("_"):
            raise ImportError(f"{name} is not for core")

sys.meta_path.insert(0, Nothing())
import core
for module in pkgutil.walk_packages(core.__path__, "core."):
    importlib.import_module(module.name)

from core.ledger import VramLedger
from core.owners import ORG_POOL
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, RunId

ledger = VramLedger()
ledger.add_node("n1", "org", [Gpu(0, "A10", "nvidia", Mib(24_000))])
(slot,) = ledger.reserve(RunId("job", 1), Ask(Mib(8_000)), (ORG_POOL,))
print(slot.node, slot.gpu, slot.mib.n, *sorted({"socket", "sqlite3", "asyncio", "http", "subprocess"} & set(sys.modules)))
"""


def test_core_alone_places_with_no_other_library_and_nothing_of_a_server(tmp_path: Path) -> None:
    """With a copy of core and ports beside it and every other import refused: a wall that only a linter sees is painted on."""
    for package in ("core", "ports"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", PLAN], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert ("", "n1 0 8000\n") == (done.stderr, done.stdout)
