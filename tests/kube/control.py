"""A control service in this process, on a port of its own: the real application behind a plain threaded server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from adapters.k8s.client import KubeClient
from adapters.k8s.elections import LeaseElections
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.leadership import boottime
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import KubeWorkloads
from adapters.local.clock import SystemClock
from adapters.remote.line import Line
from ports.units import Span
from runtimes.control.app import Behind, make_app
from tests.canaries import CONTROL_TOKEN

TOKEN = CONTROL_TOKEN


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@contextmanager
def control(
    client: KubeClient, page: int = 500, kept: int = 4096, at_once: int = 1000, elapsed: Callable[[], Span] = boottime
) -> Iterator[str]:
    """Its URL."""
    with closing(KubeWorkloads(client, page, kept, at_once)) as workloads:
        stores = KubeNodes(client), KubeTariffs(client), KubeEpochs(client), LeaseElections(client, elapsed=elapsed)
        behind = Behind(client.namespace, workloads, KubeEndpoints(client), *stores, SystemClock().now)
        with make_server("127.0.0.1", 0, make_app(behind, TOKEN), _Server, _Quiet) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


@contextmanager
def line_to(client: KubeClient, page: int = 500, kept: int = 4096, at_once: int = 1000) -> Iterator[Line]:
    with control(client, page, kept, at_once) as url, closing(Line(url, TOKEN)) as line:
        yield line
