"""`python -m runtimes.sim`, where the script is not installed."""

from __future__ import annotations

import sys

from runtimes.sim.app import main

sys.exit(main())
