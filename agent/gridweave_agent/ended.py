"""How a run is recorded to have ended: written once, by its supervisor or by its agent, and read by every agent after it."""

from __future__ import annotations

from dataclasses import dataclass

from gridweave_agent.protocol import Exit, Result, read_int, read_map
from gridweave_agent.rundir import RunDir, read_json


@dataclass(frozen=True)
class Ended:
    """started: whether `go` was obeyed. ran_ms: from `go` to gone. log_bytes: of the whole log."""

    exit: Exit
    started: bool
    ran_ms: int
    log_bytes: int
    result: Result | None = None

    @staticmethod
    def read(folder: RunDir) -> Ended | None:
        """What is recorded there, if anything of use is. Raises BadMessage."""
        record = read_json(folder.exit)
        if record is None:
            return None
        result = record.get("result")
        return Ended(
            Exit.parse(read_map(record, "exit")),
            bool(record.get("started")),
            read_int(record, "ran_ms"),
            read_int(record, "log_bytes"),
            Result.parse(result) if isinstance(result, dict) else None,
        )

    def json(self) -> dict[str, object]:
        return {
            "exit": self.exit.json(),
            "result": self.result.json() if self.result else None,
            "started": self.started,
            "ran_ms": self.ran_ms,
            "log_bytes": self.log_bytes,
        }
