"""`gridweave-gateway`: reads the settings, binds, and serves until SIGTERM."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from ports.errors import GridweaveError, Invalid
from runtimes import blob_stores, failpoints, settings_table
from runtimes.debug_bundle import write_bundle
from runtimes.http.app import create_app
from runtimes.http.assembly import gateway_services
from runtimes.http.edge import Edge
from runtimes.http.server import Server, listen
from runtimes.http.welcome import Welcome
from runtimes.log_lines import last_lines, log_to_stderr
from runtimes.presence import Presence
from runtimes.settings import Loaded, Settings, WrongSettingsError, inspect, load
from runtimes.state import state_folder
from runtimes.stores import prepare_stores
from runtimes.version import VERSION
from runtimes.wiring import stop_local_ray


class _AddressError(Exception):
    """The address can't be bound."""


app = App(name="gridweave-gateway", help=__doc__, help_format="plaintext", version=VERSION)


@app.default
def serve(
    *,
    demo_fleet: Annotated[str | None, Parameter(help='Imaginary GPUs, as in "2x4xA100-80GB:org,1x2xL4-24GB:provider:acme".')] = None,
    port: Annotated[int | None, Parameter(help="TCP port, in place of GATEWAY_PORT; 0 takes any free one.")] = None,
    print_settings: Annotated[bool, Parameter(negative="", help="Show every setting with its source, and exit.")] = False,
    debug_bundle: Annotated[Path | None, Parameter(help="Write a zip for a bug report (no secrets), and exit.")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="With --print-settings: as JSON.")] = False,
) -> int:
    """Serve the API of a GPU cluster. Settings come from the environment; --print-settings shows them."""
    options = {name: str(value) for name, value in (("DEMO_FLEET", demo_fleet), ("GATEWAY_PORT", port)) if value is not None}
    if print_settings:
        _show(inspect(os.environ, options), as_json)
        return 0
    loaded = load(os.environ, options)
    if debug_bundle is not None:
        return _bundle(loaded, debug_bundle)
    log_to_stderr(last_lines(loaded.settings.state_dir.absolute()))
    failpoints.check(os.environ)
    return run(loaded.settings)


def _bundle(loaded: Loaded, file: Path) -> int:
    log_to_stderr()
    try:
        write_bundle(loaded, file)
    except OSError as error:
        print(f"{file} can't be written: {error.strerror}. Name another file.", file=sys.stderr)
        return 4
    print(f"{file}: settings (secrets masked), versions, last log lines, nodes, unfinished jobs, audit of the journal")
    return 0


def run(settings: Settings) -> int:
    """Bind and serve. Gives the exit code; raises _AddressError if the address can't be bound, WrongSettingsError if the state
    folder is in use for another fleet, or this image finds no keys of S3, and Refused for a file of state that is not for this release."""
    blob_stores.check(settings)
    try:
        listener = listen(settings.host, settings.gateway_port)
    except OSError as error:
        raise _AddressError(error.strerror) from error
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}"
    first = os.getpid()
    try:
        folder = state_folder(settings.state_dir)  # made only by a start that comes so far
        presence = Presence(folder, settings.demo_fleet)
    except Invalid as error:
        listener.close()
        raise WrongSettingsError([error]) from error
    try:
        prepare_stores(settings, folder, presence.alone)
    except GridweaveError:
        presence.leave()
        listener.close()
        raise
    compared = "" if settings.server_version == VERSION else f" (clients are compared with {settings.server_version})"
    print(f"gridweave-gateway {VERSION}{compared} listens on {address}", flush=True)
    welcome = Welcome(settings, address, folder) if sys.stdout.isatty() else None
    own = settings.gateway_url or address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - no bind here

    def make() -> Edge:
        services = gateway_services(settings, own)
        if welcome is None:
            return create_app(services)
        edge = create_app(welcome.joined(services))
        edge.on_stopping = welcome.parting(edge.on_stopping)
        return edge

    if welcome is not None:
        welcome.begin()
    try:
        Server(settings, listener, make).run()
    finally:
        if os.getpid() == first and presence.leave() and settings.demo:  # the workers leave through here too
            stop_local_ray(settings)
    return 0


def _show(loaded: Loaded, as_json: bool) -> None:
    """A person at a terminal gets a table, a pipe lines that are not wrapped."""
    if as_json:
        print(settings_table.as_json(loaded))
    elif sys.stdout.isatty():
        settings_table.as_table(loaded, Console())
    else:
        print(settings_table.as_text(loaded))
    if loaded.wrong:
        print(WrongSettingsError(loaded.wrong), file=sys.stderr)


def main() -> int:
    """Exit codes: 0 stopped as asked, 2 wrong settings, 3 the address is taken, 4 something needed does not answer."""
    try:
        return int(app(result_action="return_value") or 0)
    except WrongSettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except _AddressError as error:
        print(f"The address can't be bound: {error}. Set GATEWAY_PORT or GATEWAY_HOST, or use --port 0.", file=sys.stderr)
        return 3
    except GridweaveError as error:
        print(error, file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main())
