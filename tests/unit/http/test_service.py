"""Health, readiness, metrics, CORS, papers and problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ports import errors
from runtimes.http import problems, refusals
from runtimes.http.operations import OPERATIONS
from tests.unit.http.conftest import ALICE, Gateway, body

OPEN = ("/", "/healthz", "/readyz", "/version", "/metrics", "/openapi.json", "/docs")


@pytest.mark.parametrize("path", OPEN)
def test_service_routes_need_no_identity_and_no_version(gateway: Gateway, path: str) -> None:
    """Probes and scrapers send none, and an old client must be able to ask what it should upgrade to."""
    for headers in ({}, {"X-SDK-Version": "99.0.0"}, {"X-SDK-Version": "nonsense"}, {"X-User-Role": "king"}):
        assert gateway.get(path, headers).status_code == 200


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if not each.open], ids=lambda each: each.name)
def test_every_other_route_needs_identity_and_a_fitting_client(gateway: Gateway, operation: Any) -> None:
    """A route that forgot would be everybody's."""
    path = operation.path.replace("{id}", "job-a")
    nobody = gateway.request(operation.method.upper(), path, {})
    old = gateway.request(operation.method.upper(), path, ALICE | {"X-SDK-Version": "0.9.0"})
    assert (401, "/problems/unauthenticated") == (nobody.status_code, nobody.json()["type"])
    assert (426, "0.9.0", "1.2.0") == (old.status_code, old.json()["client"], old.json()["server"])


def test_health_does_not_ask_anybody(gateway: Gateway) -> None:
    """Kubernetes would restart a gateway whose store is down, and help nobody."""
    gateway.services.watch.stale = "connection refused"
    assert 200 == gateway.get("/healthz", {}).status_code
    ready = gateway.get("/readyz", {})
    assert (503, False) == (ready.status_code, ready.json()["ready"])
    assert "connection refused" in ready.json()["reasons"][0]
    gateway.services.watch.stale = ""
    gateway.stop()
    assert ["The gateway is stopping."] == gateway.get("/readyz", {}).json()["reasons"]


def test_the_version_is_that_of_the_nodes(gateway: Gateway) -> None:
    """The client compares before it pickles."""
    assert {"server": "1.2.0", "sdk_min": "1.0.0", "python": "3.11.7", "cloudpickle": "3.1.2", "ray": ""} == gateway.get(
        "/version", {}
    ).json()


def samples(gateway: Gateway) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = gateway.get("/metrics", {}).text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_tell_fleet_queue_and_money(gateway: Gateway) -> None:
    """What an operator's dashboard is made of."""
    gateway.start(gateway.submit(vram="30GB"))
    gateway.submit()
    found = samples(gateway)
    gpu = (("gpu", "0"), ("model", "A100-80GB"), ("node", "n1"), ("owner", "org"))
    gib = 1024**3
    assert [80.0 * gib, 30.0 * gib, 50.0 * gib, 0.0] == [
        found[f"gridweave_gpu_vram_{name}_bytes", gpu] for name in ("total", "booked", "free", "quarantined")
    ]
    assert (1.0, 1.0) == (found["gridweave_queue_length", ()], found["gridweave_jobs", (("phase", "Running"),)])
    route = (("method", "POST"), ("route", "/v1/jobs/submit"), ("status", "202"))
    assert 2.0 == found["gridweave_http_request_seconds_count", route]


def test_paths_that_match_no_route_share_one_label(gateway: Gateway) -> None:
    """A scanner must not grow our memory by a series per guess."""
    for n in range(5):
        gateway.get(f"/wp-login-{n}.php")
        gateway.request(f"M{n}", "/v1/jobs")
    names = {dict(labels)["route"] for name, labels in samples(gateway) if name == "gridweave_http_request_seconds_count"}
    assert names <= {"none", "/v1/jobs", "/metrics"}


def test_a_browser_is_answered_before_and_after(gateway: Gateway) -> None:
    """Preflight, our headers exposed, and errors readable by the page too."""
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-sdk-version"}
    before = gateway.request("OPTIONS", "/v1/jobs/submit", asked)
    assert (200, "*", "x-sdk-version") == (
        before.status_code,
        before.headers["access-control-allow-origin"],
        before.headers["access-control-allow-headers"],
    )
    assert "POST" in before.headers["access-control-allow-methods"]
    refused = gateway.get("/v1/jobs", {"Origin": "https://app.example"})
    assert (403, "*") == (refused.status_code, refused.headers["access-control-allow-origin"])
    assert "X-Gridweave-Log-Next" in refused.headers["access-control-expose-headers"]


def test_only_the_listed_origins_are_let_in(make: Any) -> None:
    """CORS_ORIGINS narrows it."""
    gateway = make({"CORS_ORIGINS": "https://app.example"})
    assert "https://app.example" == gateway.get("/healthz", {"Origin": "https://app.example"}).headers["access-control-allow-origin"]
    assert "access-control-allow-origin" not in gateway.get("/healthz", {"Origin": "https://evil.example"}).headers


# ---------------------------------------------------------------- papers


