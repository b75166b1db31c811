"""Whatever happens on the way: what is charged is the closed form, the books sum to zero, no hold is left open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ports.credits import Charge, ChargeAnswer
from tests.money.history import play
from tests.money.wire import WiredCredits


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_any_history_charges_the_closed_form(seed: str) -> None:
    """20,000 random steps in all; `make money-long` plays ten million."""
    done = play(seed, 5_000)
    assert {"lost", "dropped", "doubled", "late", "dies", "died"} == set(done.wire.mishaps)
    assert done.settled > 100
    assert done.ticks > 500
    assert done.covered > 50
    assert len(done.tariffs.history()) > 10


def test_a_biller_that_posts_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that finds nothing wrong with a wrong charge proves nothing."""
    real = WiredCredits._charge

    def one_more(self: WiredCredits, charges: tuple[Charge, ...]) -> Sequence[ChargeAnswer]:
        return real(self, tuple(_dearer(each) for each in charges))

    monkeypatch.setattr(WiredCredits, "_charge", one_more)
    with pytest.raises(AssertionError, match="seed 1, step"):
        play("1", 2_000)


def _dearer(charge: Charge) -> Charge:
    from attrs import evolve

    from ports.units import Credits

    return evolve(charge, totals={name: total + Credits(1) for name, total in charge.totals.items()})
