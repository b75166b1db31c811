"""Submit, estimate, list, status and cancel over HTTP."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import attrs
import pytest

from core.names import upload_key
from ports import months
from ports.blobs import input_key, log_key
from ports.workloads import Exit, ExitKind, Phase
from tests.unit.http.conftest import ADMIN, ALICE, BOB, Gateway, Make, body, inline

FREE = {"X-User-Id": "fred", "X-User-Plan": "free"}


def test_a_submit_becomes_a_job_that_waits(gateway: Gateway) -> None:
    """The first thing that anybody does with us."""
    answer = gateway.post("/v1/jobs/submit", json=body(labels={"team": "vision"}, env={"pip": ["numpy==2.1"], "env_vars": {"A": "ü\n"}}))
    said = answer.json()
    assert (202, True, "square", "Pending", "0.000000") == (
        answer.status_code,
        said["created"],
        said["name"],
        said["phase"],
        said["hold"],
    )
    assert said["status_url"] == answer.headers["location"]
    gateway.look()
    status = gateway.get(said["status_url"]).json()
    assert (said["id"], "alice", 1, {"team": "vision"}) == (status["id"], status["user"], status["position"], status["labels"])
    stored = gateway.house.workloads.get(said["id"])
    assert stored is not None
    assert {"A": "ü\n"} == stored.spec.env.env_vars
    assert ("3.11.9", "3.0.0") == (stored.spec.python, stored.spec.cloudpickle)


def test_inline_payloads_are_stored_as_inputs(gateway: Gateway) -> None:
    """A small function must not need a second request."""
    job = gateway.submit(function=inline(b"f" * 65536), code=inline(b""))
    for name, data in (("function", b"f" * 65536), ("args", b"args"), ("code", b"")):
        assert data == b"".join(gateway.house.blobs.get(input_key(job.id, job.uid, name)))


def test_the_same_key_and_body_is_the_same_job(gateway: Gateway) -> None:
    """A client that lost the answer asks again."""
    keyed = ALICE | {"Idempotency-Key": "k-1"}
    first = gateway.post("/v1/jobs/submit", keyed, json=body()).json()
    spaced = gateway.post("/v1/jobs/submit", keyed, json=dict(reversed(list(body().items())))).json()
    assert (True, False, first["id"]) == (first["created"], spaced["created"], spaced["id"])
    other = gateway.post("/v1/jobs/submit", keyed, json=body(vram="9GB"))
    assert (409, "/problems/key-reused") == (other.status_code, other.json()["type"])
    theirs = gateway.post("/v1/jobs/submit", BOB | {"Idempotency-Key": "k-1"}, json=body()).json()
    assert theirs["id"] != first["id"]


def test_without_a_key_every_submit_is_another_job(gateway: Gateway) -> None:
    """map() sends the same body many times and means it."""
    assert gateway.submit().id != gateway.submit().id


def test_a_drawn_key_is_never_a_clients_key(gateway: Gateway) -> None:
    """A client must not be able to repeat a key that we drew for somebody's request without one."""
    job = gateway.submit()
    repeated = [gateway.post("/v1/jobs/submit", ALICE | {"Idempotency-Key": f"t:{n}"}, json=body()).json()["id"] for n in range(3)]
    assert job.id not in repeated


def test_an_ask_that_no_gpu_could_hold_is_refused_with_the_largest(gateway: Gateway) -> None:
    """The user learns at once what would fit, and nothing of his is kept."""
    answer = gateway.post("/v1/jobs/submit", json=body(vram="81GB"))
    problem = answer.json()
    assert (422, "/problems/never-fits", 80 * 1024, "vram") == (
        answer.status_code,
        problem["type"],
        problem["largest_mib"],
        problem["field"],
    )
    assert [] == list(gateway.house.blobs.list(""))


def test_other_versions_are_refused_with_both(gateway: Gateway) -> None:
    """A pickle of another Python would fail on the node, in words that nobody understands."""
    answer = gateway.post("/v1/jobs/submit", json=body(client={"python": "3.12.1", "cloudpickle": "3.1.2"}))
    problem = answer.json()
    assert (409, "/problems/version-mismatch", "Python 3.12.1", "Python 3.11.7") == (
        answer.status_code,
        problem["type"],
        problem["client"],
        problem["cluster"],
    )
    assert [] == list(gateway.house.blobs.list(""))


