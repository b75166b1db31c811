"""The indexes below the ledger against looking at everything, with amounts close to the edges of their blocks."""

from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from core.buckets import Buckets, Entry
from core.rooms import Room, Rooms, Seat

EDGES = (0, 63, 64, 127, 128, 255, 256, 4_032, 4_095, 4_096, 4_160, 8_191, 8_192, 262_143, 262_144)
AMOUNTS = st.builds(lambda edge, off: max(1, edge + off), st.sampled_from(EDGES), st.integers(-2, 2)) | st.integers(1, 300_000)
ROOMS = st.lists(st.tuples(AMOUNTS, st.integers(0, 3), st.integers(0, 3)), max_size=2).map(tuple)


@define(eq=False)
class Gpu:
    """As much of a GPU as buckets look at."""

    index: int
    offer: int = 0

    @property
    def entry(self) -> Entry:
        return ("node", self.index, self.index, self)


@given(st.lists(st.tuples(st.integers(0, 4), AMOUNTS | st.just(0)) | AMOUNTS, max_size=60))
def test_buckets_find_the_tightest_gpu(history: list[tuple[int, int] | int]) -> None:
    """Each step changes what a GPU offers, or asks: a bit too far to the left or right is a wrong GPU."""
    gpus = [Gpu(at) for at in range(5)]
    buckets: Buckets[Gpu] = Buckets()
    for step in history:
        if isinstance(step, tuple):
            gpu, was = gpus[step[0]], gpus[step[0]].offer
            gpu.offer = step[1]
            if gpu.offer:
                buckets.put(gpu, was)
        else:
            expected = min(((gpu.offer, at) for at, gpu in enumerate(gpus) if gpu.offer >= step), default=None)
            found = buckets.first(step)
            assert expected == (None if found is None else (found.offer, gpus.index(found)))
        assert max(gpu.offer for gpu in gpus) == buckets.greatest()


@given(st.lists(st.tuples(st.integers(0, 4), ROOMS) | AMOUNTS, max_size=60))
def test_rooms_find_the_node_left_with_least(history: list[tuple[int, tuple[Room, ...]] | int]) -> None:
    """Each step changes what a node has room for, or asks: what is remembered of a block may be outdated, never wrong."""
    rooms: Rooms[int] = Rooms()
    seats = [Seat(at) for at in range(5)]
    for step in history:
        if isinstance(step, tuple):
            rooms.put(seats[step[0]], f"node{step[0]}", step[1])
        else:
            fits = [(takes, left, seat.node) for seat in seats for upto, takes, left in seat.rooms if upto >= step]
            assert (min(fits)[2] if fits else None) == rooms.best(step)
            assert max((upto for seat in seats for upto, _, _ in seat.rooms), default=0) == rooms.greatest()


def test_what_is_outdated_does_not_pile_up() -> None:
    """A GPU that goes back and forth between two amounts nobody asks for must not fill the memory."""
    gpus = [Gpu(at) for at in range(20)]
    buckets: Buckets[Gpu] = Buckets()
    rooms: Rooms[int] = Rooms()
    seats = [Seat(at) for at in range(20)]
    for step in range(4_000):
        at, offer = step % 20, 1 + step // 20 % 2
        was, gpus[at].offer = gpus[at].offer, offer
        buckets.put(gpus[at], was)
        rooms.put(seats[at], f"node{at:02d}", ((offer, 0, step % 7),))
    assert sum(len(each) if isinstance(each, list) else 1 for each in buckets._at.values()) < 400
    assert sum(map(len, rooms._heaps.heaps.values())) < 400
