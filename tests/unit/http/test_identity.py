"""Who is asking: counted only with the platform's secret, refused when malformed."""

from __future__ import annotations

import pytest

from core.callers import Caller, Plan, Role
from ports.errors import Forbidden, Invalid
from runtimes.http.identity import Gate
from runtimes.http.refusals import Unauthenticated, UpgradeRequired

PLATFORM, ADMIN = "platform-secret-0123", "admin-secret-012345"
GATE = Gate(PLATFORM, ADMIN, "2.5.1", demo=False)
LOOPBACK = Gate("", ADMIN, "2.5.1", demo=False)
DEMO = Gate("", "", "2.5.1", demo=True)


def headers(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]


PROVEN = ("X-Platform-Token", PLATFORM)


def test_identity_counts_with_the_platforms_secret() -> None:
    """The proxy's word is all that tells users apart."""
    said = headers(PROVEN, ("X-User-Id", "alice"), ("X-User-Role", "provider"), ("X-User-Plan", "paid"))
    assert Caller("alice", Role.PROVIDER, Plan.PAID) == GATE.caller(said)


def test_plan_and_role_are_the_least_when_absent() -> None:
    """A header that got lost must not make anybody richer."""
    assert Caller("alice", Role.USER, Plan.FREE) == GATE.caller(headers(PROVEN, ("X-User-Id", "alice")))


@pytest.mark.parametrize("proof", [[], [("X-Platform-Token", PLATFORM + "x")], [("X-Platform-Token", PLATFORM.upper())]])
def test_identity_without_the_secret_is_nobody(proof: list[tuple[str, str]]) -> None:
    """Anybody can send a header."""
    with pytest.raises(Unauthenticated):
        GATE.caller(headers(*proof, ("X-User-Id", "alice"), ("X-User-Role", "admin")))


@pytest.mark.parametrize("name", ["X-User-Id", "X-User-Role", "X-User-Plan", "X-Platform-Token", "X-SDK-Version"])
@pytest.mark.parametrize("value", ["", " ", "a\x00b", "a\tb", "a\x7fb", "caf\xe9"])
def test_an_empty_or_unprintable_identity_header_is_refused(name: str, value: str) -> None:
    """Two parsers that read it differently would see two users."""
    said = headers((name, value), *(pair for pair in (PROVEN, ("X-User-Id", "alice")) if pair[0] != name))
    with pytest.raises(Invalid) as caught:
        (GATE.check_version if name == "X-SDK-Version" else GATE.caller)(said)
    assert name == caught.value.field
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["X-User-Id", "X-User-Role", "X-User-Plan", "X-Platform-Token", "Authorization"])
def test_a_doubled_identity_header_is_refused(name: str) -> None:
    """One of the two was smuggled past the proxy, even if they agree."""
    with pytest.raises(Invalid) as caught:
        GATE.caller(headers(PROVEN, ("X-User-Id", "alice"), (name, "user"), (name, "user")))
    assert caught.value.field in (name, "X-Platform-Token", "X-User-Id")


@pytest.mark.parametrize("value", ["alice,mallory", "alice, mallory", "alice mallory", "a" * 129])
def test_ids_that_could_be_two_are_refused(value: str) -> None:
    """A server in between may have joined doubled headers by a comma."""
    with pytest.raises(Invalid):
        GATE.caller(headers(PROVEN, ("X-User-Id", value)))


@pytest.mark.parametrize(("name", "value"), [("X-User-Role", "root"), ("X-User-Role", "Admin"), ("X-User-Plan", "gold")])
def test_an_unknown_role_or_plan_is_refused_with_those_that_are_known(name: str, value: str) -> None:
    """Guessing would turn a typing error into a right."""
    with pytest.raises(Invalid) as caught:
        GATE.caller(headers(PROVEN, ("X-User-Id", "alice"), (name, value)))
    assert (name, value) == (caught.value.field, caught.value.value)
    assert "user" in caught.value.remedy or "free" in caught.value.remedy


