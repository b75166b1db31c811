"""Who asks. The runtime proves it; core only decides by it."""

from __future__ import annotations

from enum import StrEnum

from attrs import evolve, frozen


class Role(StrEnum):
    USER = "user"
    PROVIDER = "provider"
    ADMIN = "admin"


class Plan(StrEnum):
    FREE = "free"
    PAID = "paid"


@frozen
class Caller:
    user: str
    role: Role = Role.USER
    plan: Plan = Plan.FREE

    def narrowed(self, plan: str) -> Caller:
        """plan: as the credit service knows it, "" if it does not. The platform's word may narrow it and never widen it."""
        return evolve(self, plan=Plan.FREE) if plan == Plan.FREE else self

    @property
    def admin(self) -> bool:
        return self.role is Role.ADMIN