def test_an_upload_of_another_is_not_there(gateway: Gateway) -> None:
    """Knowing a digest is no right to its bytes."""
    data = b"secret of bob"
    digest = hashlib.sha256(data).hexdigest()
    gateway.house.blobs.put(upload_key("bob", digest), [data])
    answer = gateway.post("/v1/jobs/submit", json=body(function={"sha256": digest, "size": len(data)}))
    assert (400, "function") == (answer.status_code, answer.json()["field"])
    assert 202 == gateway.post("/v1/jobs/submit", BOB, json=body(function={"sha256": digest, "size": len(data)})).status_code


def test_want_of_money_is_402_with_the_amounts(make: Make) -> None:
    """The user must know how much is missing."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 7)
    answer = gateway.post("/v1/jobs/submit", json=body())
    problem = answer.json()
    assert (402, "8.000000", "7.000000") == (answer.status_code, problem["need"], problem["have"])
    gateway.pay("alice", 1)
    said = gateway.post("/v1/jobs/submit", json=body()).json()
    assert ("8.000000", "8.000000") == (said["hold"], said["rate_per_hour"])


def test_an_estimate_tells_price_and_place_and_writes_nothing(make: Make) -> None:
    """Users ask before they spend."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    said = gateway.post("/v1/jobs/estimate", json={"vram": 16}).json()
    assert ("16.000000", "16.000000", "20.000000", True, True) == tuple(
        said[name] for name in ("rate_per_hour", "hold", "balance", "affordable", "placeable_now")
    )
    assert [{"node": "n1", "gpu": 0, "mib": 16384, "model": "A100-80GB", "owner": "org"}] == said["placement"]
    dear = gateway.post("/v1/jobs/estimate", json={"vram": "40GB"}).json()
    assert (False, True) == (dear["affordable"], dear["placeable_now"])
    assert () == gateway.house.workloads.list().jobs


def test_an_estimate_says_why_it_would_not_be_placed(gateway: Gateway) -> None:
    """ "No" without a reason is no answer."""
    job = gateway.submit(vram="80GB")
    gateway.start(job)
    said = gateway.post("/v1/jobs/estimate", json={"vram": 80, "gpus": 2}).json()
    assert (False, []) == (said["placeable_now"], said["placement"])
    assert said["reason"]


def test_lists_are_newest_first_in_pages_and_filtered(gateway: Gateway) -> None:
    """`gridweave ps` of somebody with ten thousand jobs."""
    ids = [gateway.submit(name=f"job-{n}", labels={"n": str(n % 2)}).id for n in range(5)]
    gateway.submit(BOB)
    seen: list[str] = []
    cursor = ""
    while True:
        page = gateway.get("/v1/jobs", params={"limit": 2, "cursor": cursor}).json()
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert ids[::-1] == seen
    odd = gateway.get("/v1/jobs", params={"label": "n=1", "phase": "Pending,Running"}).json()["jobs"]
    assert [ids[3], ids[1]] == [job["id"] for job in odd]
    assert [ids[2]] == [job["id"] for job in gateway.get("/v1/jobs", params={"name": "job-2"}).json()["jobs"]]
    assert [] == gateway.get("/v1/jobs", params={"phase": "Failed"}).json()["jobs"]


