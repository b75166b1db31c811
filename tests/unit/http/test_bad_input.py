"""Bad input: a problem that names field, value and remedy, and no state left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from core.house import Terms
from ports.workloads import JobFilter
from tests.unit.http.conftest import ALICE, Gateway, body, inline


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One for all: each test checks that it has left nothing."""
    with ExitStack() as opened:
        made = Gateway(tmp_path_factory.mktemp("state"), Terms(), {}, opened)
        made.node("n1", ("A100-80GB", 80))
        yield made


JSON = {"Content-Type": "application/json"}


def refused(gateway: Gateway, status: int, content: bytes, field: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Sends a submit, and checks that it was refused as it should be and left nothing."""
    answer = gateway.post("/v1/jobs/submit", ALICE | (JSON if headers is None else headers), content=content)
    assert (status, "application/problem+json") == (answer.status_code, answer.headers["content-type"]), answer.text
    problem: dict[str, Any] = answer.json()
    assert field == problem["field"]
    assert problem["detail"]
    assert problem["remedy"]
    assert () == gateway.house.workloads.list(JobFilter()).jobs
    assert [] == list(gateway.house.blobs.list("uploads/"))
    return problem


def changed(**changes: Any) -> bytes:
    return json.dumps(body(**changes)).encode()


def literal(name: str, text: str) -> bytes:
    """A submit in which a field's value is that very JSON text."""
    return json.dumps(body(**{name: "@@"})).replace('"@@"', text).encode()


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-8", "NaN", "Infinity", "-Infinity", "1e308", "1e999999999", "0.0001", "99999999999999999999", "1" + "0" * 400),
        *('"8 bananas"', '"0GB"', '"NaN"', '"1.00001GB"', '"8 GB GB"', '"٨GB"', "true", "[]", "{}"),
    ],
)
def test_an_amount_of_vram_that_is_none_is_refused(gateway: Gateway, text: str) -> None:
    """A wrong amount that got through would book a wrong share, or the whole fleet."""
    problem = refused(gateway, 400, literal("vram", text), "vram")
    assert problem["value"]


@pytest.mark.parametrize("text", ["0", "-1", "10000", "1.5", '"2"', "true", "null", "NaN", "1e3"])
def test_a_number_of_gpus_that_is_none_is_refused(gateway: Gateway, text: str) -> None:
    """true is 1 to Python, and would book a GPU."""
    refused(gateway, 400, literal("gpus", text), "gpus")


@pytest.mark.parametrize("text", ["0", "-1", "NaN", "Infinity", "1e308", "9999", '"1"', "false"])
def test_a_bound_on_hours_that_is_none_is_refused(gateway: Gateway, text: str) -> None:
    """A job bounded by NaN would never end."""
    refused(gateway, 400, literal("max_hours", text), "max_hours")


@pytest.mark.parametrize("text", ["0", "-1", "NaN", "Infinity", "1e308", "0.0000001", '"$5"', '"5 EUR"', '""', "false", "[]"])
def test_a_cap_that_is_no_amount_is_refused(gateway: Gateway, text: str) -> None:
    """A job bounded by NaN would cost whatever it costs."""
    refused(gateway, 400, literal("max_cost", text), "max_cost")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gpuz": 1}, "gpuz"),
        ({"env": {"conda": ["x"]}}, "env.conda"),
        ({"client": {"python": "3.11.1", "cloudpickle": "3.1", "os": "linux"}}, "client.os"),
        ({"function": {"sha256": "a" * 64, "size": 1, "md5": ""}}, "function.md5"),
    ],
)
def test_unknown_fields_are_refused(gateway: Gateway, changes: dict[str, Any], field: str) -> None:
    """A misspelt bound that is ignored is no bound."""
    problem = refused(gateway, 400, changed(**changes), field)
    assert "The fields are: " in problem["remedy"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"function": None}, "function"),
        ({"client": None}, "client"),
        ({"vram": None}, "vram"),
        ({"client": {"python": "3.11.1"}}, "client.cloudpickle"),
        ({"client": "3.11"}, "client"),
        ({"function": {}}, "function"),
        ({"function": {"sha256": "a" * 64}}, "function"),
        ({"function": {"sha256": "A" * 64, "size": 1}}, "function.sha256"),
        ({"function": {"sha256": "a" * 64, "size": -1}}, "function.size"),
        ({"function": {"sha256": "a" * 64, "size": 512 * 1024 * 1024 + 1}}, "function.size"),
        ({"function": {"sha256": "a" * 64, "size": 1, "inline": ""}}, "function"),
        ({"function": {"inline": "not base64!"}}, "function.inline"),
        ({"args": {"inline": "YWJj\nYWJj"}}, "args.inline"),
        ({"args": {"inline": "YWJ"}}, "args.inline"),
        ({"args": {"inline": 7}}, "args.inline"),
        ({"args": inline(b"x" * (64 * 1024 + 1))}, "args.inline"),
        ({"gpu": ""}, "gpu"),
        ({"gpu": "A" * 64}, "gpu"),
        ({"owner": "me"}, "owner"),
        ({"owner": "provider:"}, "owner"),
        ({"owner": "provider:a b"}, "owner"),
        ({"exclusive": 1}, "exclusive"),
        ({"exclusive": "true"}, "exclusive"),
    ],
)
def test_missing_and_malformed_fields_are_named(gateway: Gateway, changes: dict[str, Any], field: str) -> None:
    """The user must find the field in what he sent."""
    refused(gateway, 400, changed(**changes), field)


