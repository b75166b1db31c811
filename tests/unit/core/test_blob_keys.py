"""Keys of a job's blobs: any id has a folder, and none reaches into another's."""

from __future__ import annotations

import pytest

from core.manifest import manifest_key
from ports.blob_keys import checked_folder, is_key
from ports.blobs import endpoint_log_key, input_key, job_prefix, log_key, run_prefix

IDS = ["job-a", "job-a/1", "a", "a/1", "..", ".", "", "a b", "x-a", "ä", "\ud800", "a" * 300, "a/../b", "job-a/", "JOB.a_1"]


@pytest.mark.parametrize("job_id", IDS)
def test_any_id_gives_keys_that_a_store_takes(job_id: str) -> None:
    assert run_prefix(job_id, 1) == checked_folder(run_prefix(job_id, 1))
    assert all(
        map(is_key, (input_key(job_id, job_id, "args"), log_key(job_id, 1, 0, 7), manifest_key(job_id), endpoint_log_key(job_id, 7)))
    )


def test_no_id_has_its_folder_in_anothers() -> None:
    """A permission to write below one's own prefix would reach the other's."""
    folders = [job_prefix(job_id) for job_id in IDS]
    assert [] == [(one, other) for one in folders for other in folders if one is not other and one.startswith(other)]


def test_plain_ids_are_read_in_the_bucket_as_they_are() -> None:
    assert "jobs/job-a/1/" == run_prefix("job-a", 1)