def test_a_list_leaves_long_texts_to_status(gateway: Gateway) -> None:
    """A page of a thousand tracebacks would be hundreds of megabytes."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, None, log=b"boom\n")
    (listed,) = gateway.get("/v1/jobs").json()["jobs"]
    status = gateway.get(f"/v1/jobs/{job.id}/status").json()
    assert ("", "boom\n", "SIGKILL") == (listed["exit"]["log_tail"], status["exit"]["log_tail"], listed["exit"]["signal"])


def test_a_text_that_is_no_utf_8_is_shown_escaped(gateway: Gateway) -> None:
    """One exception about one file name would hide all jobs behind it."""
    job = gateway.submit()
    gateway.start(job)
    done = gateway.finish(job, b"pickled", raised=True)
    run = done.status.run
    assert run is not None
    said = attrs.evolve(run.exit or Exit(ExitKind.RAISED), kind=ExitKind.RAISED, message="ValueError: cannot read c\udce9.t")
    gateway.change(job, lambda status: status.with_run(attrs.evolve(run, exit=said)))
    gateway.look()
    status = gateway.get(f"/v1/jobs/{job.id}/status")
    assert (200, "ValueError: cannot read c\\udce9.t") == (status.status_code, status.json()["exit"]["message"])
    assert [job.id] == [each["id"] for each in gateway.get("/v1/jobs").json()["jobs"]]


def test_only_an_admin_lists_the_jobs_of_others(gateway: Gateway) -> None:
    """Names and labels tell what somebody works on."""
    mine, theirs = gateway.submit(), gateway.submit(BOB)
    admin = {"Authorization": f"Bearer {ADMIN}"}
    assert 403 == gateway.get("/v1/jobs?user=bob").status_code
    assert [mine.id] == [job["id"] for job in gateway.get("/v1/jobs?user=alice").json()["jobs"]]
    everybodys = gateway.get("/v1/jobs", admin).json()
    assert {(mine.id, "alice"), (theirs.id, "bob")} == {(job["id"], job["user"]) for job in everybodys["jobs"]}
    told = [gateway.get(path, headers).json()["all_users"] for path, headers in (("/v1/jobs", admin), ("/v1/jobs?user=bob", admin))]
    assert ([True, False], False) == (told, gateway.get("/v1/jobs").json()["all_users"])
    assert [theirs.id] == [job["id"] for job in gateway.get("/v1/jobs?user=bob", admin).json()["jobs"]]


@pytest.mark.parametrize(
    ("method", "what"), [("GET", "status"), ("GET", "logs"), ("GET", "logs?follow=true"), ("GET", "result"), ("POST", "cancel")]
)
def test_another_users_job_does_not_exist(gateway: Gateway, method: str, what: str) -> None:
    """403 would tell that it does. The answer is the same as for an id that was never given."""
    job = gateway.submit()
    foreign = gateway.request(method, f"/v1/jobs/{job.id}/{what}", BOB)
    unknown = gateway.request(method, f"/v1/jobs/job-unknown/{what}", BOB)
    assert (404, unknown.text.replace("job-unknown", job.id)) == (foreign.status_code, foreign.text)
    assert gateway.request(method, f"/v1/jobs/{job.id}/{what.partition('?')[0]}", {"Authorization": f"Bearer {ADMIN}"}).status_code < 300
    assert 401 == gateway.request(method, f"/v1/jobs/{job.id}/{what}", {}).status_code


def test_status_tells_where_it_runs_and_what_it_costs(gateway: Gateway) -> None:
    """What `gridweave ps` and the bill are checked against."""
    job = gateway.submit()
    gateway.start(job)
    said: dict[str, Any] = gateway.get(f"/v1/jobs/{job.id}/status").json()
    assert ("Running", 1, "8.000000", 1, 0) == tuple(said[name] for name in ("phase", "attempt", "rate_per_hour", "tariff", "position"))
    assert [{"node": "n1", "gpu": 0, "mib": 8192, "model": "A100-80GB", "owner": "org"}] == said["placement"]
    assert said["started_at"].endswith("Z")
    assert said["finished_at"] is None


def test_cancel_flags_and_says_so_again(gateway: Gateway) -> None:
    """Cancel is a wish; what follows is the scheduler's. Asking twice is asking once."""
    job = gateway.submit()
    first = gateway.post(f"/v1/jobs/{job.id}/cancel")
    again = gateway.post(f"/v1/jobs/{job.id}/cancel")
    assert (202, 202) == (first.status_code, again.status_code)
    assert first.json()["cancel_requested_at"]
    assert first.json()["cancel_requested_at"] == again.json()["cancel_requested_at"]
    stored = gateway.house.workloads.get(job.id)
    assert stored is not None
    assert Phase.PENDING is stored.status.phase


def test_a_free_user_may_ask_for_org_hardware_only(gateway: Gateway) -> None:
    """Asked for by name or not, provider hardware is for those who pay."""
    answer = gateway.post("/v1/jobs/submit", FREE, json=body(owner="provider"))
    assert answer.status_code in (400, 403)
    assert "plan" in answer.text
    assert 202 == gateway.post("/v1/jobs/submit", FREE, json=body(owner="org")).status_code


def test_a_content_type_with_a_charset_is_taken(gateway: Gateway) -> None:
    """Clients add it."""
    kind = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert 200 == gateway.post("/v1/jobs/estimate", ALICE | kind, content=b'{"vram": 0.5}').status_code


def test_a_job_that_is_not_there_is_named(gateway: Gateway) -> None:
    """A script that looked at ten must tell which one is missing."""
    problem = gateway.get("/v1/jobs/job-that-never-was/status").json()
    assert ("id", "job-that-never-was") == (problem["field"], problem["value"])
    assert "'job-that-never-was'" in problem["detail"]


