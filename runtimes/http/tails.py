"""Live logs from the agents, over their HTTP protocol: one long poll per followed log, however many follow it."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from ports.errors import Unavailable
from ports.units import Span
from ports.workloads import RunId
from runtimes.http.services import Tail

_CONNECT_S = 2.0
_GRACE_S = 5.0  # beyond what the agent was asked to wait
_MOST = httpx.Limits(max_connections=1000, max_keepalive_connections=200)


class AgentTails:
    """`runtimes.http.services.Tails`. token_of: a node's tail token, which can read its logs and command nothing."""

    def __init__(self, token_of: Callable[[str], str]) -> None:
        self._token_of = token_of
        self._client = httpx.AsyncClient(limits=_MOST, follow_redirects=False, trust_env=False)

    async def read(self, node: str, address: str, run: RunId, offset: int, limit: int, wait: Span) -> Tail | None:
        headers = {"Authorization": f"Bearer {self._token_of(node)}"}
        params: dict[str, str | int] = {"run": str(run), "offset": offset, "limit": limit, "wait_ms": wait.ms}
        timeout = httpx.Timeout(wait.seconds + _GRACE_S, connect=_CONNECT_S, pool=_CONNECT_S)
        try:
            answer = await self._client.get(f"{address}/v1/log", params=params, headers=headers, timeout=timeout)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable("the node's agent", type(error).__name__) from error
        if answer.status_code == 404:
            return None
        end = answer.headers.get("X-Log-End", "")
        if answer.status_code != 200 or not end.isdigit():
            raise Unavailable("the node's agent", f"it answered {answer.status_code}")
        return Tail(answer.content, int(end), answer.headers.get("X-Log-Complete") == "true")

    async def close(self) -> None:
        await self._client.aclose()
