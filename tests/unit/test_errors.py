"""Errors: they carry the facts that explain them, and each tells what its reader may do."""

from __future__ import annotations

import pickle

import pytest
from attrs import asdict

from ports.errors import (
    AlreadyExists,
    CannotAfford,
    Conflict,
    GridweaveError,
    IllegalTransition,
    Invalid,
    NeverFits,
    Refused,
    Unavailable,
)


def test_a_refusal_reads_as_message_and_remedy() -> None:
    """What a person sees says what was wrong and, right after it, what to do."""
    assert "vram is 0. Give more." == str(Invalid("vram is 0.", "vram", "Give more.", "0"))
    assert "no such job" == str(Refused("no such job"))


def test_a_refused_value_is_kept_as_text_and_cut() -> None:
    """A megabyte of nonsense must not come back in the answer, nor stand in a log."""
    assert "7" == Invalid("wrong", value=7).value
    assert "x" * 200 == Invalid("wrong", value="x" * 1_000_000).value


def test_facts_are_there_as_numbers() -> None:
    """An answer over HTTP is made of the facts, not of the sentence."""
    poor = CannotAfford("Too little.", need=8_000_000, have=1)
    assert (8_000_000, 1) == (poor.need, poor.have)
    assert 24_576 == NeverFits("Too large.", largest=24_576).largest


def test_the_families_are_told_apart() -> None:
    """Refused is not worth a retry and Unavailable is; Conflict means: read again. No except clause may catch two."""
    for error, family in ((Invalid("x"), Refused), (Unavailable("ray"), Unavailable), (AlreadyExists("job-1"), Conflict)):
        assert isinstance(error, GridweaveError)
        assert [family] == [each for each in (Refused, Unavailable, Conflict) if isinstance(error, each)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ray is not available", Unavailable("ray")),
        ("ray is not available: no answer in 5 s", Unavailable("ray", "no answer in 5 s")),
        ("job-1 was changed by another writer", Conflict("job-1")),
        ("job-1: Running -> Allocated is not allowed", IllegalTransition("job-1", "Running", "Allocated")),
    ],
)
def test_an_error_names_what_it_is_about(text: str, error: GridweaveError) -> None:
    """In a log the sentence is all there is."""
    assert text == str(error)


@pytest.mark.parametrize(
    "error",
    [
        Invalid("wrong", "vram", "Give more.", "0"),
        CannotAfford("Too little.", need=2, have=1),
        Unavailable("ray", "gone", 9),
        AlreadyExists("job-1"),
    ],
)
def test_an_error_crosses_a_process_with_its_facts(error: Refused | Conflict | Unavailable) -> None:
    """Ray lives in a child process: what it refuses has to arrive as it was."""
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - made by this very line
    assert (type(error), str(error), asdict(error)) == (type(back), str(back), asdict(back))


def test_a_cause_is_kept() -> None:
    """The library's own words are what the operator needs, one level down."""
    cause = OSError("connection refused")
    with pytest.raises(Unavailable) as caught:
        raise Unavailable("store") from cause
    assert cause is caught.value.__cause__
