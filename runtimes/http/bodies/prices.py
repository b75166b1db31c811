"""What price lists look like when they are read and written: credits per hour and shares as decimal texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from attrs import evolve, frozen
from msgspec import Meta

from core import price_lists
from core.pricing import listed_as
from ports import months
from ports.tariffs import PPM, Splits, Tariff
from ports.units import Credits, Instant
from runtimes.http.bodies import fields

MAX_BODY = 256 * 1024
Amount = Annotated[int | float | str, Meta(description="credits per hour, exactly, such as 3.5: at most six decimal places")]
Share = Annotated[int | float | str, Meta(description="a share from 0 to 1, such as 0.1: at most six decimal places")]
Effective = Annotated[str, Meta(max_length=40, description='a time to come such as "2026-12-01T00:00:00Z"; left out: now')]
Models = Annotated[dict[fields.Model, Amount], Meta(max_length=1_000, description="rates per whole GPU of at most 1000 models")]


@frozen
class GpuPricingBody:
    """Of org's hardware. models: replaces all; a model without a rate costs what the formula says. The formula's own two
    rates stay when they are left out."""

    models: Models
    base_rate: Amount | None = None
    vram_rate: Amount | None = None
    effective: Effective | None = None

    def change(self, tariff: Tariff) -> Tariff:
        """Raises Invalid."""
        return evolve(
            tariff,
            org_models=rates(self.models),
            base_rate=tariff.base_rate if self.base_rate is None else price_lists.rate(str(self.base_rate), "base_rate"),
            vram_rate=tariff.vram_rate if self.vram_rate is None else price_lists.rate(str(self.vram_rate), "vram_rate"),
        )


@frozen
class ProviderPricingBody:
    """Of a provider's hardware. models: replaces all; a model without a rate costs what org's formula says."""

    models: Models
    effective: Effective | None = None

    def change(self, tariff: Tariff, owner: str) -> Tariff:
        """Raises Invalid."""
        others = {name: models for name, models in tariff.providers.items() if name not in listed_as(owner)}
        return evolve(tariff, providers=others | ({owner: rates(self.models)} if self.models else {}))


@frozen
class SplitBody:
    """Two shares that add up to 1."""

    platform: Share
    payee: Share


@frozen
class RevenueSplitsBody:
    """rentals: of hardware, the payee being its owner. calls: of paid endpoints. What is left out stays."""

    rentals: SplitBody | None = None
    calls: SplitBody | None = None
    effective: Effective | None = None

    def change(self, tariff: Tariff) -> Tariff:
        """Raises Invalid."""
        return evolve(
            tariff,
            splits=Splits(
                _fee(self.rentals, "rentals", tariff.splits.rental_fee_ppm), _fee(self.calls, "calls", tariff.splits.call_fee_ppm)
            ),
        )


def effective(text: str | None) -> Instant | None:
    return None if text is None else months.read_instant(text, "effective")


def rates(models: Mapping[str, int | float | str]) -> dict[str, int]:
    return {model: price_lists.rate(str(amount), f"models.{model}") for model, amount in sorted(models.items())}


def _fee(given: SplitBody | None, name: str, was: int) -> int:
    return was if given is None else price_lists.fee(str(given.platform), str(given.payee), name)


# ---------------------------------------------------------------- as they are shown


@frozen
class GpuPrices:
    models: dict[str, str]
    base_rate: str
    vram_rate: str

    @staticmethod
    def of(tariff: Tariff) -> GpuPrices:
        return GpuPrices(_shown(tariff.org_models), str(Credits(tariff.base_rate)), str(Credits(tariff.vram_rate)))


@frozen
class ProviderPrices:
    models: dict[str, str]

    @staticmethod
    def of(tariff: Tariff, owner: str) -> ProviderPrices:
        return ProviderPrices(_shown(next((tariff.providers[name] for name in listed_as(owner) if name in tariff.providers), {})))


@frozen
class Split:
    platform: str
    payee: str

    @staticmethod
    def of(ppm: int) -> Split:
        return Split(str(Credits(ppm)), str(Credits(PPM - ppm)))


@frozen
class RevenueSplits:
    rentals: Split
    calls: Split

    @staticmethod
    def of(tariff: Tariff) -> RevenueSplits:
        return RevenueSplits(Split.of(tariff.splits.rental_fee_ppm), Split.of(tariff.splits.call_fee_ppm))


def _shown(models: Mapping[str, int]) -> dict[str, str]:
    return {model: str(Credits(micro)) for model, micro in models.items()}


@frozen
class GpuPricesChange:
    """by, at: whose change, and when. effective: from when on it holds for what is placed."""

    version: int
    by: str
    at: str | None
    effective: str | None
    before: GpuPrices
    after: GpuPrices


@frozen
class GpuPricesView:
    """version: the newest of the whole price list; a write names it in If-Match. now: what holds for what is placed now. prices: what
    holds from `effective` on, the last day for which anything is announced. changes: the newest last; one that was made before
    an announced day is there for that day too."""

    version: int
    effective: str | None
    prices: GpuPrices
    now: GpuPrices
    changes: list[GpuPricesChange]


@frozen
class ProviderPricesChange:
    """As of org's prices."""

    version: int
    by: str
    at: str | None
    effective: str | None
    before: ProviderPrices
    after: ProviderPrices


@frozen
class ProviderPricesView:
    """As of org's prices, for the caller's own hardware."""

    version: int
    effective: str | None
    prices: ProviderPrices
    now: ProviderPrices
    changes: list[ProviderPricesChange]


@frozen
class RevenueSplitsChange:
    """As of org's prices."""

    version: int
    by: str
    at: str | None
    effective: str | None
    before: RevenueSplits
    after: RevenueSplits


@frozen
class RevenueSplitsView:
    """As of org's prices."""

    version: int
    effective: str | None
    prices: RevenueSplits
    now: RevenueSplits
    changes: list[RevenueSplitsChange]