def test_the_admin_token_as_bearer_makes_an_admin() -> None:
    """Operators must get in while the platform is down."""
    assert Caller("admin", Role.ADMIN, Plan.PAID) == GATE.caller(headers(("Authorization", f"Bearer {ADMIN}")))
    named = headers(PROVEN, ("X-User-Id", "alice"), ("Authorization", f"bearer {ADMIN}"))
    assert Caller("alice", Role.ADMIN, Plan.PAID) == GATE.caller(named)
    unproven = headers(("X-User-Id", "alice"), ("Authorization", f"Bearer {ADMIN}"))
    assert "admin" == GATE.caller(unproven).user


def test_another_bearer_is_the_platforms_affair() -> None:
    """The SDK's API key passes through to us and says nothing here."""
    assert Role.USER is GATE.caller(headers(PROVEN, ("X-User-Id", "alice"), ("Authorization", "Bearer some-api-key"))).role


@pytest.mark.parametrize("bearer", ["Bearer", "Bearer  ", "Bearer x", "Basic x"])
def test_an_unset_admin_token_is_nobodys(bearer: str) -> None:
    """An empty secret must not match an empty bearer."""
    assert Role.USER is DEMO.caller(headers(("X-User-Id", "eve"), ("Authorization", bearer))).role


@pytest.mark.parametrize("gate", [DEMO, Gate("", ADMIN, "2.5.1", demo=True)])
def test_the_demo_takes_no_wrong_key(gate: Gate) -> None:
    """Who mistypes it, or has that of another gateway, would take somebody else's jobs for his own."""
    with pytest.raises(Unauthenticated) as caught:
        gate.caller(headers(("Authorization", f"Bearer {ADMIN}x")))
    assert "GRIDWEAVE_API_KEY" in caught.value.remedy
    assert ADMIN not in str(caught.value)
    assert "demo" == gate.caller([]).user


def test_on_loopback_without_a_secret_whoever_is_there_is_believed() -> None:
    """A developer's own machine has no proxy."""
    assert "alice" == LOOPBACK.caller(headers(("X-User-Id", "alice"))).user
    with pytest.raises(Unauthenticated):
        LOOPBACK.caller([])


def test_the_demo_has_a_default_user_who_pays() -> None:
    """`make demo` must work without any header."""
    assert Caller("demo", Role.USER, Plan.PAID) == DEMO.caller([])
    assert Caller("eve", Role.USER, Plan.FREE) == DEMO.caller(headers(("X-User-Id", "eve")))


ELSEWHERE = ("https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "file://", "http://[::2]")


@pytest.mark.parametrize("origin", ELSEWHERE)
@pytest.mark.parametrize("gate", [DEMO, LOOPBACK])
@pytest.mark.parametrize("said", [[], [("X-User-Id", "alice")], [("X-User-Id", "alice"), ("X-User-Role", "admin")]])
def test_a_web_page_of_elsewhere_is_nobody_on_loopback(gate: Gate, origin: str, said: list[tuple[str, str]]) -> None:
    """Any page that a developer opens is on his machine too, and would submit code in his name."""
    with pytest.raises(Forbidden) as caught:
        gate.caller(headers(("Origin", origin), *said))
    assert ("Origin", origin) == (caught.value.field, caught.value.value)
    assert "PLATFORM_TOKEN" in caught.value.remedy


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443", "http://app.localhost", "http://127.9.9.9"]
)
def test_a_page_of_this_machine_is_believed(origin: str) -> None:
    """A developer's own front end works against the demo."""
    assert "demo" == DEMO.caller(headers(("Origin", origin))).user
    assert "alice" == LOOPBACK.caller(headers(("Origin", origin), ("X-User-Id", "alice"))).user


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8200", "localhost.evil.example:8200", "[::2]:8200", "10.0.0.7"])
def test_a_name_that_was_made_to_point_here_is_a_page_of_elsewhere(host: str) -> None:
    """A GET of a page's own host has no Origin: by a name that its owner resolves to loopback it could read every job."""
    for gate in (DEMO, LOOPBACK):
        with pytest.raises(Forbidden, match="may not act"):
            gate.caller(headers(("Host", host), ("X-User-Id", "alice")))
    assert "alice" == GATE.caller(headers(("Host", host), PROVEN, ("X-User-Id", "alice"))).user


