"""A running agent: its server in a thread, and the few facts that whoever started it must know."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from gridweave_agent.agent import Agent
from gridweave_agent.journal import Journal
from gridweave_agent.server import Server
from gridweave_agent.settings import Settings


class Running:
    """address: base URL. pid: of the serving process. incarnation: of this start."""

    def __init__(self, agent: Agent, server: Server) -> None:
        self._agent, self._server = agent, server
        host, port = server.server_address[:2]
        self.address = f"http://{host if isinstance(host, str) else host.decode()}:{port}"
        self.pid = os.getpid()
        self.incarnation = agent.table.incarnation
        self._thread = threading.Thread(target=server.serve_forever, name="server", daemon=True)
        self._thread.start()

    def json(self) -> dict[str, object]:
        return {"address": self.address, "pid": self.pid, "incarnation": self.incarnation}

    def wait(self) -> None:
        """Until it is stopped by another thread."""
        self._thread.join()

    def stop(self) -> None:
        """Serve no more. Runs live on; the next agent on the same folder adopts them."""
        self._server.close()
        self._thread.join()
        self._agent.stop()


def start_agent(config: Mapping[str, object]) -> Running:
    settings = Settings.read(config)
    journal = Journal.open(settings.home, settings.lock_wait_ms)
    try:
        agent = Agent(settings, journal)
        agent.start()
        return Running(agent, Server(agent))
    except BaseException:
        journal.close()
        raise
