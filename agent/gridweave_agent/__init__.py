"""The agent of one Gridweave node: it starts, watches and kills runs there, and alone says that a run is gone.

`start(config)` serves it from the calling process (a Ray actor, or `python -m gridweave_agent CONFIG.json`).
It never unpickles anything: only the user's own process, three processes further down, does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridweave_agent.running import Running

__version__ = "0.1.0"


def start(config: Mapping[str, object]) -> Running:
    """Serve the agent that `config` describes (see `gridweave_agent.settings`); returns once it answers.

    Raises ValueError naming the setting that is wrong, and FolderBusy if another agent holds the folder.
    """
    from gridweave_agent.running import start_agent  # not above: the zygote imports this package and needs none of it

    return start_agent(config)
