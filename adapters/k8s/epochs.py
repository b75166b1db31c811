"""The number of the scheduler's term: one object, raised by compare-and-swap. Its schema lets it only grow."""

from __future__ import annotations

from adapters.k8s.client import API_VERSION, KubeClient
from adapters.k8s.objects import Objects
from ports.errors import Conflict, Invalid

PLURAL = "gridweaveepochs"
NAME = "scheduler"


class KubeEpochs:
    """`ports.leadership.Epochs`."""

    def __init__(self, client: KubeClient) -> None:
        self._namespace = client.namespace
        self._objects = Objects(client, PLURAL)

    def read(self) -> int:
        found = self._objects.get(NAME, NAME)
        return 0 if found is None else int(found["spec"]["newest"])

    def raise_to(self, epoch: int, seen: int) -> None:
        if epoch <= seen:
            raise Invalid(f"An epoch only grows: {epoch} is not above {seen}.", "epoch", "Give a number above the one seen.", str(epoch))
        found = self._objects.get(NAME, NAME)
        if (0 if found is None else found["spec"]["newest"]) != seen:
            raise Conflict("epoch")
        meta = {"name": NAME, "namespace": self._namespace}
        form = {"apiVersion": API_VERSION, "kind": "GridweaveEpoch", "metadata": meta, "spec": {"schemaVersion": 1, "newest": epoch}}
        if found is None:
            self._objects.create("epoch", form)
            return
        meta["resourceVersion"] = found["metadata"]["resourceVersion"]
        self._objects.replace("epoch", form)
