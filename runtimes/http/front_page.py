"""The page at `/`: where to go from here, and the three commands to begin with. It loads nothing, so it works offline."""

from __future__ import annotations

import base64
import hashlib
import html
import shlex

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}
pre{font:13px/1.6 ui-monospace,monospace;background:#8881;padding:.8rem;overflow:auto;border-radius:4px}
"""

POLICY = f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"


def page(url: str) -> str:
    """url: under which the reader has found this gateway; it may hold anything."""
    commands = f"export GRIDWEAVE_URL={shlex.quote(url)}\ngridweave gpus\ngridweave submit hello.py:square 7"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Gridweave</title><style>{STYLE}</style></head><body><h1>Gridweave</h1>"
        "<p>The front door of a shared GPU cluster: a function goes in; logs, result and bill come out.</p>"
        f"<pre>{html.escape(commands)}</pre>"
        '<ul><li><a href="docs">The API, for people</a></li><li><a href="openapi.json">The API as an OpenAPI document</a></li>'
        '<li><a href="metrics">Metrics for Prometheus</a></li><li><a href="readyz">Whether new work would run now</a></li></ul>'
        "</body></html>"
    )
