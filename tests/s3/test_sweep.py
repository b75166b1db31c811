"""The sweep as an operator runs it, on a bucket, a month later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from adapters.s3.blobs import S3Blobs
from core.manifest import manifest_key
from ports.blobs import log_key
from runtimes.clock_offset import OFFSET_FILE
from tests.s3.seaweed import Seaweed

ROOT = Path(__file__).parents[2]
DAY_MS = 86_400_000


def swept(seaweed: Seaweed, folder: Path, days: int) -> dict[str, int]:
    """What `python -m runtimes.batch sweep` says, so many days from now."""
    (folder / "offset").write_text(str(days * DAY_MS + 60_000))
    kept = {name: os.environ[name] for name in ("PATH", "GRIDWEAVE_TEST_RUN", "PYTEST_CURRENT_TEST") if name in os.environ}
    own = {"STATE_DIR": str(folder / "state"), "ADMIN_TOKEN": "a" * 16, OFFSET_FILE: str(folder / "offset")}
    sources = os.pathsep.join(str(ROOT / part) for part in ("", "sdk", "agent"))
    command = [sys.executable, "-m", "runtimes.batch", "sweep", "--json"]
    environment = {**kept, "PYTHONPATH": sources, **own, **seaweed.environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert 0 == done.returncode, done.stderr[-2000:]
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_what_failed_outlives_what_went_well_and_the_rest_of_the_bucket_stays(seaweed: Seaweed, s3_blobs: S3Blobs, tmp_path: Path) -> None:
    """Of jobs whose objects are long gone, the manifests in the bucket tell."""
    for job, phase in (("job-good", "Completed"), ("job-bad", "Failed")):
        s3_blobs.put(log_key(job, 1, 0, 0), [b"log"])
        s3_blobs.put(f"jobs/{job}/1/diagnostics.json", [b"{}"])
        s3_blobs.put(manifest_key(job), [json.dumps({"schema": 1, "phase": phase}).encode()])
    for other in ("uploads/somebody/0000", "models/llama/weights", "notes.txt"):
        s3_blobs.put(other, [b"x"])
    good, bad = ({f"jobs/{job}/{name}" for name in ("1/diagnostics.json", "manifest.json")} for job in ("job-good", "job-bad"))
    others = {"models/llama/weights", "notes.txt"}
    assert (1, 0) == ((first := swept(seaweed, tmp_path, 1))["uploads"], first["blobs"])
    assert (0, 1, 1) == ((second := swept(seaweed, tmp_path, 30))["uploads"], second["blobs"], second["jobs"])
    assert good | bad | others | {log_key("job-bad", 1, 0, 0)} == {info.key for info in s3_blobs.list("")}
    assert 5 == swept(seaweed, tmp_path, 90)["blobs"]
    assert others == {info.key for info in s3_blobs.list("")}
