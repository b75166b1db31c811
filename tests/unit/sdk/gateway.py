"""A small gateway that speaks the HTTP contract and really runs each function in a process of its own.

It can be told to misbehave: to answer 503, to break streams and downloads after some bytes, to repeat a piece of the log.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NODE = Path(__file__).with_name("node.py")
SLOT = {"node": "n1", "gpu": 0, "mib": 8192, "model": "A100-80GB", "owner": "org"}


class ProblemError(Exception):
    """Becomes a problem+json answer."""

    def __init__(self, status: int, slug: str, detail: str, headers: dict[str, str] | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}
        self.facts = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": detail, **facts}


class Run:
    """One job: its request and its process."""

    def __init__(self, ident: str, body: dict[str, Any], folder: Path) -> None:
        self.id, self.body, self.folder = ident, body, folder
        self.cancelled = self.stubborn = False  # stubborn: it was cancelled, and goes on
        self.log = folder / "log"
        env = {"PATH": os.environ["PATH"], **body["env"]["env_vars"]}
        with self.log.open("wb") as log:
            command = [sys.executable, "-I", "-u", str(NODE), str(folder)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)

    @property
    def phase(self) -> str:
        if self.process.poll() is None:
            return "Running"
        if self.cancelled:
            return "Cancelled"
        return "Completed" if self.result is not None and self.result.name == "returned" else "Failed"

    @property
    def result(self) -> Path | None:
        return next((path for name in ("returned", "raised") if (path := self.folder / name).exists()), None)

    def exit(self) -> dict[str, Any] | None:
        code = self.process.poll()
        if code is None:
            return None
        kind = "Returned" if self.result else "Signalled" if code < 0 else "Exited"
        name = signal.Signals(-code).name if code < 0 else ""
        tail = self.log.read_text("utf-8", "replace")[-2000:]
        return {"kind": kind, "code": max(code, 0), "signal": name, "oom": False, "message": "", "traceback": "", "log_tail": tail}

    def status(self) -> dict[str, Any]:
        started = "2026-11-29T17:00:00.000Z"
        return {
            "id": self.id,
            "name": self.body["name"],
            "user": "demo",
            "phase": self.phase,
            "reason": "",
            "message": "",
            "waiting": "",
            "position": 0,
            "attempt": 1,
            "created_at": started,
            "started_at": started,
            "finished_at": None,
            "ran_ms": 1500,
            "setup": "",
            "placement": [SLOT],
            "conditions": [],
            "rate_per_hour": "8.000000",
            "tariff": 1,
            "hold": "8.000000",
            "charged": "0.003333",
            "exit": self.exit(),
            "result": None,
            "cancel_requested_at": "2026-11-29T17:00:01.000Z" if self.cancelled or self.stubborn else None,
            "labels": self.body["labels"],
        }


class Gateway:
    """The server, its state, and the ways in which it can misbehave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[str, Run] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.blobs: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.problems: list[ProblemError] = []  # given instead of the next answers to submit
        self.upload_problems: list[ProblemError] = []  # given instead of the next answers to uploads
        self.upload_drops = 0  # uploads whose connection is closed in their middle
        self.upload_pause = 0.0  # seconds before the next uploads are read
        self.uploads_stall = False  # nothing of an upload is read
        self.uploads_drip = False  # they are read a little at a time
        self.drops = 0  # connections closed without an answer, of the next submits, after these were obeyed
        self.break_log_after = 0  # bytes of log per connection; 0: all
        self.break_result_after = 0  # bytes of result per connection; 0: all
        self.etag = ""  # a wrong digest to name with results
        self.most_at_once = 0
        self.account: dict[str, Any] = {}  # what it says of the caller's, beside the usual
        self.credits_for: int | None = None  # jobs that the credits suffice for at once
        self.usage: list[dict[str, Any]] = [USAGE]
        self.users: dict[str, str] = {}  # of jobs that are not demo's
        self.waits: list[dict[str, Any]] = []  # what the stream of a log says of the queue at first
        self.all_users = False  # it lists jobs as for an admin
        self.closed = False
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"gateway": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.closed = True
        for run in self.runs.values():
            if run.process.poll() is None:
                os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def bodies(self) -> list[dict[str, Any]]:
        return [run.body for run in self.runs.values()]

    def submit(self, body: dict[str, Any], key: str) -> tuple[Run, bool]:
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if key in self.keys:
            ident, known = self.keys[key]
            if known != digest:
                raise ProblemError(409, "key-reused", "The key came before with another body.", field="Idempotency-Key")
            return self.runs[ident], False
        if body["vram"] == "900GB":
            facts: dict[str, Any] = {"field": "vram", "value": "900GB", "remedy": "Ask for 80GB or less.", "largest_mib": 81920}
            raise ProblemError(422, "never-fits", "No GPU has 900 GB.", **facts)
        running = sum(run.phase == "Running" for run in self.runs.values())
        if self.credits_for is not None and running >= self.credits_for:
            raise ProblemError(402, "cannot-afford", "This needs 8 credits set aside.", field="credits", need="8", have="1")
        ident = f"job-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
        folder = self.folder / ident
        folder.mkdir()
        for part in ("function", "args", "code"):
            if body[part] is not None:
                (folder / part).write_bytes(self.bytes_of(body[part]))
        if body["env"]["working_dir"]:
            (folder / "working_dir").write_bytes(self.bytes_of(body["env"]["working_dir"]))
        self.keys[key] = (ident, digest)
        self.runs[ident] = Run(ident, body, folder)
        self.most_at_once = max(self.most_at_once, sum(run.phase == "Running" for run in self.runs.values()))
        return self.runs[ident], True

    def bytes_of(self, payload: dict[str, Any]) -> bytes:
        return base64.b64decode(payload["inline"]) if "inline" in payload else self.blobs[payload["sha256"]]

    def cancel(self, run: Run) -> None:
        if run.process.poll() is None:
            run.cancelled = True
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: Gateway

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._route("GET")

    def do_POST(self) -> None:
        self._route("POST")

    def do_PUT(self) -> None:
        self._route("PUT")

    def _route(self, method: str) -> None:
        parts = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        gateway = self.gateway
        if method == "PUT" and not self._uploaded():
            return
        length = int(self.headers.get("Content-Length") or 0)
        data = self._dripping(length) if method == "PUT" and gateway.uploads_drip else self.rfile.read(length)
        if gateway.closed:  # also on a connection that was open before
            self.close_connection = True
            return
        gateway.calls[f"{method} {path[-1] if path[0] == 'v1' else path[0]}"] += 1
        gateway.headers.append(dict(self.headers.items()))
        try:
            match [method, *path]:
                case ["POST", "v1", "uploads"]:
                    wanted = json.loads(data)
                    present = wanted["sha256"] in gateway.blobs
                    place = {} if present else {"method": "PUT", "url": f"/v1/blobs/{wanted['sha256']}?sig=x", "headers": {}}
                    self._json(200 if present else 201, {"present": present, **place})
                case ["PUT", "v1", "blobs", digest]:
                    if gateway.upload_problems:
                        raise gateway.upload_problems.pop(0)
                    if hashlib.sha256(data).hexdigest() != digest:
                        raise ProblemError(400, "invalid", "The digest differs.")
                    gateway.blobs[digest] = data
                    self._json(201, {})
                case ["POST", "v1", "jobs", "submit"]:
                    self._submit(json.loads(data))
                case ["POST", "v1", "jobs", "estimate"]:
                    self._json(200, ESTIMATE)
                case ["GET", "v1", "jobs"]:
                    self._list()
                case [_, "v1", "jobs", ident, what]:
                    if ident not in gateway.runs:
                        raise ProblemError(404, "not-found", "There is no such job.", field="id", value="")
                    self._job(gateway.runs[ident], what)
                case ["GET", "v1", "resources"]:
                    self._json(200, FLEET)
                case ["GET", "v1", "admin", "advice"]:
                    listed = [_advice(self.query["job"], False, [])] if "job" in self.query else ADVICE
                    self._json(200, {"advice": listed, "waiting": len(ADVICE), "movable": 1})
                case ["GET", "v1", "usage"]:
                    self._usage()
                case ["GET", "v1", "statement"]:
                    month = {"account": "user:demo", "opening": "1000.000000", "kinds": {"charge": "-0.051000"}, "closing": "999.949000"}
                    self._json(200, {"month": self.query["month"], "zone": "UTC", "statements": [month]})
                case ["GET", "v1", "account"]:
                    account = {"user": "demo", "plan": "paid", "balance": "999.996667", "held": "8.000000", "credits_enabled": True}
                    account |= self.gateway.account
                    self._json(200, account)
                case ["GET", "version"]:
                    self._json(200, {"server": "0.1.0", "sdk_min": "0.1.0", "python": "3.11", "cloudpickle": "3.1.2", "ray": "2.60.0"})
                case _:
                    raise ProblemError(404, "not-found", "There is no such route.")
        except ProblemError as problem:
            self._json(problem.status, problem.facts, {"Content-Type": "application/problem+json", **problem.headers})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _uploaded(self) -> bool:
        """Whether an upload is to be read."""
        gateway = self.gateway
        time.sleep(gateway.upload_pause)
        while gateway.uploads_stall and not gateway.closed:
            time.sleep(0.02)
        if gateway.upload_drops or gateway.closed:
            gateway.upload_drops -= 1
            self.close_connection = True
            return False
        return True

    def _dripping(self, length: int) -> bytes:
        data = b""
        while len(data) < length and (piece := self.rfile.read(min(1024 * 1024, length - len(data)))):
            data += piece
            time.sleep(0.1)
        return data

    def _submit(self, body: dict[str, Any]) -> None:
        gateway = self.gateway
        with gateway.lock:
            if gateway.problems:
                raise gateway.problems.pop(0)
            run, created = gateway.submit(body, self.headers["Idempotency-Key"])
            if gateway.drops:
                gateway.drops -= 1
                self.close_connection = True
                return
        self._json(202, {"id": run.id, "name": body["name"], "phase": "Pending", "created": created, "hold": "8.000000"})

    def _list(self) -> None:
        runs = list(self.gateway.runs.values())[::-1]
        wanted = self.query.get("phase", "").split(",") if self.query.get("phase") else None
        chosen = [run.status() | {"user": self.gateway.users.get(run.id, "demo")} for run in runs if wanted is None or run.phase in wanted]
        chosen = [job for job in chosen if self.query.get("name") in (None, job["name"])]
        key, _, value = self.query.get("label", "").partition("=")
        chosen = [job for job in chosen if not key or job["labels"].get(key) == value]
        start, limit = int(self.query.get("cursor", 0)), int(self.query.get("limit", 100))
        more = str(start + limit) if len(chosen) > start + limit else ""
        self._json(200, {"jobs": chosen[start : start + limit], "cursor": more, "all_users": self.gateway.all_users})

    def _usage(self) -> None:
        entries = [each for each in self.gateway.usage if each["seq"] > int(self.query.get("after", 0))]
        if self.headers.get("Accept") == "text/csv":
            lines = [USAGE, *([str(value) for value in each.values()] for each in entries)]
            self._bytes(200, "".join(",".join(line) + "\n" for line in lines).encode())
        else:
            self._json(200, {"entries": entries, "cursor": entries[-1]["seq"] if entries else 0})

    def _job(self, run: Run, what: str) -> None:
        if what == "status":
            self._json(200, run.status())
        elif what == "cancel":
            self.gateway.cancel(run)
            self._json(202, run.status())
        elif what == "result":
            self._result(run)
        elif self.query.get("follow") == "true":
            self._follow(run)
        else:
            start = int(self.query["offset"])
            data = run.log.read_bytes()[start:]
            self._bytes(200, data, {"X-Gridweave-Log-Next": str(start + len(data))})

    def _result(self, run: Run) -> None:
        until = time.monotonic() + float(self.query.get("wait", 0))
        while run.process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        if run.process.poll() is None:
            return self._json(202, run.status())
        if run.result is None or run.cancelled:
            raise ProblemError(409, "no-result", "It has no result.", phase=run.phase, reason="", message="", exit=run.exit())
        data = run.result.read_bytes()
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if self.headers.get("Range") else 0
        etag = f'"{self.gateway.etag or hashlib.sha256(data).hexdigest()}"'
        limit = self.gateway.break_result_after
        headers = {"ETag": etag, "X-Gridweave-Outcome": run.result.name}
        return self._bytes(206 if start else 200, data[start:], headers, cut=limit or None)

    def _follow(self, run: Run) -> None:
        offset = int(self.headers.get("Last-Event-ID") or self.query.get("offset") or 0)
        left = self.gateway.break_log_after or None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for facts in self.gateway.waits:
            self._event("state", {"phase": "Pending", "waiting": "", "position": 1, "setup": "", **facts})
        while self.gateway.waits and not self.gateway.closed:
            time.sleep(0.02)
        self._event("state", {"phase": "Running", "waiting": "", "position": 0, "setup": ""})
        while True:
            ended = run.process.poll() is not None
            data = run.log.read_bytes()[offset:][:left]
            if data:
                offset += len(data)
                self._event("log", _as_text(data), offset)
                if left is not None:
                    return None
            elif ended:
                return self._event("end", {"phase": run.phase, "reason": ""}, offset)
            else:
                time.sleep(0.02)

    def _event(self, kind: str, facts: dict[str, Any], ident: int | None = None) -> None:
        lines = [f"event: {kind}", *([] if ident is None else [f"id: {ident}"]), f"data: {json.dumps(facts, ensure_ascii=False)}"]
        self.wfile.write(("\n".join(lines) + "\n\n").encode())
        self.wfile.flush()

    def _json(self, status: int, facts: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._bytes(status, json.dumps(facts).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _bytes(self, status: int, data: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:cut])
        if cut is not None and cut < len(data):
            self.close_connection = True


def _as_text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _gpu(index: int, model: str, total: int, booked: int, quarantined: int = 0, usable: bool = True) -> dict[str, Any]:
    amounts = {"total_mib": total, "free_mib": total - booked - quarantined, "booked_mib": booked, "quarantined_mib": quarantined}
    return {"index": index, "model": model, "vendor": "nvidia", "uuid": "", **amounts, "usable": usable, "plans": ["paid"]}


def _node(name: str, owner: str, drain: bool, gpu: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "owner": owner, "state": "Ready", "reason": "", "drain": drain, "gpus": [gpu]}


def _advice(job: str, found: bool, moves: list[dict[str, Any]]) -> dict[str, Any]:
    facts = {"name": "n", "user": "bob", "position": 1, "wants": "1 GPU with 8192 MiB free"}
    reason = "" if found else "No plan with up to 3 moves would let it in."
    return {"job": job, **facts, "found": found, "reason": reason, "moves": moves, "placement": [SLOT] if found else []}


_MOVE = {"job": "job-m", "run": "job-m/1", "name": "m", "user": "ann", "was": [SLOT], "to": [SLOT | {"node": "n2"}]}
ADVICE = [_advice("job-a", True, [_MOVE]), _advice("job-b", True, []), _advice("job-c", False, [])]
FLEET = {
    "nodes": [
        _node("p1", "provider:acme", True, _gpu(0, "L4-24GB", 24576, 0, 8192)),
        _node("n1", "org", False, _gpu(0, "A100-80GB", 81920, 40960)),
    ]
}
USAGE = {
    "seq": 1,
    "at": "2026-11-29T17:00:02.000Z",
    "job": "job-1",
    "run": "job-1/1",
    "kind": "charge",
    "amount": "-0.003333",
    "memo": "square",
    "ran_ms": 1500,
}
ESTIMATE = {
    "rate_per_hour": "8.000000",
    "hold": "8.000000",
    "balance": "1000.000000",
    "available": "992.000000",
    "affordable": True,
    "pools": ["org"],
    "placeable_now": True,
    "placement": [SLOT],
    "placed_rate_per_hour": "8.000000",
    "reason": "",
    "short_by_mib": 0,
}