@pytest.mark.parametrize("name", ["", "Square", "my_job", "-a", "a-", "a.b", "a" * 64, "a\n", "a\x00", "ñ", "😀", 7])
def test_names_that_kubernetes_would_refuse_are_refused(gateway: Gateway, name: Any) -> None:
    """The job becomes a Kubernetes object on a cluster, and must not fail there first."""
    refused(gateway, 400, changed(name=name), "name")


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"": "x"}, "labels."),
        ({"-a": "x"}, "labels.-a"),
        ({"a b": "x"}, "labels.a b"),
        ({"a/b/c": "x"}, "labels.a/b/c"),
        ({"a" * 64: "x"}, "labels." + "a" * 64),
        ({"UPPER.example/x": "x"}, "labels.UPPER.example/x"),
        ({"a": "x y"}, "labels.a"),
        ({"a": "x" * 64}, "labels.a"),
        ({"a": "-"}, "labels.a"),
        ({"a": None}, "labels.a"),
        ({"a": 1}, "labels.a"),
        ({"gridweave.io/node": "n1"}, "labels.gridweave.io/node"),
        ({"x.kubernetes.io/y": "z"}, "labels.x.kubernetes.io/y"),
        ([["a", "b"]], "labels"),
        ({f"l{n}": "x" for n in range(65)}, "labels"),
    ],
)
def test_labels_that_kubernetes_would_refuse_are_refused(gateway: Gateway, labels: Any, field: str) -> None:
    """The same, for labels; and our own prefix is not the user's."""
    refused(gateway, 400, changed(labels=labels), field)


@pytest.mark.parametrize(
    ("env", "field"),
    [
        ({"pip": "numpy"}, "env.pip"),
        ({"pip": ["--index-url=http://evil"]}, "env.pip[0]"),
        ({"pip": ["numpy", "-r/etc/passwd"]}, "env.pip[1]"),
        ({"uv": ["numpy\n--pre"]}, "env.uv[0]"),
        ({"uv": [1]}, "env.uv[0]"),
        ({"env_vars": {"GRIDWEAVE_RUN": "x"}}, "env.env_vars.GRIDWEAVE_RUN"),
        ({"env_vars": {"CUDA_VISIBLE_DEVICES": "0"}}, "env.env_vars.CUDA_VISIBLE_DEVICES"),
        ({"env_vars": {"cuda_visible_devices": "0"}}, "env.env_vars.cuda_visible_devices"),
        ({"env_vars": {"RAY_ADDRESS": "x"}}, "env.env_vars.RAY_ADDRESS"),
        ({"env_vars": {"A=B": "x"}}, "env.env_vars.A=B"),
        ({"env_vars": {"A": "x\x00y"}}, "env.env_vars.A"),
        ({"env_vars": {"A": 1}}, "env.env_vars.A"),
        ({"working_dir": "/home/me"}, "env.working_dir"),
        ({"working_dir": {"sha256": "x", "size": 1}}, "env.working_dir.sha256"),
    ],
)
def test_an_environment_key_that_is_not_allowed_is_refused(gateway: Gateway, env: Any, field: str) -> None:
    """What is allowed is a short list; installer options and our own variables are not on it."""
    refused(gateway, 400, changed(env=env), field)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1,2]", b"null", b"7", b'"x"', b"\xff\xfe", b"{'a': 1}", b'{"a":' * 100_000, b'{"vram": ' + b"9" * 5000 + b"}", b"{} {}"],
)
def test_what_is_no_json_object_is_refused(gateway: Gateway, content: bytes) -> None:
    """A parser's own exception is no answer."""
    refused(gateway, 400, content, "body")


def test_a_key_that_comes_twice_is_refused(gateway: Gateway) -> None:
    """Two readers would see two requests."""
    refused(gateway, 400, changed()[:-1] + b', "vram": "1GB"}', "vram")


def test_half_a_surrogate_pair_is_refused(gateway: Gateway) -> None:
    """It can be stored nowhere."""
    refused(gateway, 400, literal("env", '{"env_vars": {"A": "\\ud800"}}'), "env.env_vars.A")
    refused(gateway, 400, literal("labels", '{"a\\ud800": "b"}'), "labels.a\ud800")


