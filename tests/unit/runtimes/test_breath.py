"""How long those who follow a store wait between two looks."""

from __future__ import annotations

import time

from runtimes.breath import LEAST_S, MOST_S, REST, Breath


def test_who_has_hardly_worked_looks_again_at_once() -> None:
    """A lone job's log and result must not wait for others that do not come."""
    breath = Breath()
    breath.seconds()
    assert LEAST_S == breath.seconds()


def test_who_has_worked_rests_by_that_much_and_not_for_ever() -> None:
    """With hundreds of changes a second, followers leave the processor to those who make them."""
    breath = Breath()
    began = time.thread_time()
    while (worked := time.thread_time() - began) < 2 * LEAST_S / REST:
        pass
    assert min(MOST_S, REST * worked) <= breath.seconds()
    began = time.thread_time()
    while time.thread_time() - began < 2 * MOST_S / REST:
        pass
    assert MOST_S == breath.seconds()
