"""HTTP to the gateway: retries, deadlines, and problems turned into our errors.

Every request here is safe to repeat (submits carry an idempotency key), so a broken connection, 408, 429 and 502-504 are
asked again with growing pauses, or after the pause that the answer names, until `retry_for` seconds have passed. An upload takes
as long as it takes: its seconds are counted from when it first breaks off.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from gridweave.answers import checked, unavailable
from gridweave.errors import Refused, Unavailable
from gridweave.version import __version__

_AGAIN = frozenset({408, 429, 502, 503, 504})
_LONGEST_PAUSE = 15.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_FIRST = 5.0  # seconds; where nothing ever answered the address is wrong, or the gateway was not started
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Transport:
    """One gateway. url: http(s)://host[:port]. Raises Refused for a URL or key that cannot be used."""

    def __init__(self, url: str, api_key: str | None, retry_for: float) -> None:
        self.url = _checked_url(url)
        self.retry_for = retry_for
        self._answered = False
        own = {"User-Agent": f"gridweave/{__version__}", "X-SDK-Version": __version__}
        identity = {"Authorization": f"Bearer {_checked_key(api_key)}"} if api_key else {}
        timeout = httpx.Timeout(60, connect=10, pool=None)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        trust = urlsplit(self.url).hostname not in _LOOPBACK  # a proxy of the environment never leads to this machine
        self._gateway = httpx.Client(base_url=self.url, headers=own | identity, timeout=timeout, limits=limits, trust_env=trust)
        self._elsewhere = httpx.Client(headers=own, timeout=timeout, trust_env=trust)

    def close(self) -> None:
        self._gateway.close()
        self._elsewhere.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content: Callable[[], Iterable[bytes]] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout: float = 60,
        retry_for: float | None = None,
    ) -> httpx.Response:
        """The answer, read whole. body: sent as JSON. content: makes the raw body anew for each try.

        Raises Refused for a 4xx, Unavailable when `retry_for` seconds went by without an answer.
        """
        own = dict(headers or {})
        if body is not None:
            own["Content-Type"] = "application/json"
        client = self._elsewhere if path.startswith(("http://", "https://")) else self._gateway
        given = {key: value for key, value in (params or {}).items() if value is not None}
        patience = Patience(self.retry_for if retry_for is None else retry_for, from_first_failure=content is not None)
        mine = client is self._gateway
        while True:
            raw = content() if content is not None else None if body is None else encode(body)
            try:
                timeout = httpx.Timeout(60, connect=10, read=read_timeout, pool=None)
                response = client.request(method, path, content=raw, params=given or None, headers=own, timeout=timeout)
            except httpx.TransportError as error:
                broken = content is not None and not isinstance(error, _NEVER_SENT)
                why = self._broken_off(error, path) if broken else self._unreachable(error)
                patience.pause(why, at_most_s=self._bound(error) if mine else None)
                continue
            except httpx.InvalidURL as error:
                raise Refused(f"The gateway's address cannot be used: {error}", field="url", value=self.url) from error
            self._answered = self._answered or mine
            if response.status_code not in _AGAIN:
                return checked(response)
            patience.pause(unavailable(response))

    @contextmanager
    def stream(self, path: str, params: Mapping[str, Any], headers: Mapping[str, str], read_timeout: float) -> Iterator[httpx.Response]:
        """One try of a GET whose body is read as it comes. Raises BrokenStreamError for what may be tried again, Refused for a 4xx."""
        timeout = httpx.Timeout(60, connect=10, read=read_timeout, pool=None)
        try:
            with self._gateway.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                self._answered = True
                if response.status_code >= 400:
                    response.read()
                    if response.status_code in _AGAIN:
                        raise BrokenStreamError(unavailable(response))
                    checked(response)
                yield response
        except httpx.TransportError as error:
            raise BrokenStreamError(self._unreachable(error), self._bound(error)) from error

    def _bound(self, error: httpx.TransportError) -> float | None:
        """How long to go on trying in spite of this error, if that is not for the caller to say."""
        never = not self._answered and isinstance(error, _NEVER_SENT)
        return _FIRST if never else None

    def _unreachable(self, error: httpx.TransportError) -> Unavailable:
        if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
            raise Refused(f"The request to {self.url} cannot be sent: {error}", field="url", value=self.url) from error
        hint = "" if self._answered else " Is GRIDWEAVE_URL right?"
        found = Unavailable(f"The gateway at {self.url} does not answer ({error or type(error).__name__}).{hint}")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise found from error
        found.__cause__ = error
        return found

    def _broken_off(self, error: httpx.TransportError, path: str) -> Unavailable:
        to = urlsplit(path) if path.startswith(("http://", "https://")) else urlsplit(self.url)
        words = f"The upload to {to.scheme}://{to.netloc} broke off ({error or type(error).__name__})."
        found = Unavailable(f"{words} Try again: what has arrived whole is not sent twice.")
        found.__cause__ = error
        return found


class BrokenStreamError(Exception):
    """A stream ended before its time; `why` is what to raise when patience is over, after `at_most_s` seconds in any case."""

    def __init__(self, why: Unavailable, at_most_s: float | None = None) -> None:
        super().__init__(str(why))
        self.why, self.at_most_s = why, at_most_s


class Patience:
    """Pauses between tries, 0.2 s doubling to 5 s with jitter, until `seconds` since the last success have passed.

    from_first_failure: they are counted from there, because the first try itself may take long.
    """

    def __init__(self, seconds: float, from_first_failure: bool = False) -> None:
        self._seconds, self._late = seconds, from_first_failure
        self.succeeded()

    def succeeded(self) -> None:
        """Start anew: the other side answered."""
        self._since = time.monotonic()
        self._tries = 0

    def pause(self, why: Unavailable, at_most_s: float | None = None) -> None:
        """Sleep before the next try, or raise `why`. at_most_s: patience is over after that many seconds in any case."""
        planned = min(5.0, 0.2 * 2**self._tries) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
        asked = getattr(why, "asked_pause", None)
        pause = min(_LONGEST_PAUSE, asked) if asked is not None else planned
        if self._late and not self._tries:
            self.succeeded()
        self._tries += 1
        seconds = self._seconds if at_most_s is None else min(self._seconds, at_most_s)
        if time.monotonic() + pause > self._since + seconds:
            raise why
        time.sleep(pause)


def encode(body: Mapping[str, Any]) -> bytes:
    """JSON in ASCII: also lone surrogates, as os.environ has them for bytes that are no UTF-8, survive."""
    return json.dumps(body, allow_nan=False).encode("ascii")


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        remedy = "Set GRIDWEAVE_URL to something like http://127.0.0.1:8200."
        raise Refused(f"{url!r} is not the address of a gateway", field="url", value=url, remedy=remedy)
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise Refused("The API key has characters that no key has", field="api_key", remedy="Set GRIDWEAVE_API_KEY anew, without spaces.")
    return key
