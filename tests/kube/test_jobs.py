"""Jobs as Kubernetes objects: what is so only there."""

from __future__ import annotations

import base64
import json
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import CoreV1Api

from adapters.k8s import feed, names
from adapters.k8s.client import KubeClient, connect
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.mapping import job_object, job_of, status_form
from adapters.k8s.objects import Objects
from adapters.k8s.workloads import PLURAL, KubeWorkloads
from ports.errors import Conflict, Invalid, Unavailable
from ports.units import Instant, Span
from ports.workloads import FUNDED, SCHEMA, ConditionStatus, Environment, Job, JobFilter, Phase, is_id
from tests.contract.samples import a_full_job, a_job, counted, to_phase
from tests.kube.fixtures import fresh_namespace
from tests.kube.plane import Plane

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=20) | st.sampled_from(["base64:", "base64:eA==", "a=b,c"])


@pytest.fixture
def store(client: KubeClient) -> Iterator[KubeWorkloads]:
    with closing(KubeWorkloads(client)) as made:
        yield made


def stored_form(job: Job) -> dict[str, object]:
    """As the API server would give it: JSON as Go reads it, which knows no half of a surrogate pair."""
    form = job_object(job, "ns")
    text = json.dumps(form, ensure_ascii=False).encode()  # raises on what Go could not take
    found: dict[str, object] = json.loads(text)
    found["metadata"] = {**json.loads(text)["metadata"], "uid": job.uid, "resourceVersion": "7"}
    return found


@given(ANY_TEXT.filter(is_id), ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3), st.integers(-(10**13), 10**14))
def test_any_job_is_read_back_as_it_was(key: str, user: str, name: str, texts: dict[str, str], at: int) -> None:
    """Whatever users type: no character is lost, and no label or name is made of it."""
    full = a_full_job(key)
    spec = evolve(full.spec, user=user, name=name, labels=texts, env=Environment(env_vars=texts))
    job = evolve(full, created_at=Instant(at), spec=spec)
    form = stored_form(job)
    assert evolve(job, version="7") == job_of(form)
    assert evolve(job, version="7") == job_of({**form, "status": status_form(job, 1)})
    labels = form["metadata"]["labels"]  # type: ignore[index]
    assert all(names.digest(value) != value and len(value) == 26 for value in labels.values())


@given(st.lists(ANY_TEXT, min_size=2, max_size=2, unique=True))
def test_no_two_ids_share_a_name(keys: list[str]) -> None:
    """Else one job would be taken for another."""
    assert names.object_name(keys[0]) != names.object_name(keys[1])


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_a_selector_is_made_of_hashes_alone(user: str, name: str, key: str, value: str) -> None:
    """Whatever is asked for, it narrows: a comma, an operator or a bracket in it selects nothing else."""
    term = rf"({names.USER}|{names.NAME}|label\.gridweave\.io/[a-z2-7]{{26}})=[a-z2-7]{{26}}"
    assert re.fullmatch(f"{term},{term},{term}", names.selector(JobFilter(user, labels={key: value}, name=name)))


def test_a_hash_for_a_name_is_no_id_of_another(store: KubeWorkloads) -> None:
    """Whoever names his job as another's hash gets his own."""
    theirs = store.create(a_job("🦉"))
    mine = store.create(a_job(names.object_name("🦉")))
    assert [theirs, mine] == [store.get("🦉"), store.get(names.object_name("🦉"))]


def test_the_schema_version_is_always_written() -> None:
    """A later release must see by which form an object was written, also while it is the first."""
    form = job_object(a_job(), "ns")
    assert (SCHEMA, SCHEMA) == (form["spec"]["schemaVersion"], status_form(a_job(), 1)["schemaVersion"])


def test_an_object_of_a_newer_release_is_not_guessed_at(store: KubeWorkloads, client: KubeClient) -> None:
    """What its fields mean is not known here."""
    form = job_object(evolve(a_job("job-1"), schema=SCHEMA + 1), client.namespace)
    Objects(client, PLURAL).create("job-1", form)
    with pytest.raises(Unavailable, match="newer release"):
        store.get("job-1")


@pytest.mark.parametrize("size", [1_000_000, 2_000_000, 20_000_000])
def test_an_object_that_is_too_large_is_refused_before_it_is_sent(store: KubeWorkloads, size: int) -> None:
    """With its size and what to do about it."""
    job = a_job("job-1")
    large = evolve(job, spec=evolve(job.spec, env=Environment(env_vars={"DATA": "x" * size})))
    with pytest.raises(Invalid, match="bytes"):
        store.create(large)
    assert store.get("job-1") is None


