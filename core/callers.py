"""Who asks. The runtime proves it; core only decides by it."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


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

    @property
    def admin(self) -> bool:
        return self.role is Role.ADMIN
