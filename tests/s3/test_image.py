"""The image contract: credentials as a pod gets them, and an image that could not get them says so before anything runs on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from uv import find_uv_bin

from runtimes import blob_stores, check_image
from runtimes.settings import WrongSettingsError, load
from tests.canaries import Canaries
from tests.s3.pods import pod_identity_agent
from tests.s3.seaweed import ACCESS_KEY, BUCKET, Seaweed

ROOT = Path(__file__).parents[2]
OLD = ("botocore==1.29.76", "boto3==1.26.76")
ROUND_TRIP = """
import os, sys
from contextlib import closing
from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from adapters.s3.client import connect

with closing(connect(sys.argv[1], attempts=1)) as connection:
    store = S3Blobs(connection, sys.argv[2], SystemClock())
    store.put("by/pod-identity", [b"hello"])
    print(b"".join(store.get("by/pod-identity")).decode())
"""
CREDENTIALS = "import botocore.session; print(botocore.session.get_session().get_credentials().access_key)"


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command as a Dockerfile has it: one file, copied alone."""
    return shutil.copy(str(ROOT / "runtimes" / "check_image.py"), str(tmp_path_factory.mktemp("bin") / "gridweave-check-image"))


def run(python: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As in a pod: of this machine's environment only what a program needs to start."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "GRIDWEAVE_TEST_RUN", "PYTEST_CURRENT_TEST")}
    nowhere = {
        "HOME": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1",
    }
    environment = {**kept, **nowhere, **env}
    done = subprocess.run([python, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120)
    Canaries().search([("output", [done.stdout.encode(), done.stderr.encode()])]).check()
    return done


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an image whose botocore is from before pod identity."""
    folder = tmp_path_factory.mktemp("image") / "venv"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True, timeout=120)
    subprocess.run([uv, "pip", "install", "-q", "--python", str(folder / "bin/python"), *OLD], check=True, timeout=240)
    return str(folder / "bin" / "python")


def test_a_pods_identity_opens_the_bucket(seaweed: Seaweed, tmp_path: Path) -> None:
    """No key is in any setting: the agent of the node gives them to whoever has the pod's token."""
    with pod_identity_agent(tmp_path) as pod:
        done = run(sys.executable, "-c", ROUND_TRIP, seaweed.url, BUCKET, PYTHONPATH=str(ROOT), **pod)
    assert (0, "hello\n") == (done.returncode, done.stdout), done.stderr[-2000:]


def test_without_the_pods_token_there_are_no_keys_and_the_error_says_where_to_look(seaweed: Seaweed, tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    with pod_identity_agent(tmp_path) as pod:
        (tmp_path / "token").write_text("another")
        done = run(sys.executable, "-c", ROUND_TRIP, seaweed.url, BUCKET, PYTHONPATH=str(ROOT), **pod)
    assert 0 != done.returncode
    assert "gridweave-check-image" in done.stderr


def test_an_older_botocore_gets_no_keys_and_the_check_says_so_first(old_python: str, check: str, tmp_path: Path) -> None:
    """It would read like a fault of IAM for days."""
    with pod_identity_agent(tmp_path) as pod:
        here, there = run(sys.executable, "-c", CREDENTIALS, **pod), run(old_python, "-c", CREDENTIALS, **pod)
    assert (0, f"{ACCESS_KEY}\n") == (here.returncode, here.stdout)
    assert 0 != there.returncode
    told = run(old_python, check)
    assert 1 == told.returncode, told.stderr
    said = ("botocore is 1.29.76", "boto3 is 1.26.76", "Pod Identity", "169.254.170.23", "NoCredentialsError", "IAM", "'botocore>=1.32'")
    assert [] == [part for part in said if part not in told.stdout]


def test_this_image_keeps_the_contract(check: str) -> None:
    """The check is worth something only if a good image passes it."""
    done = run(sys.executable, check, "--python", ".".join(map(str, sys.version_info[:2])))
    assert 0 == done.returncode, done.stdout
    assert "This image keeps the contract." in done.stdout
    assert "ray was not compared" in done.stdout


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"python": "3.10.2"}, "Use a base image with Python 3.10"),
        ({"ray": "2.9.0"}, "pip install 'ray==2.9.0'"),
        ({"cloudpickle": "2.2.1"}, "pip install 'cloudpickle==2.*'"),
    ],
)
def test_another_version_than_the_clusters_is_found_with_its_fix(wanted: Mapping[str, str], told: str) -> None:
    """Each looks like something else in production."""
    (found,) = check_image.findings(**wanted)
    assert told in found.fix
    assert "the cluster's is" in found.what
    assert found.seen


def test_a_package_that_is_missing_is_found(old_python: str, check: str) -> None:
    """An import that fails is what a job would meet."""
    told = run(old_python, check, "--ray", "2.60.0", "--cloudpickle", "3.1.2")
    assert "ray can't be imported" in told.stdout
    assert "cloudpickle can't be imported" in told.stdout


def test_a_process_that_would_find_no_keys_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is submitted, and not at the first result."""
    monkeypatch.setitem(check_image.LEAST, "botocore", (99, 0))
    own = {"BLOBS": "s3", "ADMIN_TOKEN": "a" * 16}
    with pytest.raises(WrongSettingsError, match=r"botocore is .*; 99\.0 or newer"):
        blob_stores.check(load({**own, "S3_ACCESS_KEY": "", "S3_SECRET_KEY": ""}).settings)
    blob_stores.check(load({**own, "S3_ACCESS_KEY": "given", "S3_SECRET_KEY": "given"}).settings)
