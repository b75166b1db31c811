"""Whose hardware a user may use, and in what order.

The policy is a function of the plan: free users get the organisation's hardware; paying users get providers'
hardware first, then the organisation's. A constraint in the ask narrows that and never widens it. The answer is
an ordered list of pools; packing tries them one after another and knows nothing of plans.
"""

from __future__ import annotations

import re

from attrs import frozen

from ports.errors import Invalid, Refused
from ports.nodes import ORG

FREE = "free"
PAID = "paid"
PROVIDERS = "providers"  # the pool of every provider
SELF_HOST = "self_host"
_PROVIDER = "provider:"
_ID = re.compile(r"[!-~]{1,253}")  # printable ASCII without blanks
_GRAMMAR = 'Give "org", "provider", "provider:<id>" or "self_host", or leave it out.'


@frozen
class Pool:
    """A set of owners. owners: "org", "providers" (all of them) or "provider:<id>"."""

    owners: str

    def has(self, owner: str) -> bool:
        return owner == self.owners or (self.owners == PROVIDERS and owner.startswith(_PROVIDER))

    def __str__(self) -> str:
        return self.owners


ORG_POOL = Pool(ORG)
PROVIDERS_POOL = Pool(PROVIDERS)


def provider(user: str) -> str:
    """The owner whose hardware belongs to that user."""
    return _PROVIDER + user


def is_provider(owner: str) -> bool:
    return owner.startswith(_PROVIDER)


def check_owner(owner: str, name: str = "owner") -> str:
    """The owner of a node, as it came. Raises Invalid unless it is "org" or "provider:<id>"."""
    if owner == ORG or (is_provider(owner) and _ID.fullmatch(owner.removeprefix(_PROVIDER))):
        return owner
    raise Invalid(f"{name} {owner!r:.80} is no owner of hardware.", name, 'Give "org" or "provider:<user id>".', owner)


def pools(user: str, plan: str, constraint: str | None = None) -> tuple[Pool, ...]:
    """The pools that may hold a run of that user, best first.

    constraint: of the ask. Raises Invalid for a constraint or plan that is none, Refused for a free user who
    asks for a provider's hardware (his own is a provider's too).
    """
    if plan not in (FREE, PAID):
        raise Invalid(f"plan {plan!r:.80} is unknown.", "plan", 'It is "free" or "paid".', plan)
    if constraint is None:
        return (ORG_POOL,) if plan == FREE else (PROVIDERS_POOL, ORG_POOL)
    if constraint == ORG:
        return (ORG_POOL,)
    wanted = _providers_wanted(user, constraint)
    if plan == FREE:
        raise Refused(
            f"The free plan runs on the organisation's hardware only, not on {constraint!r:.80}.",
            "owner",
            'A paid plan may use providers\' hardware; on the free plan give "org" or leave owner out.',
        )
    return (wanted,)


def _providers_wanted(user: str, constraint: str) -> Pool:
    """The pool of a constraint that names providers' hardware. Raises Invalid if it names nothing."""
    if constraint == "provider":
        return PROVIDERS_POOL
    if constraint == SELF_HOST:
        return Pool(provider(user))
    if is_provider(constraint) and _ID.fullmatch(constraint.removeprefix(_PROVIDER)):
        return Pool(constraint)
    raise Invalid(f"owner {constraint!r:.80} is no owner constraint.", "owner", _GRAMMAR, constraint)


def may_use(owner: str, user: str, plan: str) -> bool:
    """Whether some ask of that user may be placed on that owner's hardware. Raises Invalid for an unknown plan."""
    return any(pool.has(owner) for pool in pools(user, plan))
