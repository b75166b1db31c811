"""`python -m gridweave_agent CONFIG.json`: an agent without Ray. Prints its address as one line of JSON, then serves."""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path

from gridweave_agent import start


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m gridweave_agent CONFIG.json", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    running = start(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    print(json.dumps(running.json()), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    running.stop()
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # before any thread
    sys.exit(main(sys.argv[1:]))
