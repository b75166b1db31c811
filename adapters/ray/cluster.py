"""The cluster port on Ray: nodes as their labels tell, and on each node an agent in a detached actor.

An agent is known by what it was made of: package, configuration and where it may run. One that was made of anything
else is ended and started anew, which harms nothing: runs outlive their agent, and the new one adopts them.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from adapters.ray.agents import RayAgent
from adapters.ray.labels import DEMO, NODE, RAY_NODE_ID, described
from adapters.ray.package import AgentPackage
from adapters.ray.process import DriverProcess
from adapters.ray.tokens import command_token, tail_token
from adapters.ray.wire import gpu_json
from ports.cluster import ClusterNode
from ports.errors import Unavailable
from ports.units import Span

_MARGIN = Span(2000)  # by which the driver gives up before we give up the driver


@frozen
class AgentSettings:
    """What every agent is told.

    dir: folder on the node that outlives the agent and Ray; each node has a folder of its own below it.
    host: where it listens; "": at the address by which Ray knows the node. uv: path of a uv binary there, None: it
    looks for one. chunk_bytes, chunk_age: when a log chunk is closed. result_cap: bytes of the largest result. None: the
    agent's own defaults.
    """

    dir: str
    host: str = ""
    uv: str | None = None
    chunk_bytes: int | None = None
    chunk_age: Span | None = None
    result_cap: int | None = None


@frozen
class Located:
    """Where an agent was last found. address: base URL."""

    address: str
    pid: int


class RayCluster:
    """ports.cluster.Cluster. secret: of which agents' tokens are derived. demo: nodes that a raylet with the label
    gridweave.io/demo=true carries. starts_within: how long an agent may take to start."""

    def __init__(
        self,
        driver: DriverProcess,
        package: AgentPackage,
        settings: AgentSettings,
        secret: bytes,
        demo: Sequence[ClusterNode] = (),
        *,
        starts_within: Span = Span(20_000),
        agent_answers_within: Span = Span(10_000),
    ) -> None:
        self._driver, self._package, self._settings, self._secret = driver, package, settings, secret
        self._demo = tuple(demo)
        self._starts_within, self._agent_answers_within = starts_within, agent_answers_within
        self._lock = threading.Lock()
        self._starting: dict[str, threading.Lock] = {}
        self._found: dict[str, Located] = {}
        self._agents: dict[str, RayAgent] = {}

    def nodes(self) -> tuple[ClusterNode, ...]:
        """By name. A node that was once seen is listed as not alive; a name that two live machines claim has a problem."""
        rows = self._driver.ask("nodes")
        found: dict[str, ClusterNode] = {}
        claims: Counter[str] = Counter()
        for row in rows:
            for node in self._nodes_of(row):
                claims[node.name] += node.alive
                if node.alive or node.name not in found:
                    found[node.name] = node
        for name, times in claims.items():
            if times > 1:
                problem = f"{times} live machines are named {name}: give each a {NODE} label of its own."
                found[name] = evolve(found[name], problem=" ".join(filter(None, (found[name].problem, problem))))
        return tuple(found[name] for name in sorted(found))

    def agent(self, node: ClusterNode) -> RayAgent:
        """That node's agent, started if there is none. Raises Unavailable if the node is dead or unfit, or it does not start."""
        if not node.alive or node.problem:
            raise Unavailable(f"the agent of {node.name}", node.problem or "its node is not alive")
        self._find(node)
        with self._lock:
            agent = self._agents.get(node.name)
            if agent is None:
                token = command_token(self._secret, node.name)
                agent = RayAgent(node.name, token, lambda: self.address(node.name), self._agent_answers_within)
                self._agents[node.name] = agent
            agent.find = lambda: self._find(node)
            return agent

    def address(self, node: str) -> str:
        found = self._found.get(node)
        return "" if found is None else found.address

    def pid(self, node: str) -> int:
        """Of that node's agent on its machine, as it was last found; 0 if it is not known. For people."""
        found = self._found.get(node)
        return 0 if found is None else found.pid

    def close(self) -> None:
        """Close connections and end the driver; agents live on."""
        for agent in self._agents.values():
            agent.close()
        self._driver.close()

    def _nodes_of(self, row: dict[str, Any]) -> tuple[ClusterNode, ...]:
        labels = row["labels"]
        if self._demo and labels.get(DEMO) == "true":
            return tuple(evolve(node, alive=row["alive"], labels={**node.labels, **labels}) for node in self._demo)
        return (described({RAY_NODE_ID: row["id"], **labels}, row["host"], row["alive"]),)

    def _find(self, node: ClusterNode) -> str:
        """The address of that node's agent as Ray says now; started if there is none."""
        with self._lock:
            one_at_a_time = self._starting.setdefault(node.name, threading.Lock())
        if not one_at_a_time.acquire(timeout=self._starts_within.seconds):
            raise Unavailable(f"the agent of {node.name}", "it is still being started")
        try:
            config, selector = self._config(node), _selector(node)
            made_of = json.dumps([self._package.digest, config, selector], sort_keys=True)
            answer = self._driver.ask(
                "ensure_agent",
                self._starts_within + _MARGIN,
                node=node.name,
                identity=hashlib.sha256(made_of.encode()).hexdigest()[:16],
                selector=selector,
                config=config,
                within_s=self._starts_within.seconds,
            )
        finally:
            one_at_a_time.release()
        self._found[node.name] = Located(str(answer["address"]), int(answer["pid"]))
        return self._found[node.name].address

    def _config(self, node: ClusterNode) -> dict[str, Any]:
        settings = self._settings
        config: dict[str, Any] = {
            "node": node.name,
            "dir": f"{settings.dir.rstrip('/')}/{node.name}",
            "host": settings.host,
            "port": 0,
            "token": command_token(self._secret, node.name),
            "tail_token": tail_token(self._secret, node.name),
            "gpus": None,
            "uv": settings.uv,
        }
        if node.gpus is not None:
            config["gpus"] = [gpu_json(gpu) for gpu in node.gpus]
        if settings.chunk_bytes is not None:
            config["chunk_bytes"] = settings.chunk_bytes
        if settings.chunk_age is not None:
            config["chunk_age_ms"] = settings.chunk_age.ms
        if settings.result_cap is not None:
            config["result_cap_bytes"] = settings.result_cap
        return config


def _selector(node: ClusterNode) -> dict[str, str]:
    """Where Ray may put the agent. By our label it comes back when its raylet does, under whatever id of Ray's."""
    if DEMO in node.labels:
        return {DEMO: node.labels[DEMO]}
    if NODE in node.labels:
        return {NODE: node.labels[NODE]}
    return {RAY_NODE_ID: node.labels[RAY_NODE_ID]}
