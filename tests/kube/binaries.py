"""Where the control plane's programs are: KUBEBUILDER_ASSETS, as everywhere, else the folders into which they are usually put."""

from __future__ import annotations

import os
from pathlib import Path

ASSETS = "KUBEBUILDER_ASSETS"
USUAL = (Path("~/.cache/gridweave/kube"), Path("/usr/local/kubebuilder/bin"))
NEEDED = ("etcd", "kube-apiserver", "kubectl")
MISSING = "no Kubernetes control plane: KUBEBUILDER_ASSETS names no folder with " + ", ".join(NEEDED)
REMEDY = 'export KUBEBUILDER_ASSETS="$(setup-envtest use -p path 1.35.x)"'


def assets() -> Path | None:
    """The folder of the programs, None if there is none here."""
    named = os.environ.get(ASSETS)
    candidates = (Path(named),) if named else USUAL
    return next((each for path in candidates if _has(each := path.expanduser())), None)


def _has(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)