def test_the_largest_that_is_taken_is_stored_and_can_end(store: KubeWorkloads) -> None:
    """A job that was accepted must not get stuck because its status finds no room."""
    job = a_job("job-1")
    made = store.create(evolve(job, spec=evolve(job.spec, env=Environment(env_vars={"DATA": "x" * 890_000}))))
    closing_ = to_phase(made, Phase.CLOSING)
    ended = store.replace(evolve(closing_, status=evolve(closing_.status, message="y" * 200_000)))
    assert ended == store.get("job-1")


def test_a_job_made_by_hand_waits_for_its_funding(store: KubeWorkloads, client: KubeClient) -> None:
    """It must not run for nothing because its author knew no status."""
    form = job_object(a_job("job-1"), client.namespace)
    form["metadata"] = {"name": "job-1"}
    del form["spec"]["createdAt"]
    Objects(client, PLURAL).create("job-1", form)
    job = store.get("job-1")
    assert job is not None
    found = job.status.condition(FUNDED)
    assert found is not None
    assert ConditionStatus.UNKNOWN is found.status
    assert ["job-1"] == [each.id for each in store.list(JobFilter(phases=frozenset({Phase.PENDING}))).jobs]


# ---------------------------------------------------------------- deletion


def test_a_deleted_object_reads_as_cancelled_until_it_is_settled(store: KubeWorkloads, plane: Plane, client: KubeClient) -> None:
    """`kubectl delete` on a running job: its VRAM is freed and its time charged first."""
    job = store.replace(to_phase(store.create(a_job("job-1")), Phase.ALLOCATED))
    job = store.replace(to_phase(job, Phase.RUNNING))
    cursor = store.changes("").cursor
    assert 0 == plane.kubectl("delete", "gwj", "job-1", "--wait=false", namespace=client.namespace).returncode
    (told,) = store.changes(cursor, Span.of(seconds=30)).jobs
    assert told.status.cancel is not None
    closing_ = store.replace(to_phase(told, Phase.CLOSING))
    assert store.get("job-1") == closing_
    store.replace(to_phase(closing_, Phase.CANCELLED))
    assert store.get("job-1") is None


def test_a_job_that_has_ended_goes_at_once(store: KubeWorkloads, plane: Plane, client: KubeClient) -> None:
    """Whoever follows changes lets it go."""
    job = store.replace(to_phase(store.create(a_job("job-1")), Phase.CLOSING))
    store.replace(to_phase(job, Phase.COMPLETED))
    store.changes("")
    assert 0 == plane.kubectl("delete", "gwj", "job-1", "--timeout=60s", namespace=client.namespace).returncode
    assert store.get("job-1") is None


def test_a_job_deleted_while_nobody_looked_goes_in_the_end(plane: Plane, client: KubeClient) -> None:
    """A finalizer that only an event takes off would stay for ever."""
    with closing(KubeWorkloads(client)) as store:
        job = store.replace(to_phase(store.create(a_job("job-1")), Phase.CLOSING))
        store.replace(to_phase(job, Phase.COMPLETED))
    assert 0 == plane.kubectl("delete", "gwj", "job-1", "--wait=false", namespace=client.namespace).returncode
    with closing(KubeWorkloads(client)) as store:
        store.changes("")
        gone = plane.kubectl("wait", "--for=delete", "gwj/job-1", "--timeout=60s", namespace=client.namespace)
        assert 0 == gone.returncode, gone.stderr


def test_an_object_made_anew_is_another_workload(store: KubeWorkloads) -> None:
    """Other uid, so another hold and another charge; a writer of the old one is refused."""
    old = store.create(a_job("job-1"))
    store.delete(old)
    new = store.create(a_job("job-1"))
    assert old.uid != new.uid
    with pytest.raises(Conflict):
        store.replace(counted(old))


# ---------------------------------------------------------------- lists and watches


def test_a_page_asks_for_no_more_than_a_page(store: KubeWorkloads, client: KubeClient) -> None:
    """What is held while listing is bounded by the page, however many jobs there are."""
    for number in range(12):
        store.create(a_job(f"job-{number:02}", at=-number))
    sizes: list[int] = []

    class Counting(Objects):
        def page(self, labels: str, fields: str, token: str, limit: int = 0) -> dict[str, object]:
            found = super().page(labels, fields, token, limit)
            sizes.append(len(found["items"]))
            return found

    small = KubeWorkloads(client)
    small._objects = Counting(client, PLURAL, 5)
    assert ["job-11", "job-10", "job-09"] == [job.id for job in small.list(limit=3).jobs]
    assert [5, 5, 2] == sizes


