"""Who is asking, and whether his client is of our major version.

The platform's proxy says who it is, in headers; they count only if the request also carries the platform's
secret. Without a secret the gateway listens on loopback only, and whoever is on this machine is believed; but any web
page that he opens is on this machine too. So a page of another origin is believed only what it can prove.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from functools import cache
from urllib.parse import urlsplit

import falcon.asgi
from attrs import frozen

from core.callers import Caller, Plan, Role
from ports.errors import Forbidden, Invalid
from runtimes.http.refusals import Unauthenticated, UpgradeRequired
from runtimes.settings import Settings

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/version", "/metrics", "/openapi.json", "/docs"})
GRANT_PREFIX = "/v1/blobs/"  # the URL itself is the permission

_USER = re.compile(r"[!-+\--~]{1,128}", re.ASCII)  # printable, without space and comma
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(\.(\d{1,6}))?([-+.]?[0-9A-Za-z.+-]{1,40})?", re.ASCII)

_SAYING_WHO = frozenset(
    name.lower().encode()
    for name in ("X-User-Id", "X-User-Role", "X-User-Plan", "X-Platform-Token", "Authorization", "Origin", "Host", "X-SDK-Version")
)
_KNOWN = 4_096

Headers = Iterable[tuple[bytes, bytes]]


@cache
def _wanted(name: str) -> bytes:
    return name.lower().encode()


def only(headers: Headers, name: str) -> str | None:
    """The value of a header that must not come twice. Raises Invalid if it is doubled, empty or not plain ASCII.

    headers: as ASGI gives them, their names in lower case.
    """
    wanted = _wanted(name)
    found = [value for key, value in headers if key == wanted]
    if not found:
        return None
    if len(found) > 1:
        raise Invalid(f"{name} came {len(found)} times.", name, "Send it once.")
    try:
        value = found[0].decode("ascii").strip(" ")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} has characters outside ASCII.", name, "Send printable ASCII only.") from error
    if not value or not value.isprintable():
        raise Invalid(f"{name} is empty or has control characters.", name, "Send a value, or leave the header out.")
    return value


@frozen
class Gate:
    """What settings say about who may come in. url: this gateway's own, as its operator has set it, "" if he has not."""

    platform_token: str
    admin_token: str
    server_version: str
    demo: bool
    url: str = ""

    @staticmethod
    def of(settings: Settings) -> Gate:
        platform, admin = settings.platform_token.get_secret_value(), settings.admin_token.get_secret_value()
        return Gate(platform, admin, settings.server_version, settings.demo, settings.gateway_url)

    def caller(self, headers: Headers) -> Caller:
        """Raises Invalid on malformed identity headers, Unauthenticated if nobody is named or the demo is given a wrong key,
        and Forbidden if only the place would speak for the caller and a web page of elsewhere asks."""
        headers = list(headers)
        user, role, plan = (only(headers, name) for name in ("X-User-Id", "X-User-Role", "X-User-Plan"))
        proof, bearer = only(headers, "X-Platform-Token"), only(headers, "Authorization")
        named = _named(user, role, plan)
        foreign = self._foreign(only(headers, "Origin"), only(headers, "Host"))
        counted = _same(proof or "", self.platform_token) if self.platform_token else not foreign
        if self._is_admin(bearer):
            return Caller(named.user if counted and user else "admin", Role.ADMIN, Plan.PAID)
        if counted and user:
            return named
        if foreign and not self.platform_token:
            raise _of_a_page(foreign)
        believed = self.demo and not self.platform_token  # with the platform's secret, a demo too may listen to everybody
        if believed and bearer is not None:
            raise _wrong_key()
        if believed:
            return Caller("demo", named.role if counted and role else Role.USER, named.plan if counted and plan else Plan.PAID)
        raise Unauthenticated(
            "The request does not prove who is asking.",
            "X-User-Id",
            "Call through the platform, which adds the identity headers and its X-Platform-Token.",
        )

    def check_version(self, headers: Headers) -> None:
        """Raises UpgradeRequired if the client's major is another, Invalid if it is no version. Absent passes."""
        client = only(headers, "X-SDK-Version")
        if client is None:
            return
        found = _VERSION.fullmatch(client)
        if found is None:
            raise Invalid(f"X-SDK-Version is not a version: {client!r:.60}.", "X-SDK-Version", "Send a version such as 1.4.0.", client)
        major = self.server_version.split(".")[0]
        if int(found[1]) != int(major):
            remedy = f"Install the client of a {major}.* release, from a checkout of it: pip install ./sdk"
            message = f"This client is gridweave {client}, the server is {self.server_version}: their major versions must agree."
            raise UpgradeRequired(message, "X-SDK-Version", remedy, client, self.server_version)

    def _foreign(self, origin: str | None, host: str | None) -> str:
        """The origin of a web page that is neither of this machine nor of this gateway; "" for every other request.

        A browser sends no Origin with a GET of a page's own host, but always the Host: if that is a name which its owner
        has made to point here (DNS rebinding), it is the page's origin.
        """
        if origin is not None and not _is_loopback(origin) and not (self.url and _origin(origin) == _origin(self.url)):
            return origin
        page = f"http://{host}"
        if host is not None and not _is_loopback(page) and not (self.url and _origin(page)[1] == _origin(self.url)[1]):
            return page
        return ""

    def _is_admin(self, bearer: str | None) -> bool:
        scheme, _, token = (bearer or "").partition(" ")
        return bool(self.admin_token) and scheme.lower() == "bearer" and _same(token.strip(), self.admin_token)