@pytest.mark.parametrize("host", ["localhost:8200", "127.0.0.1:8200", "[::1]:8200", "gpus.example", "gpus.example:8443"])
def test_the_names_of_this_machine_and_of_the_gateway_are_no_strangers(host: str) -> None:
    """Programs say the name by which they found it."""
    gate = Gate("", "", "2.5.1", demo=True, url="https://gpus.example")
    assert "alice" == gate.caller(headers(("Host", host), ("X-User-Id", "alice"))).user


def test_a_page_of_the_gateways_own_is_believed() -> None:
    """GATEWAY_URL says what that is; the Host header would say whatever a page's name resolves to."""
    gate = Gate("", "", "2.5.1", demo=True, url="https://gpus.example/gridweave")
    assert "demo" == gate.caller(headers(("Origin", "https://gpus.example:443"))).user
    with pytest.raises(Forbidden):
        gate.caller(headers(("Origin", "http://gpus.example"), ("Host", "gpus.example")))


def test_behind_a_platform_every_page_may_prove_itself() -> None:
    """CORS_ORIGINS says whose pages may ask; the platform's secret says who asks."""
    page = ("Origin", "https://app.example")
    demo = Gate(PLATFORM, "", "2.5.1", demo=True)
    for gate in (GATE, demo):
        assert "alice" == gate.caller(headers(page, PROVEN, ("X-User-Id", "alice"))).user
        with pytest.raises(Unauthenticated):
            gate.caller(headers(page, ("X-User-Id", "alice")))


@pytest.mark.parametrize(
    "said", [(), (("Host", "localhost"),), (("X-User-Id", "alice"),), (("X-Platform-Token", "wrong"), ("X-User-Id", "alice"))]
)
def test_a_demo_with_the_platforms_secret_takes_nobody_without_it(said: tuple[tuple[str, str], ...]) -> None:
    """It listens on every address: whoever reaches it would run code as its operator."""
    with pytest.raises(Unauthenticated):
        Gate(PLATFORM, "", "2.5.1", demo=True).caller(headers(*said))


def test_a_page_with_the_admin_token_is_the_administrators() -> None:
    """A secret proves more than a place. The name in the headers still counts for nothing."""
    said = headers(("Origin", "https://ops.example"), ("X-User-Id", "alice"), ("Authorization", f"Bearer {ADMIN}"))
    assert Caller("admin", Role.ADMIN, Plan.PAID) == LOOPBACK.caller(said)


@pytest.mark.parametrize("version", ["2.0.0", "2.99.7", "2.5", "2.5.1rc1", "2.6.0.dev1+g1234"])
def test_minor_and_patch_of_a_client_differ_freely(version: str) -> None:
    """Clients are not upgraded in lock-step with the server."""
    GATE.check_version(headers(("X-SDK-Version", version)))


def test_a_client_without_a_version_passes() -> None:
    """curl is a client too."""
    GATE.check_version([])


@pytest.mark.parametrize("version", ["1.9.9", "3.0.0", "20.5.1"])
def test_another_major_is_told_both_versions_and_the_command(version: str) -> None:
    """The user must know what to type."""
    with pytest.raises(UpgradeRequired) as caught:
        GATE.check_version(headers(("X-SDK-Version", version)))
    assert (version, "2.5.1") == (caught.value.client, caught.value.server)
    assert "Install the client of a 2.* release, from a checkout of it: pip install ./sdk" == caught.value.remedy


@pytest.mark.parametrize("version", ["two", "2", "v2.5.1", "2.5.1 beta", "2..1", "-1.0.0", "2.5.1;"])
def test_a_malformed_version_is_refused(version: str) -> None:
    """Letting it pass would let an incompatible client pass."""
    with pytest.raises(Invalid):
        GATE.check_version(headers(("X-SDK-Version", version)))
