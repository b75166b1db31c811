"""A control service in this process, on a port of its own: the real application behind a plain threaded server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from adapters.k8s.client import KubeClient
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import KubeWorkloads
from adapters.local.clock import SystemClock
from adapters.remote.line import Line
from runtimes.control.app import Behind, make_app

TOKEN = "control-token-of-the-tests"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@contextmanager
def control(client: KubeClient, page: int = 500, kept: int = 4096, at_once: int = 1000) -> Iterator[str]:
    """Its URL."""
    with closing(KubeWorkloads(client, page, kept, at_once)) as workloads:
        stores = KubeNodes(client), KubeTariffs(client), KubeEpochs(client)
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
def line_to(client: KubeClient, **bounds: int) -> Iterator[Line]:
    with control(client, **bounds) as url, closing(Line(url, TOKEN)) as line:
        yield line