def test_the_memory_of_a_list_is_bounded_by_the_page(client: KubeClient) -> None:
    """`gridweave ps` of a house with ten thousand jobs must not be what ends a gateway."""
    with closing(KubeWorkloads(client, page=20)) as store, ThreadPoolExecutor(8) as pool:

        def create(number: int) -> Job:
            job = a_job(f"job-{number:04}", at=number)
            return store.create(evolve(job, spec=evolve(job.spec, env=Environment(env_vars={"DATA": "x" * 4_000}))))

        peaks = []
        for numbers in (range(60), range(60, 480)):
            list(pool.map(create, numbers))
            peaks.append(min(peak(lambda: store.list(limit=5)) for _ in range(3)))
        assert peaks[1] < peaks[0] * 1.5  # of eight times as many


def peak(act: Callable[[], object]) -> int:
    """Bytes that it holds at most."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bookmark_moves_a_quiet_follower_on(client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who follows a kind that nobody changes would come back with a version that the server has forgotten."""
    monkeypatch.setattr(feed, "CONNECTION_S", (4, 5))
    with closing(KubeWorkloads(client)) as store:
        cursor = store.changes("").cursor
        made = store.create(a_job("job-1"))
        assert [made] == list(store.changes(cursor, Span(10_000)).jobs)
        for number in range(3):
            KubeEpochs(client).raise_to(number + 1, number)
        for _ in range(300):
            if store.feed._at > int(made.version):
                break
            store.feed.now()
            time.sleep(0.1)
        assert store.feed._at > int(made.version)
        other = store.create(a_job("job-2"))
        assert [other] == list(store.changes(made.version, Span(10_000)).jobs)


@pytest.fixture
def own_client(own_plane: Plane) -> Iterator[KubeClient]:
    config = str(own_plane.kubeconfig())
    with closing(connect(kubeconfig=config)) as admin:
        namespace = fresh_namespace(CoreV1Api(admin.api))
    with closing(connect(namespace, config)) as made:
        yield made


def test_a_list_whose_token_expires_begins_anew(own_plane: Plane, own_client: KubeClient) -> None:
    """Half an old list and half a new one would be no list at all."""
    store = KubeWorkloads(own_client)
    for number in range(6):
        store.create(a_job(f"job-{number}", at=number))
    compact(own_plane)
    wrong = iter([False, True, False])
    tokens: list[str] = []

    class Forgetful(Objects):
        def page(self, labels: str, fields: str, token: str, limit: int = 0) -> dict[str, object]:
            tokens.append(token)
            return super().page(labels, fields, aged(token) if token and next(wrong, False) else token, limit)

    store._objects = Forgetful(own_client, PLURAL, 2)
    assert [f"job-{number}" for number in range(6)] == [job.id for job in store.list().jobs]
    assert 2 == tokens.count("")


def aged(token: str) -> str:
    """The same, of a moment that etcd has forgotten; the API server answers 410 to it."""
    inner = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps({**inner, "rv": 1}).encode()).decode().rstrip("=")


def compact(plane: Plane) -> None:
    """Make etcd forget all but now, through its JSON gateway."""
    with httpx.Client(base_url=f"http://127.0.0.1:{plane.etcd_port}/v3", timeout=20, trust_env=False) as etcd:
        now = etcd.post("/kv/range", json={"key": "AA=="}).json()["header"]["revision"]
        etcd.post("/kv/compaction", json={"revision": now, "physical": True}).raise_for_status()


def test_a_follower_survives_an_api_server_that_restarts_and_forgets(own_plane: Plane, own_client: KubeClient) -> None:
    """No change is lost: away is Unavailable, and what it can't tell any more (410) is told as everything there is."""
    with closing(KubeWorkloads(own_client)) as store:
        kept, gone = store.create(a_job("kept")), store.create(a_job("gone"))
        cursor = store.changes("").cursor
        own_plane.stop("kube-apiserver")
        away: list[Callable[[], object]] = [
            lambda: store.create(a_job("lost")),
            lambda: store.get("kept"),
            store.list,
            lambda: store.replace(counted(kept)),
            lambda: store.delete(gone),
        ]
        for call in away:
            with pytest.raises(Unavailable):
                call()
        own_plane.start_api()
        with closing(KubeWorkloads(own_client)) as other:
            other.delete(gone)
            for _ in range(5):
                kept = other.replace(counted(kept))
        compact(own_plane)
        own_plane.stop("kube-apiserver")
        own_plane.start_api()
        assert {"kept": kept} == followed(store, cursor, kept)


def followed(store: KubeWorkloads, cursor: str, newest: Job) -> dict[str, Job]:
    """A mirror from that cursor on, once it has seen that state; a bounded number of looks."""
    mirror: dict[str, Job] = {}
    for _ in range(200):
        try:
            found = store.changes(cursor, Span(500))
        except Unavailable:
            time.sleep(0.1)
            continue
        cursor = found.cursor
        mirror = {**({} if found.whole else mirror), **{job.id: job for job in found.jobs}}
        for key in found.deleted:
            mirror.pop(key, None)
        if mirror.get(newest.id) == newest:
            break
    return mirror
