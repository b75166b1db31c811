"""The actor that carries an agent: pickled by value, so it needs nothing of ours on the node.

It unpacks the package that came in its arguments, starts the agent and says where it listens. Ray brings it back
with the same arguments after its process or its node died; the agent then re-adopts what ran before it. Nothing here
may name a module of ours outside a function: only the standard library and Ray are there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any


class AgentStub:
    """config: JSON of the agent's settings; an empty "host" becomes the address by which Ray knows the node."""

    def __init__(self, package: bytes, config: bytes) -> None:
        import ray.util

        settings: dict[str, Any] = json.loads(config)
        settings["host"] = settings["host"] or str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        folder = self._unpacked(package, Path(settings["dir"]) / "package")
        sys.path.insert(0, str(folder))
        from gridweave_agent import start

        self._running = start(settings)

    def _unpacked(self, package: bytes, home: Path) -> Path:
        """The folder of this version's sources; older versions stay, for a supervisor of theirs may still run."""
        folder = home / hashlib.sha256(package).hexdigest()[:16]
        if not folder.exists():
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            half = home / f"{folder.name}.{os.getpid()}"
            with zipfile.ZipFile(io.BytesIO(package)) as archive:
                archive.extractall(half)
            try:
                half.rename(folder)
            except OSError:  # another process was quicker
                shutil.rmtree(half, ignore_errors=True)
        return folder

    def describe(self) -> bytes:
        """JSON of address, pid and incarnation."""
        return json.dumps({"address": self._running.address, "pid": os.getpid(), "incarnation": self._running.incarnation}).encode()