def document(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = gateway.get("/openapi.json", {}).json()
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for each in node.values():
            yield from references(each)
    elif isinstance(node, list):
        for each in node:
            yield from references(each)


def test_the_document_is_whole(gateway: Gateway) -> None:
    """Generators of clients stop at the first loose end."""
    said = document(gateway)
    assert "3.1.0" == said["openapi"]
    for schema in said["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {ref.rpartition("/")[2] for ref in references(said)} <= set(said["components"]["schemas"])
    names = [operation["operationId"] for path in said["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
    for path, operations in said["paths"].items():
        for operation in operations.values():
            inside = {param["name"] for param in operation["parameters"] if param["in"] == "path"}
            assert set(re.findall(r"{(\w+)}", path)) == inside


def test_the_document_lists_every_route_and_no_other(gateway: Gateway) -> None:
    """A route that is not in it can't be found; one that is only there can't be called."""
    said = document(gateway)
    for path, operations in said["paths"].items():
        real = path.replace("{id}", "job-a").replace("{key}", "a")
        allowed = gateway.request("OPTIONS", real, {}).headers["allow"]
        assert {method.upper() for method in operations} | {"OPTIONS"} == set(allowed.split(", ")) | {"OPTIONS"}


def schema_of(gateway: Gateway, name: str) -> jsonschema.Draft202012Validator:
    said = document(gateway)
    return jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": said["components"]})


def test_the_document_and_the_reader_agree_on_what_is_right(gateway: Gateway) -> None:
    """They are made from the same classes, and this would notice if they were not."""
    reader = schema_of(gateway, "SubmitBody")
    reader.validate(body(labels={"a/b": "c"}, env={"pip": ["numpy"], "env_vars": {"A": "b"}}, max_hours=0.5))
    refused: list[dict[str, Any]] = [
        {"gpus": 0},
        {"name": "My Job"},
        {"labels": {"-": "x"}},
        {"nonsense": 1},
        {"function": {}},
        {"max_hours": 0},
    ]
    for wrong in refused:
        assert not reader.is_valid(body(**wrong))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/jobs/{job}/status", "JobView"),
        ("/v1/jobs", "JobList"),
        ("/v1/resources", "Resources"),
        ("/v1/usage", "Usage"),
        ("/v1/account", "AccountView"),
        ("/version", "Versions"),
        ("/readyz", "Readiness"),
        ("/v1/nonsense", "Problem"),
        ("/v1/jobs/_/status", "Problem"),
    ],
)
def test_answers_are_what_the_document_says(gateway: Gateway, path: str, name: str) -> None:
    """Clients are generated from it."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, None, log=b"x")
    schema_of(gateway, name).validate(gateway.get(path.replace("{job}", job.id)).json())


def test_the_front_page_says_where_to_begin(make: Any) -> None:
    """A 404 was the first thing that anybody saw of us."""
    answer = make({"GATEWAY_URL": "https://gpus.example/<b>'&"}).get("/", {})
    assert answer.headers["content-type"].startswith("text/html")
    links = _Links()
    links.feed(answer.text)
    assert {"docs", "metrics", "openapi.json"} <= set(links.found)
    for command in ("export GRIDWEAVE_URL=", "gridweave gpus", "gridweave submit"):
        assert command in answer.text
    assert "<b>" not in answer.text
    assert "gpus.example" in answer.text


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("src", "href")]


def test_the_docs_page_works_offline(gateway: Gateway) -> None:
    """Clusters without a way out have documentation too."""
    answer = gateway.get("/docs", {})
    links = _Links()
    links.feed(answer.text)
    assert ["openapi.json"] == links.found
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


# ---------------------------------------------------------------- problems


def kinds(root: type[Any]) -> Iterator[type[Any]]:
    for each in root.__subclasses__():
        yield each
        yield from kinds(each)


def test_every_refusal_has_a_row_of_its_own(gateway: Gateway) -> None:
    """An error class that nobody mapped would be a 400 that says nothing."""
    internal = {errors.StaleEpoch, errors.AlreadyExists}
    ours = {each for each in kinds(errors.GridweaveError) if each.__module__ in (errors.__name__, refusals.__name__)}
    assert ours - internal - {errors.IllegalTransition} == set(problems.TABLE)


def test_unavailable_is_503_with_retry_after(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients wait that long and lose nothing."""

    def fail(*_: Any) -> None:
        raise errors.Unavailable("the workload store", "timeout", 7)

    monkeypatch.setattr(type(gateway.house.workloads), "get", fail)
    answer = gateway.get("/v1/jobs/job-a/status")
    assert (503, "7", "/problems/unavailable") == (answer.status_code, answer.headers["retry-after"], answer.json()["type"])


def test_what_nobody_expected_is_a_500_with_an_id_and_no_secret(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user gets an id, the operator the story, and neither a stack in the answer."""

    def fail(*_: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(type(gateway.house.workloads), "get", fail)
    answer = gateway.get("/v1/jobs/job-a/status")
    problem = answer.json()
    assert (500, "/problems/internal") == (answer.status_code, problem["type"])
    assert "hunter2" not in answer.text
    assert problem["incident"] in problem["detail"]
    assert problem["incident"] in "".join(capsys.readouterr())


def test_money_in_problems_is_text_with_six_places() -> None:
    """As everywhere in the API."""
    error = errors.CannotAfford("no", need=8_000_000, have=-1)
    kind = problems.kind_of(error)
    assert kind is not None
    said = json.loads(json.dumps(problems.body_of(error, kind)))
    assert ("8.000000", "-0.000001") == (said["need"], said["have"])
    assert "field" not in said