def test_a_body_over_the_limit_is_refused_with_and_without_a_length(gateway: Gateway) -> None:
    """A body without a length must not fill our memory."""
    large = b" " * (2 * 1024 * 1024) + changed()
    assert 2 * 1024 * 1024 == refused(gateway, 413, large, "body")["limit"]

    pulled = 0

    async def endless() -> Any:
        nonlocal pulled
        while True:
            pulled += 1
            yield b" " * 65536

    answer = gateway.post("/v1/jobs/submit", ALICE | JSON, content=endless())
    assert 413 == answer.status_code
    assert pulled <= 2 * 1024 * 1024 // 65536 + 2


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""])
def test_a_wrong_content_type_is_refused(gateway: Gateway, kind: str) -> None:
    """A browser's form can't be told from an attack; JSON can't be sent by one."""
    refused(gateway, 415, changed(), "Content-Type", {"Content-Type": kind})


def test_a_compressed_body_is_refused(gateway: Gateway) -> None:
    """A small one could unfold into a large one."""
    refused(gateway, 415, changed(), "Content-Encoding", JSON | {"Content-Encoding": "gzip"})


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/jobs/submit", {"POST", "OPTIONS"}),
        ("DELETE", "/v1/jobs", {"GET", "OPTIONS"}),
        ("PUT", "/v1/jobs/job-a/status", {"GET", "OPTIONS"}),
        ("POST", "/healthz", {"GET", "OPTIONS"}),
        ("PATCH", "/v1/admin/nodes", {"GET", "PUT", "OPTIONS"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(gateway: Gateway, method: str, path: str, allow: set[str]) -> None:
    """405 without Allow leaves the client guessing."""
    answer = gateway.request(method, path)
    assert (405, allow) == (answer.status_code, set(answer.headers["allow"].split(", ")))
    assert method == answer.json()["value"]


IDS = ["", "..", "%2e%2e", "%2E", "a%00b", "a%0ab", "%F0%9F%98%80", "a" * 300, "A", "-a", "a_b", "a b", "%ff", "a;b", "~"]


@pytest.mark.parametrize("job", IDS)
@pytest.mark.parametrize(("method", "what"), [("GET", "status"), ("GET", "logs"), ("GET", "result"), ("POST", "cancel")])
def test_a_job_id_that_is_none_is_refused_on_every_route(gateway: Gateway, method: str, what: str, job: str) -> None:
    """An id becomes a key and a path further down."""
    scope = ("GET" if method == "GET" else "POST", f"/v1/jobs/{job}/{what}")
    status, problem = raw(gateway, *scope)
    assert (400, "id") == (status, problem["field"])
    assert problem["remedy"]


@pytest.mark.parametrize(("method", "what"), [("GET", "status"), ("GET", "logs"), ("GET", "result"), ("POST", "cancel")])
@pytest.mark.parametrize("job", ["job-unknown", "..%2f..%2fetc%2fpasswd", "a/b"])
def test_an_unknown_job_is_not_found(gateway: Gateway, method: str, what: str, job: str) -> None:
    """A path that leads out of the route leads nowhere."""
    assert 404 == raw(gateway, method, f"/v1/jobs/{job}/{what}")[0]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=1e3", "limit"),
        ("/v1/jobs?limit=5&limit=6", "limit"),
        ("/v1/jobs?phase=Sleeping", "phase"),
        ("/v1/jobs?label=x", "label"),
        ("/v1/jobs?colour=red", "colour"),
        ("/v1/jobs?name=a%00b", "name"),
        ("/v1/jobs?name=%ff", "query"),
        ("/v1/jobs?cursor=nonsense", "cursor"),
        ("/v1/jobs/job-a/result?wait=-1", "wait"),
        ("/v1/jobs/job-a/result?wait=301", "wait"),
        ("/v1/jobs/job-a/result?wait=NaN", "wait"),
        ("/v1/jobs/job-a/logs?offset=-1", "offset"),
        ("/v1/jobs/job-a/logs?offset=٣", "offset"),
        ("/v1/usage?after=x", "after"),
    ],
)
def test_a_parameter_that_is_none_is_refused(gateway: Gateway, path: str, field: str) -> None:
    """A misspelt filter that is ignored lists everything."""
    answer = gateway.get(path)
    assert (400, field) == (answer.status_code, answer.json()["field"])


def test_a_query_that_is_no_ascii_is_refused(gateway: Gateway) -> None:
    """The framework would fall over it before any route sees it."""
    status, problem = raw(gateway, "GET", "/v1/jobs", query=b"name=\xff\xfe")
    assert (400, "query") == (status, problem["field"])


def raw(gateway: Gateway, method: str, target: str, query: bytes = b"") -> tuple[int, dict[str, Any]]:
    """A request as a server passes it on, without a client that tidies its path."""
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(target).decode("latin-1"),
        "raw_path": target.encode("latin-1", "replace"),
        "query_string": query,
        "root_path": "",
        "headers": [(b"x-user-id", b"alice")],
        "server": ("gateway", 80),
        "client": ("127.0.0.1", 1),
    }
    gateway.run(gateway.app(scope, receive, send))
    return said[0]["status"], json.loads(said[1]["body"])
