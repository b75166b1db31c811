"""`gpus` and `estimate`: what there is, and what work would cost on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from gridweave.commands.advice import advised
from gridweave.commands.ids import JobId, full_id
from gridweave.commands.options import COMMON, HARDWARE, Common, Hardware
from gridweave.commands.output import Output
from gridweave.commands.scripts import load
from gridweave.errors import Refused
from gridweave.options import Options
from gridweave.progress import place

_BAR = 32  # characters of one GPU's bar
_COLUMNS = ("OWNER", "NODE", "STATE", "GPU", "MODEL", "TOTAL_MIB", "FREE_MIB", "BOOKED_MIB", "QUARANTINED_MIB", "USABLE")


def gpus(*, advise: bool = False, job: JobId | None = None, common: Common = COMMON) -> int:
    """Draw the fleet: a bar of VRAM per GPU, by owner and node.

    Parameters
    ----------
    advise
        For admins: which jobs would have to move to let waiting ones in. None is moved.
    job
        With --advise: for this waiting job only; its id, the start of one, or its name.
    """
    output = common.output()
    if job is not None and not advise:
        raise Refused("--job goes with --advise.", field="job", remedy="Add --advise, or leave --job out.")
    if advise:
        client = common.client()
        return advised(output, client.advice(None if job is None else full_id(client, job)))
    facts = common.client().resources()
    nodes = sorted(facts["nodes"], key=lambda node: (node.get("owner") != "org", node.get("owner") or "", node["name"]))
    if output.json:
        output.emit(facts)
    elif output.terminal:
        _draw(output, nodes)
    else:
        output.table(_COLUMNS, [_row(node, gpu) for node in nodes for gpu in node["gpus"]])
    if not nodes:
        output.remark("The fleet has no node yet.")
    return 0


def _row(node: Mapping[str, Any], gpu: Mapping[str, Any]) -> list[str]:
    amounts = [str(gpu.get(key) or 0) for key in ("total_mib", "free_mib", "booked_mib", "quarantined_mib")]
    usable = "yes" if gpu.get("usable") else "no"
    return [str(node.get("owner") or "?"), node["name"], _state(node), str(gpu["index"]), str(gpu.get("model") or "?"), *amounts, usable]


def _state(node: Mapping[str, Any]) -> str:
    state = str(node.get("state") or "")
    return f"{state}, draining" if node.get("drain") else state


def _draw(output: Output, nodes: list[Mapping[str, Any]]) -> None:
    owner = None
    for node in nodes:
        if node.get("owner") != owner:
            owner = node.get("owner")
            output.console.print(Text(str(owner or "owner unknown"), style="bold"))
        for line in _node_lines(node):
            output.console.print(line, soft_wrap=True)
    legend = Text.assemble("\n", ("█", "cyan"), " booked  ", ("▒", "red"), " quarantined  ", ("░", "dim"), " free")
    output.console.print(legend)


def _node_lines(node: Mapping[str, Any]) -> Iterator[Text]:
    state = _state(node)
    style = "green" if state.lower() == "ready" else "yellow"
    yield Text.assemble("  ", node["name"], "  ", (state, style), ("  " + str(node["reason"]) if node.get("reason") else "", "yellow"))
    width = max((len(str(gpu.get("model") or "?")) for gpu in node["gpus"]), default=0)
    for gpu in node["gpus"]:
        total, free = int(gpu["total_mib"]), int(gpu["free_mib"])
        line = Text.assemble(f"    GPU {gpu['index']:>2}  {gpu.get('model') or '?':<{width}}  ")
        line.append_text(bar(total, int(gpu.get("booked_mib") or 0), int(gpu.get("quarantined_mib") or 0)))
        line.append(f"  {free / 1024:.1f} of {total / 1024:.1f} GB free", style="" if gpu.get("usable") else "dim")
        if not gpu.get("usable"):
            line.append("  not for you" if state.lower() == "ready" else "  not usable", style="dim")
        yield line


def bar(total: int, booked: int, quarantined: int) -> Text:
    """A GPU's VRAM in MiB; what is booked or quarantined is never too small to be seen."""
    marks = [(booked, "█", "cyan"), (quarantined, "▒", "red")]
    drawn = Text()
    for amount, mark, style in marks:
        drawn.append(mark * (max(1, amount * _BAR // total) if amount and total else 0), style=style)
    drawn.truncate(_BAR)
    drawn.append("░" * (_BAR - len(drawn)), style="dim")
    return drawn


def estimate(target: Path | None = None, /, *, hardware: Hardware = HARDWARE, common: Common = COMMON) -> int:
    """What a job would cost, and whether it would be placed now. Nothing is started.

    Parameters
    ----------
    target
        FILE.py:FUNC, to take what its decorator asks for.
    """
    output = common.output()
    asked = hardware.over(load(str(target)).options if target else Options())
    found = common.client().estimate(asked)
    if output.json:
        output.emit(dict(found.raw))
        return 0
    missing = f" ({found.short_by_mib} MiB short)" if found.short_by_mib else ""
    output.fields(
        {
            "rate": f"{found.rate_per_hour} credits per hour at most",
            "held at submit": f"{found.hold} credits",
            "balance": f"{found.balance} credits" if found.balance is not None else "",
            "available": f"{found.available} credits" if found.available is not None else "",
            "affordable": "yes" if found.affordable else f"no: {found.unaffordable}" if found.unaffordable else "no",
            "placed now": "yes" if found.placeable_now else f"no: {found.reason}{missing}",
            "where": place(found.placement),
            "rate there": f"{found.placed_rate_per_hour} credits per hour" if found.placed_rate_per_hour is not None else "",
            "hardware of": ", then ".join(found.pools),
        }
    )
    return 0
