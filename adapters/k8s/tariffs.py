"""Tariffs as Kubernetes objects: one per version, `v1`, `v2`, …; the schema lets none be changed.

What was read once is known for good: a price is looked up for each placement, and a list waits until the API server's
cache has caught up with everything else that was written (50 ms on average). Whether there is a newer version is one get.
"""

from __future__ import annotations

from collections.abc import Iterator

from adapters.k8s.client import API_VERSION, KubeClient
from adapters.k8s.forms import Form, check_size, original, sendable, time_of, time_text
from adapters.k8s.objects import Objects
from ports.errors import Conflict, NotFound, Unavailable
from ports.tariffs import Splits, Tariff, in_force
from ports.units import Instant

PLURAL = "gridweavetariffs"
SCHEMA = 1


class KubeTariffs:
    """`ports.tariffs.Tariffs`. Who wires it publishes the first version, from the settings."""

    def __init__(self, client: KubeClient) -> None:
        self._namespace = client.namespace
        self._objects = Objects(client, PLURAL)
        self._known: tuple[Tariff, ...] = ()  # the oldest versions, without a gap at their end

    def in_force(self, at: Instant) -> Tariff:
        found = in_force(self._up_to_now(), at)
        if found is None:
            raise NotFound("No tariff is in force at that time.", "tariff", "Publish one that is effective from then or before.")
        return found

    def _up_to_now(self) -> tuple[Tariff, ...]:
        known = self._known or self.history()
        while known and (form := self._objects.get("tariff", f"v{known[-1].version + 1}")) is not None:
            known = (*known, _tariff(form))
        self._known = known
        return known

    def history(self) -> tuple[Tariff, ...]:
        def fold(forms: Iterator[Form]) -> list[Tariff]:
            return [_tariff(form) for form in forms]

        return tuple(sorted(self._objects.read(fold)[0], key=lambda tariff: tariff.version))

    def publish(self, tariff: Tariff) -> Tariff:
        newest = max((each.version for each in self.history()), default=0)
        if tariff.version != newest + 1:
            raise Conflict(f"tariff {tariff.version}")
        made = _object(tariff, self._namespace)
        check_size(f"tariff {tariff.version}", made)
        self._objects.create(f"tariff {tariff.version}", made)
        return tariff


def _object(tariff: Tariff, namespace: str) -> Form:
    spec = {
        "schemaVersion": SCHEMA,
        "version": tariff.version,
        "effective": time_text(tariff.effective),
        "baseRate": tariff.base_rate,
        "vramRate": tariff.vram_rate,
        "orgModels": tariff.org_models,
        "providers": tariff.providers,
        "splits": {"rentalFeePpm": tariff.splits.rental_fee_ppm, "callFeePpm": tariff.splits.call_fee_ppm},
    }
    if tariff.by:
        spec |= {"publishedBy": tariff.by, "publishedAt": time_text(tariff.at)}
    meta = {"name": f"v{tariff.version}", "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "GridweaveTariff", "metadata": meta, "spec": sendable(spec)}


def _tariff(form: Form) -> Tariff:
    name, spec = form["metadata"]["name"], original(form["spec"])
    if spec.get("schemaVersion", 1) > SCHEMA:
        raise Unavailable("a tariff", f"a newer release wrote {name}; this one knows up to schema {SCHEMA}")
    try:
        splits = spec.get("splits", {})
        return Tariff(
            spec["version"],
            time_of(spec["effective"]),
            spec["baseRate"],
            spec["vramRate"],
            dict(spec.get("orgModels", {})),
            {owner: dict(rates) for owner, rates in spec.get("providers", {}).items()},
            Splits(splits.get("rentalFeePpm", Splits().rental_fee_ppm), splits.get("callFeePpm", Splits().call_fee_ppm)),
            spec.get("publishedBy", ""),
            time_of(spec["publishedAt"]) if "publishedAt" in spec else Instant(0),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Unavailable("a tariff", f"object {name} can't be read: {type(error).__name__}: {error}"[:200]) from error