def test_a_job_that_is_asked_to_end_says_so_until_it_has_ended(gateway: Gateway) -> None:
    """A process may take its time to obey, and its user would ask again and again."""
    job = gateway.submit()
    gateway.start(job)
    said = gateway.post(f"/v1/jobs/{job.id}/cancel").json()
    assert ("Running", "Cancelling") == (said["phase"], said["reason"])
    assert "processes" in said["message"]
    gateway.finish(job, None, outcome=Phase.CANCELLED)
    ended = gateway.get(f"/v1/jobs/{job.id}/status").json()
    assert ("Cancelled", "Signalled", "") == tuple(ended[name] for name in ("phase", "reason", "message"))


def test_every_waiting_job_says_what_it_waits_for(gateway: Gateway) -> None:
    """In status, in lists and in what a follower sees."""
    gateway.start(gateway.submit(vram="80GB"))
    first, second = gateway.submit(vram="80GB", gpus=2), gateway.submit(vram="80GB", gpus=2)
    texts = [gateway.get(f"/v1/jobs/{job.id}/status").json()["waiting"] for job in (first, second)]
    assert "Needs 2 GPUs of one node with 81920 MiB free each; the best node, n1, has 1." == texts[0]
    assert "Waits for its turn: 1 earlier job waits for the same GPUs." == texts[1]
    listed = {job["id"]: job["waiting"] for job in gateway.get("/v1/jobs", params={"phase": "Pending"}).json()["jobs"]}
    assert dict(zip((first.id, second.id), texts, strict=True)) == listed
    estimate = gateway.post("/v1/jobs/estimate", json={"vram": 80, "gpus": 2}).json()
    assert texts[0] == estimate["reason"]


def test_before_any_node_has_joined_an_estimate_says_that(make: Make) -> None:
    """ "No room" on an empty cluster sends people to look for who is using it."""
    estimate = make().post("/v1/jobs/estimate", json={"vram": 1}).json()
    assert (False, "No node has joined yet.") == (estimate["placeable_now"], estimate["reason"])


def test_an_unknown_model_is_answered_with_those_there_are(gateway: Gateway) -> None:
    """`--gpu A100` is what everybody types first."""
    problem = gateway.post("/v1/jobs/submit", json=body(gpu="A100")).json()
    assert ("/problems/never-fits", "gpu", 0) == tuple(problem[name] for name in ("type", "field", "largest_mib"))
    assert "Did you mean A100-80GB?" in problem["remedy"]


def test_status_says_what_a_job_may_cost_and_when_its_money_ends(make: Make) -> None:
    """Whoever sees it in time tops up, or lets it end."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 80)
    job = gateway.submit(vram="8GB", max_cost="2.5")
    assert ("2.500000", None) == tuple(gateway.get(f"/v1/jobs/{job.id}/status").json()[name] for name in ("cap", "money_ends_at"))
    gateway.start(job)
    said = gateway.get(f"/v1/jobs/{job.id}/status").json()
    now = gateway.house.clock.now()
    ends = months.instant(datetime.fromisoformat(said["money_ends_at"]))
    assert abs((ends - now).ms - 2.5 / 8 * 3_600_000) < 60_000, "by its cap, at 8 credits per hour"
    gateway.money.close()
    assert said["money_ends_at"][:16] == gateway.get(f"/v1/jobs/{job.id}/status").json()["money_ends_at"][:16], "the cap is known anyway"


def test_the_log_of_a_job_made_anew_is_its_own(make: Make) -> None:
    """Its run has the name of its predecessor's, which the gateway has read before."""
    gateway = make()
    gateway.node("n1", ("A100-80GB", 80))
    for chunks in ([b"one\n"], [b"two\n", b"three\n"]):
        job = gateway.submit({**ALICE, "Idempotency-Key": "again"})
        gateway.start(job)
        for n, chunk in enumerate(chunks):
            gateway.house.blobs.put(log_key(job.id, 1, 0, n), [chunk])
        gateway.finish(job, b"done")
        gateway.look()
        assert b"".join(chunks) == gateway.get(f"/v1/jobs/{job.id}/logs").content
        stored = gateway.house.workloads.get(job.id)
        assert stored is not None
        gateway.house.workloads.delete(stored)
        gateway.look()
