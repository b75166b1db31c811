"""A function goes in; its outcome and its log come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Node


def test_a_result_comes_back_and_is_stored(either: Node) -> None:
    """The main job."""

    def square(x: int) -> int:
        print("squaring", x)
        return x * x

    report = either.run(square, (7,))
    assert report["exit"]["kind"] == "Returned"
    assert either.result(report["run"]) == 49
    assert either.log(report["run"]) == b"squaring 7\n"
    assert either.blobs.stored[f"jobs/{report['run']}/logs/0/000000000"] == b"squaring 7\n"
