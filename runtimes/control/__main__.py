"""`gridweave-control`: serves the control service on port 8800 until SIGTERM."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from contextlib import ExitStack

from adapters.k8s.client import connect
from adapters.k8s.elections import LeaseElections
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.events import KubeEvents
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import KubeWorkloads
from adapters.local.clock import SystemClock
from ports.errors import GridweaveError
from runtimes.control.app import Behind, make_app
from runtimes.http.server import listen
from runtimes.settings import Settings, WrongSettingsError, load
from runtimes.thread_server import App, ThreadServer

PORT = 8800
THREADS = 64  # a gateway that waits for changes takes one of them


def opened(settings: Settings, stack: ExitStack) -> Behind:
    """Raises Refused if there is no way to Kubernetes."""
    client = connect(settings.kuberay_namespace)
    stack.callback(client.close)
    events = KubeEvents(client, f"{socket.gethostname()}-{os.getpid()}")
    stack.callback(events.close)
    workloads = KubeWorkloads(client, tell=events.tell)  # of a house that asks through it
    stack.callback(workloads.close)
    stores = KubeNodes(client), KubeTariffs(client), KubeEpochs(client), LeaseElections(client)
    return Behind(client.namespace, workloads, KubeEndpoints(client), *stores, SystemClock().now)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gridweave-control", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0", help="address to bind (default: %(default)s)")  # noqa: S104 - ADMIN_TOKEN guards it
    parser.add_argument("--port", type=int, default=PORT, help="TCP port; 0: any free one (default: %(default)s)")
    options = parser.parse_args()
    try:
        settings = load(os.environ).settings
        if not settings.admin_token:
            print("ADMIN_TOKEN is not set. Set it to at least 16 random characters.", file=sys.stderr)
            return 2
        listener = listen(options.host, options.port)
    except (WrongSettingsError, GridweaveError) as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{options.host}:{options.port} can't be bound: {error.strerror}.", file=sys.stderr)
        return 2
    print(f"gridweave-control listens on http://{options.host}:{listener.getsockname()[1]}", flush=True)
    token = settings.admin_token.get_secret_value()

    def make(stack: ExitStack) -> App:
        return make_app(opened(settings, stack), token)

    ThreadServer("gridweave-control", listener, THREADS, settings.shutdown_grace_seconds, make).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
