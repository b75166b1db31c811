"""Many jobs at once: order, bounds, failures, and what happens to the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import gridweave as gw
import pytest

from tests.unit.sdk.gateway import Gateway


@gw.function
def quick(x: int, y: int = 0) -> int:
    import time

    time.sleep(0.3 if x == 0 else 0)
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x + y


@gw.function
def forever(x: int) -> int:
    import time

    time.sleep(600 if x else 0)
    return x


def test_results_come_in_order_though_the_first_is_slowest(gateway: Gateway) -> None:
    """The caller matches them to the items by their place."""
    assert [0, 1, 2, 3] == list(quick.map(range(4), concurrency=4))
    assert [5, 7] == list(quick.map([2, 3], [3, 4], concurrency=2))


def test_no_more_than_the_given_number_run_at_once(gateway: Gateway) -> None:
    """A map over a million items must not submit a million jobs."""
    assert list(range(1, 10)) == list(quick.map(range(1, 10), concurrency=2))
    assert 2 >= gateway.most_at_once


def test_endless_iterables_are_taken_as_needed(gateway: Gateway) -> None:
    """And not further than the bound on what is packed ahead."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for each in itertools.count(1):
            taken.append(each)
            yield each

    results = quick.map(items(), concurrency=2)
    assert [1, 2, 3] == list(itertools.islice(results, 3))
    results.close()  # type: ignore[attr-defined]  # a generator
    assert len(taken) <= 3 + 2 * 4


def test_a_failing_job_raises_at_its_place(gateway: Gateway) -> None:
    """What came before it is not lost, and what comes after does not run on."""
    results = quick.map([1, 2, -3, 4], concurrency=2)
    assert [1, 2] == [next(results), next(results)]
    with pytest.raises(ValueError, match="negative: -3"):
        next(results)
    assert [] == list(results)


def test_leaving_the_loop_cancels_what_is_left(gateway: Gateway) -> None:
    """GPUs of results that nobody waits for are given back."""
    for result in forever.map(range(20), concurrency=3):
        assert 0 == result
        break
    assert {"Completed", "Cancelled"} == {run.phase for run in gateway.runs.values()}
    assert len(gateway.runs) < 20


def test_the_function_is_uploaded_once_for_all_items(gateway: Gateway) -> None:
    """However many items, its bytes go over the wire once."""
    table = bytes(range(256)) * 1000

    @gw.function
    def look(x: int) -> int:
        return table[x]

    assert [1, 2, 3] == list(look.map([1, 2, 3]))
    assert gateway.calls["POST uploads"] < 3  # the function, and the modules beside it where those are not small


def test_a_bad_item_is_refused_and_the_rest_cancelled(gateway: Gateway) -> None:
    """It cannot be sent, so its place is never reached."""
    with pytest.raises(gw.Refused, match="argument 1 is a generator"):
        list(forever.map([1, (x for x in "a")], concurrency=2))
    assert {"Cancelled"} >= {run.phase for run in gateway.runs.values()}


def test_a_map_that_credits_do_not_suffice_for_at_once_throttles_itself(gateway: Gateway) -> None:
    """Jobs in flight give their holds back: waiting for one is better than losing what is done."""
    gateway.credits_for = 2
    assert list(range(1, 9)) == list(quick.map(range(1, 9), concurrency=8))
    assert 2 >= gateway.most_at_once


def test_a_map_that_not_one_job_can_be_paid_of_raises(gateway: Gateway) -> None:
    """There is nothing to wait for."""
    gateway.credits_for = 0
    with pytest.raises(gw.Refused, match="needs 8 credits") as caught:
        list(quick.map(range(3), concurrency=3))
    assert "cannot-afford" == caught.value.kind


def test_exceptions_can_be_results(gateway: Gateway) -> None:
    """One bad item of a thousand must not end the other 999; neither must one that cannot be sent."""
    found = list(quick.map([1, -2, (x for x in "a"), 3], concurrency=2, return_exceptions=True))
    assert [1, ValueError, gw.Refused, 3] == [each if isinstance(each, int) else type(each) for each in found]


def test_starmap_takes_tuples_of_arguments(gateway: Gateway) -> None:
    """As itertools and multiprocessing have it."""
    assert [3, 7] == list(quick.starmap([(1, 2), (3, 4)]))
