"""Nonsense gets a problem that names field, value and remedy, and leaves nothing behind."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.e2e.rig import Rig, User
from tests.e2e.submits import body

SUBMIT = "/v1/jobs/submit"
OVER_THE_LIMIT = 2 * 1024 * 1024 + 1


def refused(user: User, said: Any, status: int, field: str) -> dict[str, Any]:
    """The problem, once it is one, and nothing came of the request."""
    assert status == said.status_code, said.text
    assert "application/problem+json" == said.headers["content-type"]
    problem: dict[str, Any] = said.json()
    assert field == problem["field"]
    assert all(problem[name] for name in ("type", "title", "detail", "remedy"))
    assert [] == list(user.client.jobs())
    assert "0.000000" == user.client.account()["held"]
    return problem


NO_AMOUNTS = [0, -1, "0GB", "-8GB", "8 bananas", "", "GB", 1e308, "1e308", 0.0001, "8.00001GB", True, None, [], {}, "8GB; DROP", "\uff18GB"]


@pytest.mark.parametrize("vram", NO_AMOUNTS, ids=repr)
def test_an_amount_of_vram_that_is_none_is_refused(rig: Rig, vram: Any) -> None:
    """It would be rounded to something that nobody asked for."""
    user = rig.user()
    problem = refused(user, user.direct.post(SUBMIT, json=body(vram=vram)), 400, "vram")
    assert problem.get("value") or vram == ""


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_in_json_are_refused(rig: Rig, number: str) -> None:
    """Python's own parser takes them."""
    user = rig.user()
    text = json.dumps(body(vram="HERE")).replace('"HERE"', number)
    refused(user, user.direct.post(SUBMIT, content=text, headers={"Content-Type": "application/json"}), 400, "vram")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpus": 0}, "gpus"),
        ({"gpus": 10_000}, "gpus"),
        ({"gpus": 1.5}, "gpus"),
        ({"gpus": "1"}, "gpus"),
        ({"colour": "red"}, "colour"),
        ({"env": {"conda": ["x"]}}, "env.conda"),
        ({"env": {"pip": "numpy"}}, "env.pip"),
        ({"env": {"pip": ["--index-url=http://evil"]}}, "env.pip[0]"),
        ({"env": {"env_vars": {"CUDA_VISIBLE_DEVICES": "0"}}}, "env.env_vars.CUDA_VISIBLE_DEVICES"),
        ({"env": {"env_vars": {"RAY_ADDRESS": "x"}}}, "env.env_vars.RAY_ADDRESS"),
        ({"env": {"env_vars": {"A=B": "x"}}}, "env.env_vars.A=B"),
        ({"env": {"env_vars": {"A": "\0"}}}, "env.env_vars.A"),
        ({"name": "Square"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": "a/../b"}, "name"),
        ({"name": ""}, "name"),
        ({"labels": {"a b": "c"}}, "labels.a b"),
        ({"labels": {"a": "c d"}}, "labels.a"),
        ({"labels": {"a": "x" * 64}}, "labels.a"),
        ({"labels": {"kubernetes.io/name": "x"}}, "labels.kubernetes.io/name"),
        ({"owner": "everybody"}, "owner"),
        ({"gpu": ""}, "gpu"),
        ({"max_hours": 0}, "max_hours"),
        ({"max_hours": -1}, "max_hours"),
        ({"function": {"inline": "not base64!"}}, "function.inline"),
        ({"function": {"inline": "AAA"}}, "function.inline"),
        ({"function": {}}, "function"),
        ({"function": {"sha256": "0" * 64, "size": 1}}, "function"),
        ({"args": {"sha256": "../../etc/passwd", "size": 1}}, "args.sha256"),
        ({"args": {"sha256": "0" * 64, "size": 2**40}}, "args.size"),
        ({"client": {"python": "three", "cloudpickle": "3.1.1"}}, "client.python"),
        ({"client": None}, "client"),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else "",
)
def test_every_field_is_held_against_its_rules(rig: Rig, change: dict[str, Any], field: str) -> None:
    """What Kubernetes or the node would refuse later is refused now."""
    user = rig.user()
    refused(user, user.direct.post(SUBMIT, json=body(**change)), 400, field)


@pytest.mark.parametrize("missing", ["function", "args", "vram", "client"])
def test_what_is_missing_is_named(rig: Rig, missing: str) -> None:
    """Guessing a default for it would run something else."""
    user, said = rig.user(), body()
    del said[missing]
    refused(user, user.direct.post(SUBMIT, json=said), 400, missing)


NO_OBJECTS = [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"{}{}", b"[" * 100_000, b'{"vram": ' + b"9" * 10_000 + b"}"]


@pytest.mark.parametrize("content", NO_OBJECTS, ids=lambda content: ascii(content[:12]))
def test_what_is_no_json_object_is_refused(rig: Rig, content: bytes) -> None:
    """A parser's own exception is no answer."""
    user = rig.user()
    said = user.direct.post(SUBMIT, content=content, headers={"Content-Type": "application/json"})
    assert 400 == said.status_code, said.text
    assert "application/problem+json" == said.headers["content-type"]
    assert [] == list(user.client.jobs())


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
def test_another_content_type_is_refused(rig: Rig, kind: str) -> None:
    """A form of a foreign page could send one."""
    user = rig.user()
    said = user.direct.post(SUBMIT, content=json.dumps(body()), headers={"Content-Type": kind} if kind else {})
    refused(user, said, 415, "Content-Type")


def test_a_body_over_the_limit_is_refused(rig: Rig) -> None:
    """It would be read into memory."""
    user = rig.user()
    said = user.direct.post(SUBMIT, content=b" " * OVER_THE_LIMIT, headers={"Content-Type": "application/json"})
    assert 413 == said.status_code
    assert OVER_THE_LIMIT - 1 == said.json()["limit"]


def test_a_chunked_body_over_the_limit_is_refused_while_it_still_comes(rig: Rig) -> None:
    """It says no length, and would never end."""
    user, said = rig.user(), b""
    head = {"Host": "gateway", "Content-Type": "application/json", "Transfer-Encoding": "chunked", **user.direct.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items() if name.lower() not in ("connection", "accept-encoding"))
    with socket.create_connection(("127.0.0.1", rig.gateway.port), timeout=30) as line:
        line.sendall(f"POST {SUBMIT} HTTP/1.1\r\n{lines}\r\n".encode())
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(2000):  # 128 MiB, if it is let
                line.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            raise AssertionError("it took all of it")
        try:
            while more := line.recv(65536):
                said += more
        except ConnectionResetError:
            pass
    assert not said or said.startswith(b"HTTP/1.1 413"), said[:300]
    assert 200 == user.direct.get("/healthz").status_code


ODD_IDS = ["..", "%2e%2e", "%00", "a%0ab", "%F0%9F%98%80", "a" * 300, "UPPER", "job_1", "a%2Fb", "-a", "%ff", "job-1%20"]


@pytest.mark.parametrize("odd", ODD_IDS)
@pytest.mark.parametrize("route", ["status", "logs", "logs?follow=true", "result", "cancel"])
def test_an_id_that_can_be_none_is_refused_on_every_route(rig: Rig, odd: str, route: str) -> None:
    """Ids become file names and URLs of other services."""
    user = rig.user()
    said = user.direct.request("POST" if route == "cancel" else "GET", f"/v1/jobs/{odd}/{route}")
    assert said.status_code in (400, 404), said.text
    assert "application/problem+json" == said.headers["content-type"]


def test_an_unknown_id_is_not_found(rig: Rig) -> None:
    """That it could exist does not matter."""
    user = rig.user()
    said = user.direct.get("/v1/jobs/job-22222222222222222222/status")
    assert (404, "/problems/not-found") == (said.status_code, said.json()["type"])


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", SUBMIT, {"POST"}),
        ("DELETE", "/v1/jobs", {"GET"}),
        ("PUT", "/v1/jobs/job-1/cancel", {"POST"}),
        ("POST", "/v1/resources", {"GET"}),
        ("PATCH", "/v1/admin/nodes", {"GET", "PUT"}),
        ("POST", "/healthz", {"GET"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(rig: Rig, method: str, path: str, allow: set[str]) -> None:
    """405 without Allow is a riddle."""
    said = rig.user().direct.request(method, path)
    assert 405 == said.status_code
    assert allow <= {each.strip() for each in said.headers["Allow"].split(",")}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("limit=99999999", "limit"),
        ("phase=Happy", "phase"),
        ("label=x", "label"),
        ("colour=red", "colour"),
        ("limit=1&limit=2", "limit"),
        ("name=%00", "name"),
        ("cursor=nonsense", "cursor"),
    ],
)
def test_a_query_is_read_as_strictly_as_a_body(rig: Rig, query: str, field: str) -> None:
    """A filter that is silently ignored lists the wrong jobs."""
    user = rig.user()
    refused(user, user.direct.get(f"/v1/jobs?{query}"), 400, field)


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_an_idempotency_key_that_cannot_be_kept_is_refused(rig: Rig, key: str) -> None:
    """Half of a key is another key."""
    user = rig.user()
    refused(user, user.direct.post(SUBMIT, json=body(), headers={"Idempotency-Key": key}), 400, "Idempotency-Key")
