"""Prometheus metrics: the fleet, the queue and the money as this gateway sees them, and how long its routes take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import falcon.asgi
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ports.errors import Unavailable
from ports.units import MICRO
from runtimes.http.watch import Watch

_MIB = 1024 * 1024
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class FleetCollector(Collector):
    """Reads the live copy at each scrape; nothing is kept up to date between scrapes. trouble: why the cluster can't be asked."""

    def __init__(self, watch: Watch, trouble: Callable[[], str]) -> None:
        self._watch, self._trouble = watch, trouble

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield from self._vram()
        queue = GaugeMetricFamily("gridweave_queue_length", "Jobs that wait in Pending.")
        queue.add_metric([], self._watch.waiting())
        yield queue
        phases = GaugeMetricFamily("gridweave_jobs", "Unfinished jobs by phase.", labels=["phase"])
        for phase, count in sorted(self._watch.phases().items()):
            phases.add_metric([phase.value], count)
        yield phases
        held = GaugeMetricFamily("gridweave_credits_held", "Credits held for unfinished jobs.")
        held.add_metric([], self._watch.money.held.micro / MICRO)
        yield held
        charged = CounterMetricFamily("gridweave_credits_charged", "Credits charged since this process began to look.")
        charged.add_metric([], self._watch.money.charged.micro / MICRO)
        yield charged
        stale = GaugeMetricFamily("gridweave_store_stale", "1 while the workload store does not answer.")
        stale.add_metric([], 1 if self._watch.stale else 0)
        yield stale
        cluster = GaugeMetricFamily("gridweave_cluster_unreachable", "1 while the scheduler in this process can't ask Ray for its nodes.")
        cluster.add_metric([], 1 if self._trouble() else 0)
        yield cluster
        unreadable = GaugeMetricFamily(
            "gridweave_unreadable_objects", "Stored objects that can't be read and are skipped.", labels=["kind"]
        )
        for kind, count in self._watch.unreadable().items():
            unreadable.add_metric([kind], count)
        yield unreadable

    def _vram(self) -> Iterator[Metric]:
        try:
            fleet = self._watch.fleet()
        except Unavailable:
            return
        labels = ["node", "gpu", "model", "owner"]
        kinds = {
            name: GaugeMetricFamily(f"gridweave_gpu_vram_{name}_bytes", f"VRAM {name} per GPU.", labels=labels)
            for name in ("total", "free", "booked", "quarantined")
        }
        for node in fleet.nodes:
            for gpu in node.gpus:
                names = [node.record.name, str(gpu.gpu.index), gpu.gpu.model, node.record.status.owner]
                amounts = {"total": gpu.gpu.total, "free": gpu.free, "booked": gpu.booked, "quarantined": gpu.quarantined}
                for name, amount in amounts.items():
                    kinds[name].add_metric(names, amount.n * _MIB)
        yield from kinds.values()


class Latency:
    """Falcon middleware: a histogram per route template; paths that match no route share one label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "gridweave_http_request_seconds",
            "Time until the answer begins, by route.",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._of: dict[tuple[str, str, int], Histogram] = {}

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        req.context.began = time.perf_counter()

    async def process_response(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, resource: object, succeeded: bool) -> None:
        began = getattr(req.context, "began", None)
        if began is not None:
            template = req.uri_template
            labels = (req.method if template else "other", template or "none", resp.status_code)
            one = self._of.get(labels)
            if one is None:
                one = self._of[labels] = self._seconds.labels(*labels)
            one.observe(time.perf_counter() - began)
