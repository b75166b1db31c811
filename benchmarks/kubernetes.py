"""What the measurements on Kubernetes stand on: a control plane of their own, with our kinds and one namespace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from tests.kube.binaries import MISSING, REMEDY, assets
from tests.kube.plane import private_plane

NAMESPACE = "default"


@frozen
class Standing:
    """folder: for logs and state. env: of processes that use it as its administrator."""

    folder: Path
    kubeconfig: str
    env: dict[str, str]


@contextmanager
def plane() -> Iterator[Standing]:
    """Raises SystemExit where there are no programs for it."""
    found = assets()
    if found is None:
        raise SystemExit(f"{MISSING}; {REMEDY}")
    folder = Path(tempfile.mkdtemp(prefix="gridweave-bench-"))
    try:
        with private_plane(found, folder / "kube") as running:
            config = str(running.kubeconfig())
            yield Standing(folder, config, {**os.environ, "KUBECONFIG": config, "KUBERAY_NAMESPACE": NAMESPACE})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
