"""A call that Python itself would refuse is refused here: before anything is uploaded, booked or billed."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import gridweave as gw
import pytest
from gridweave.errors import WrongArguments

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli


@gw.function
def square(x: int, *, times: int = 1) -> int:
    return x * x * times


@gw.function
def power(x: int, y: int) -> int:
    return int(x**y)


def injecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the first argument itself, as a decorator that opens a database does."""

    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function("db", *args)

    return inner


@gw.function
@injecting
def query(db: str, x: int) -> str:
    return f"{db} {x}"


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "square() missing a required argument: 'x'. It is square(x, *, times=1). Nothing was sent."),
        ((1, 2), {}, "square() too many positional arguments. "),
        ((1,), {"time": 2}, "square() got an unexpected keyword argument 'time'. "),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    gateway: Gateway, args: tuple[int, ...], kwargs: dict[str, int], words: str
) -> None:
    """It is a TypeError for whoever knows Python, and a refusal for whoever knows us."""
    for way in (square.remote, square.spawn):
        with pytest.raises(TypeError) as caught:
            way(*args, **kwargs)
        assert isinstance(caught.value, gw.Refused)
        assert str(caught.value).startswith(words)
    assert {} == dict(gateway.calls)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda f: f.map([1, 2], times=7),
            "square.map() got an unexpected keyword argument 'times'. It is square.map(iterable, *more, concurrency=32, return",
        ),
        (lambda f: f.map(), "square.map() missing a required argument: 'iterable'. "),
        (lambda f: f.map.aio([1], times=7), "square.map.aio() got an unexpected keyword argument 'times'. "),
        (lambda f: f.starmap([(1,)], 7), "square.starmap() too many positional arguments. "),
        (lambda f: f.estimate(1), "square.estimate() too many positional arguments. It is square.estimate(). Nothing was sent."),
        (lambda f: f.estimate.aio(x=1), "square.estimate.aio() got an unexpected keyword argument 'x'. "),
    ],
)
def test_arguments_that_a_way_does_not_take_are_refused_in_the_callers_words(
    gateway: Gateway, call: Callable[[Any], Any], words: str
) -> None:
    """He wrote `square.map`, and has never met the class behind it."""
    with pytest.raises(TypeError) as caught:
        call(square)
    assert isinstance(caught.value, gw.Refused)
    assert str(caught.value).startswith(words)
    assert {} == dict(gateway.calls)


def test_an_argument_may_be_the_same_for_all(gateway: Gateway) -> None:
    """It is what `square.map([1, 2], times=7)` was meant to be."""
    assert [4, 9] == list(power.map([2, 3], itertools.repeat(2)))


def test_an_item_that_does_not_fit_fails_at_its_place(gateway: Gateway) -> None:
    """The others of a map are not lost for it."""
    found = list(square.starmap([(2,), (3, 4), (5,)], return_exceptions=True))
    assert [int, WrongArguments, int] == [type(each) for each in found]
    assert [4, 25] == found[::2]
    assert 2 == len(gateway.runs)


def test_a_wrapper_is_asked_for_its_own_arguments(gateway: Gateway) -> None:
    """What functools.wraps shows is the signature of another function."""
    assert "db 7" == query.remote(7)


def test_what_tells_no_signature_passes(gateway: Gateway) -> None:
    """Functions of C have none, or only for readers."""
    largest = gw.function(max)
    assert 3 == largest.remote(1, 3)
    assert 3 == gw.function(math.hypot).remote(3.0)

    def shown(*values: int) -> int:
        return len(values)

    shown.__signature__ = 5  # type: ignore[attr-defined]
    assert 2 == gw.function(shown).remote(1, 2)


def test_the_command_refuses_them_as_well(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Its arguments come from a shell, where one is forgotten easily."""
    assert 2 == cli(["submit", "examples/hello.py:square"])
    assert capsys.readouterr().err.startswith("error: square() missing a required argument: 'x'.")
    assert {} == dict(gateway.calls)


def test_a_decorated_method_is_refused_in_plain_words() -> None:
    """Python wraps what its own hook for names raises; the reader should see the reason first."""
    words = r"^Model\.train is a method: decorate a plain function that takes the object as an argument$"
    with pytest.raises(TypeError, match=words):

        class Model:
            @gw.function
            def train(self) -> None: ...

    with pytest.raises(TypeError, match=words):

        class Model:  # type: ignore[no-redef]
            @gw.function(vram="8GB")
            def train(self) -> None: ...


def test_decorators_of_methods_are_refused_on_either_side_where_they_stand() -> None:
    """At the call it would be want of an argument that nobody forgot."""
    class_method = (
        r"^Model\.train is a class method: decorate a plain function that takes the class as an argument, or put @staticmethod above"
    )
    with pytest.raises(TypeError, match=class_method):

        class Model:
            @classmethod
            @gw.function(vram="8GB")
            def train(cls) -> None: ...

    with pytest.raises(TypeError, match=class_method):

        class Model:  # type: ignore[no-redef]
            @gw.function
            @classmethod
            def train(cls) -> None: ...

    a_property = r"^Model\.train is a property: decorate a plain function that takes the object as an argument$"
    with pytest.raises(TypeError, match=a_property):

        class Model:  # type: ignore[no-redef]
            @property
            @gw.function
            def train(self) -> None: ...

    with pytest.raises(TypeError, match=a_property):

        class Model:  # type: ignore[no-redef]
            @gw.function(vram="8GB")  # type: ignore[prop-decorator]  # which is wrong here too
            @property
            def train(self) -> None: ...

    with pytest.raises(TypeError, match=a_property):

        class Model:  # type: ignore[no-redef]
            @functools.cached_property
            @gw.function
            def train(self) -> None: ...

    with pytest.raises(TypeError, match=r"^Model\.train is a static method already: put @staticmethod above @gw\.function, not below it$"):

        class Model:  # type: ignore[no-redef]
            @gw.function
            @staticmethod
            def train() -> None: ...


def test_a_property_elsewhere_in_the_class_is_no_ones_business(gateway: Gateway) -> None:
    """Only the decorators of the function itself count."""

    class Model:
        @property
        def size(self) -> int:
            return 1

        kinds = (classmethod, property)

        @staticmethod
        @gw.function
        def train() -> None: ...

    assert Model.train() is None


def test_a_static_method_is_a_plain_function(gateway: Gateway) -> None:
    """Nothing is bound to it, so it may travel."""

    class Numbers:
        @staticmethod
        @gw.function(vram="8GB")
        def double(x: int) -> int:
            return 2 * x

    assert (8, 8) == (Numbers.double(4), Numbers.double.remote(4))
