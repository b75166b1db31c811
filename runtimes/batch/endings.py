"""What an operator's log says of each job that has ended: who, which run, how, and what it cost; and of what a node refused.

Nothing that a user wrote is repeated: an exception's message may hold his secrets.
"""

from __future__ import annotations

import structlog

from ports.cluster import Answer, Command
from ports.lifecycle import RESULT_LOST
from ports.workloads import CHARGED, TERMINAL, ConditionStatus, ExitKind, Job

log = structlog.get_logger("gridweave.jobs")


def note_end(job: Job) -> None:
    """One line for a job in its terminal phase: completed, cancelled, failed or lost; and an alarm if its charge was refused."""
    status = job.status
    if status.phase not in TERMINAL:
        return
    run, charged = status.run, status.condition(CHARGED)
    about = {"workload": job.id, "run": str(run.id) if run is not None else "", "user": job.spec.user}
    how = str(run.exit.kind) if run is not None and run.exit is not None else ""
    ran = run.ran.ms if run is not None else 0
    facts = {**about, "reason": status.reason, "exit": how, "ran_ms": ran, "charged": str(status.charged)}
    if how == ExitKind.RUNNER_LOST or status.reason == RESULT_LOST:  # both say it in our own words
        nodes = sorted({slot.node for slot in run.placement}) if run is not None else []
        log.warning("lost", **facts, nodes=nodes, why=status.message)
    else:
        log.info(status.phase.value.lower(), **facts)
    if charged is not None and charged.status is ConditionStatus.FALSE:
        log.error("alarm", **about, what="the final charge was refused", why=charged.message)


def note_refusal(node: str, command: Command, answer: Answer, user: str) -> None:
    """One line for a command that a node's agent did not obey; it is asked again, or another attempt is made."""
    about = {"workload": command.run.workload, "run": str(command.run), "user": user}
    log.info("refused by a node", **about, node=node, command=type(command).__name__, known=answer.known, why=answer.error)