class Identify:
    """Falcon middleware: puts the caller into `req.context.caller`, or refuses.

    Who has been let in by the same headers before is let in by a look: only what was believed is remembered.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._known: dict[tuple[tuple[bytes, bytes], ...], Caller] = {}

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if req.path in OPEN_PATHS or req.method == "OPTIONS" or req.path.startswith(GRANT_PREFIX):
            return
        headers = req.scope["headers"]
        said = tuple([header for header in headers if header[0] in _SAYING_WHO])
        caller = self._known.get(said)
        if caller is None:
            self._gate.check_version(headers)
            caller = self._gate.caller(headers)
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[said] = caller
        req.context.caller = caller


def caller_of(req: falcon.asgi.Request) -> Caller:
    caller = req.context.caller
    assert isinstance(caller, Caller)  # noqa: S101 - the middleware has put it there, or refused
    return caller


def admin_of(req: falcon.asgi.Request) -> Caller:
    """Raises Forbidden unless the caller is an admin."""
    caller = caller_of(req)
    if not caller.admin:
        raise Forbidden("Only an admin may do this.", "X-User-Role", "Ask an administrator, or use the ADMIN_TOKEN as bearer.")
    return caller


def provider_of(req: falcon.asgi.Request) -> Caller:
    """Raises Forbidden unless the caller is a provider."""
    caller = caller_of(req)
    if caller.role is not Role.PROVIDER:
        raise Forbidden("Only a provider may do this.", "X-User-Role", "Ask an administrator for the role of a provider.")
    return caller


def _named(user: str | None, role: str | None, plan: str | None) -> Caller:
    if user is not None and _USER.fullmatch(user) is None:
        remedy = "Send one id of at most 128 printable characters without spaces and commas."
        raise Invalid(f"X-User-Id is not a user id: {user!r:.60}.", "X-User-Id", remedy, user)
    if role is not None and role not in list(Role):
        raise Invalid(f"X-User-Role is {role!r:.60}.", "X-User-Role", f"Send one of {', '.join(Role)}.", role)
    if plan is not None and plan not in list(Plan):
        raise Invalid(f"X-User-Plan is {plan!r:.60}.", "X-User-Plan", f"Send one of {', '.join(Plan)}.", plan)
    return Caller(user or "", Role(role or "user"), Plan(plan or "free"))


def _wrong_key() -> Unauthenticated:
    """Taken for the user of the demo, its sender would believe that the key is right."""
    return Unauthenticated(
        "This key is none of this gateway's. It serves a demo, which needs no key.",
        "Authorization",
        "Unset GRIDWEAVE_API_KEY (or leave the header out) to be the user demo; to be an administrator, give this gateway's ADMIN_TOKEN.",
    )


def _of_a_page(origin: str) -> Forbidden:
    return Forbidden(
        f"A web page of {origin!r:.80} may not act for whoever is on this machine: the request proves nobody's identity.",
        "Origin",
        "Call from a program or from a page on localhost; other pages need a gateway with PLATFORM_TOKEN, behind its platform.",
        origin[:200],
    )


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port. What can't be read equals nothing that a setting may hold."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", port


def _is_loopback(origin: str) -> bool:
    scheme, host, _ = _origin(origin)
    if scheme not in ("http", "https"):
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
