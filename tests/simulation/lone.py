"""A cluster of one simulated machine, for tests of the threads that talk to agents."""

from __future__ import annotations

from attrs import define

from ports.cluster import Agent, Cluster, ClusterNode
from tests.simulation.machines import Machine


@define
class OneMachine(Cluster):
    machine: Machine

    def nodes(self) -> tuple[ClusterNode, ...]:
        return (self.machine.seen(),)

    def agent(self, node: ClusterNode) -> Agent:
        return self.machine

    def address(self, node: str) -> str:
        return f"http://{self.machine.name}"
