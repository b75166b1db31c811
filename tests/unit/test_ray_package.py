"""The agent's package, zipped: the same sources must be the same version on every machine."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from adapters.ray.package import zipped


def sources(folder: Path) -> Path:
    package = folder / "gridweave_agent"
    (package / "below").mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    (package / "below" / "a.py").write_text("y = 2\n")
    (package / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"cache")
    return package


def test_equal_sources_give_an_equal_digest_wherever_and_whenever(tmp_path: Path) -> None:
    """Otherwise every gateway would replace the agents of every other."""
    first, second = sources(tmp_path / "1"), sources(tmp_path / "2")
    os.utime(second / "__init__.py", (0, 10**9))
    assert zipped(first) == zipped(second)


def test_any_changed_byte_gives_another_digest(tmp_path: Path) -> None:
    """A fixed agent must reach the nodes."""
    package = sources(tmp_path)
    before = zipped(package)
    (package / "below" / "a.py").write_text("y = 3\n")
    assert before.digest != zipped(package).digest


def test_the_zip_holds_the_package_without_caches(tmp_path: Path) -> None:
    """It is unpacked and imported as it is."""
    with zipfile.ZipFile(io.BytesIO(zipped(sources(tmp_path)).data)) as archive:
        assert ["gridweave_agent/__init__.py", "gridweave_agent/below/a.py"] == archive.namelist()
