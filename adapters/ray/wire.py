"""Between the words of ports.cluster and the agent's JSON, protocol 1. What the agent says beyond is passed over:
a newer agent may say more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ports.blobs import Grant, run_prefix
from ports.cluster import Answer, Command, Forget, Go, Hello, Input, Kill, Prepare, Renew, Reports, ReportState, RunReport, StoredResult
from ports.nodes import Gpu
from ports.units import Mib, Span
from ports.workloads import Exit, ExitKind, RunId, Slot

Json = Mapping[str, Any]


def command_json(command: Command) -> dict[str, Any]:
    match command:
        case Prepare():
            return _prepare_json(command)
        case Go(run, limit):
            return {"kind": "go", "run": str(run), "max_runtime_ms": None if limit is None else limit.ms}
        case Kill(run, grace):
            return {"kind": "kill", "run": str(run), "grace_ms": grace.ms}
        case Renew(run, output, inputs):
            return {"kind": "grant", "run": str(run), "output": _grant_json(output), "inputs": _inputs_json(inputs)}
        case Forget(run):
            return {"kind": "forget", "run": str(run)}


def _prepare_json(command: Prepare) -> dict[str, Any]:
    env = command.env
    return {
        "kind": "prepare",
        "run": str(command.run),
        "user": command.user,
        "name": command.name,
        "slots": [{"gpu": slot.gpu, "mib": slot.mib.n} for slot in command.slots],
        "gpu_totals": [total.n for total in command.totals],
        "env": {"pip": list(env.pip), "uv": list(env.uv), "env_vars": env.env_vars, "working_dir": env.working_dir is not None},
        "inputs": _inputs_json(command.inputs),
        "output": _grant_json(command.output),
        "setup_bound_ms": command.setup_bound.ms,
        "uid": command.uid,
    }


def _inputs_json(inputs: Mapping[str, Input]) -> dict[str, Any]:
    return {name: {**_grant_json(each.grant), "sha256": each.sha256, "size": each.size} for name, each in inputs.items()}


def _grant_json(grant: Grant) -> dict[str, Any]:
    return {
        "method": grant.method,
        "url": grant.url,
        "prefix": grant.prefix,
        "max_size": grant.max_size,
        "expires_ms": grant.expires.ms,
        "fields": grant.fields,
    }


def answer_of(json: Json) -> Answer:
    return Answer(json["ok"], json.get("error", ""), json.get("known", True))


def gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {"index": gpu.index, "model": gpu.model, "vendor": gpu.vendor, "total_mib": gpu.total.n, "uuid": gpu.uuid}


def gpu_of(json: Json) -> Gpu:
    return Gpu(json["index"], json["model"], json["vendor"], Mib(json["total_mib"]), json.get("uuid", ""))


def hello_of(json: Json) -> Hello:
    node = json["node"]
    gpus, runs = tuple(map(gpu_of, json["gpus"])), tuple(report_of(each, node) for each in json["runs"])
    return Hello(node, json["incarnation"], json["epoch"], json["python"], json["cloudpickle"], gpus, runs)


def reports_of(json: Json, node: str) -> Reports:
    ran = {RunId.parse(run): Span(ms) for run, ms in json.get("ran", {}).items()}
    uids = {RunId.parse(run): str(uid) for run, uid in json.get("uids", {}).items()}
    return Reports(tuple(report_of(each, node) for each in json["reports"]), json["cursor"], ran, uids)


def report_of(json: Json, node: str) -> RunReport:
    run = RunId.parse(json["run"])
    return RunReport(
        run,
        ReportState(json["state"]),
        Span(json["ran_ms"]),
        json["started"],
        json.get("detail", ""),
        _exit_of(json.get("exit")),
        _result_of(json.get("result"), run),
        json.get("stored", False),
        json.get("stored_error", ""),
        tuple(Slot(node, each["gpu"], Mib(each["mib"])) for each in json["slots"]),
        json.get("epoch", 0),
        json.get("uid", ""),
        json.get("fetch_error", ""),
    )


def _exit_of(json: Json | None) -> Exit | None:
    if json is None:
        return None
    return Exit(
        ExitKind(json["kind"]),
        json.get("code"),
        json.get("signal") or "",
        json.get("oom", False),
        json.get("message", ""),
        json.get("traceback", ""),
        json.get("log_tail", ""),
    )


def _result_of(json: Json | None, run: RunId) -> StoredResult | None:
    if json is None:
        return None
    return StoredResult(run_prefix(run.workload, run.attempt) + json["name"], json["size"], json["sha256"], json["raised"])
