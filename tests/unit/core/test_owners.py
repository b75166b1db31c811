"""Whose hardware may be used, by plan and constraint."""

import pytest

from core.owners import ORG_POOL, PROVIDERS_POOL, Pool, check_owner, may_use, pools
from ports.errors import Invalid, Refused

CONSTRAINTS = [None, "org", "provider", "provider:acme", "provider:ann", "self_host"]


def allowed(plan: str, constraint: str | None) -> tuple[Pool, ...]:
    try:
        return pools("ann", plan, constraint)
    except Refused:
        return ()


def test_a_free_user_gets_org_hardware() -> None:
    """The free plan is what the organisation gives away: its own machines, no one else's."""
    assert (ORG_POOL,) == pools("ann", "free")


def test_a_paying_user_gets_providers_first() -> None:
    """Providers earn from paying users: the order is part of the policy."""
    assert (PROVIDERS_POOL, ORG_POOL) == pools("ann", "paid")


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("owner", ["org", "provider:acme", "provider:ann"])
def test_a_free_user_is_never_placed_on_provider_hardware(constraint: str | None, owner: str) -> None:
    """Whatever he asks, and also on machines of his own: they are a provider's."""
    assert owner == "org" or not any(pool.has(owner) for pool in allowed("free", constraint))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("plan", ["free", "paid"])
@pytest.mark.parametrize("owner", ["org", "provider:acme", "provider:ann"])
def test_a_constraint_never_widens(constraint: str | None, plan: str, owner: str) -> None:
    """An ask may give up hardware that the plan allows; it must not win any."""
    assert may_use(owner, "ann", plan) or not any(pool.has(owner) for pool in allowed(plan, constraint))


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("org", ("org",)),
        ("provider", ("providers",)),
        ("provider:acme", ("provider:acme",)),
        ("self_host", ("provider:ann",)),
    ],
)
def test_a_constraint_narrows(constraint: str, expected: tuple[str, ...]) -> None:
    """What the user names is all that he gets."""
    assert expected == tuple(pool.owners for pool in pools("ann", "paid", constraint))


@pytest.mark.parametrize("constraint", ["provider", "provider:acme", "self_host"])
def test_a_free_user_learns_what_would_help(constraint: str) -> None:
    """A refusal without a way out is a support call."""
    with pytest.raises(Refused) as caught:
        pools("ann", "free", constraint)
    assert caught.value.field == "owner"
    assert "paid plan" in caught.value.remedy


@pytest.mark.parametrize(
    "constraint", ["", "Org", "provider:", "provider:a b", "provider:\n", "providers", "acme", "provider:" + "x" * 254]
)
def test_a_constraint_that_is_none_is_refused_with_the_grammar(constraint: str) -> None:
    """A typo must not fall through to the policy and land on hardware that the user meant to avoid."""
    with pytest.raises(Invalid) as caught:
        pools("ann", "paid", constraint)
    assert (caught.value.field, caught.value.value) == ("owner", constraint[:200])
    assert "self_host" in caught.value.remedy


def test_an_unknown_plan_is_refused() -> None:
    """A plan that we do not know must not get the wider policy by accident."""
    with pytest.raises(Invalid):
        pools("ann", "gold")


def test_a_pool_has_its_owners_only() -> None:
    """The pool of all providers is not the organisation's, and a provider named like another's prefix is not that other."""
    assert PROVIDERS_POOL.has("provider:a")
    assert not PROVIDERS_POOL.has("org")
    assert not Pool("provider:a").has("provider:ab")


@pytest.mark.parametrize("owner", ["", "providers", "provider:", "self_host", "provider:a b"])
def test_a_node_needs_an_owner_that_can_be_paid(owner: str) -> None:
    """A node whose owner can't be told gets no work."""
    with pytest.raises(Invalid):
        check_owner(owner)
