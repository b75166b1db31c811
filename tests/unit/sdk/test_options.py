"""What a function asks for is judged where it is written, not when its first job is refused."""

from __future__ import annotations

from typing import Any

import gridweave as gw
import pytest
from gridweave.limits import job_name


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"vram": "lots"}, "vram"),
        ({"vram": 0}, "vram"),
        ({"vram": float("nan")}, "vram"),
        ({"vram": 0.00001}, "vram"),
        ({"gpus": 0}, "gpus"),
        ({"gpus": 1.5}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"max_hours": 0}, "max_hours"),
        ({"name": "BadName"}, "name"),
        ({"owner": "nobody"}, "owner"),
        ({"gpu": ""}, "gpu"),
        ({"labels": ["a"]}, "labels"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"env": ["numpy"]}, "env"),
        ({"env": {"env_vars": {"1A": "x"}}}, "env.env_vars"),
    ],
)
def test_bad_values_are_refused_at_the_decorator(options: dict[str, Any], field: str) -> None:
    """With field, value and remedy, before any gateway is asked."""
    with pytest.raises(gw.Refused) as caught:
        gw.function(**options)
    assert (field, True) == (caught.value.field, bool(caught.value.remedy))


@pytest.mark.parametrize("vram", ["8GB", "40960MiB", "1.5 g", 8, 0.5, "1TiB", "900GB"])
def test_what_a_gateway_takes_is_taken(vram: Any) -> None:
    """Whether a fleet has such a GPU only its gateway knows."""
    assert vram == gw.function(vram=vram)(len).options.vram


def test_an_unknown_option_is_answered_with_the_known_ones() -> None:
    """`timeout=3` is a good guess; the answer must help further."""
    with pytest.raises(TypeError, match=r"no option 'gpu_count'.*It takes vram, gpus, gpu"):
        gw.function(gpu_count=3)  # type: ignore[call-overload]  # that is the mistake
    with pytest.raises(TypeError, match=r"no option 'label'\. Did you mean labels\?"):
        gw.function(len).with_options(label={})


def test_a_refused_name_says_one_that_would_do() -> None:
    """Names of functions and classes are the usual try."""
    with pytest.raises(gw.Refused, match="such as 'bad-name'"):
        gw.function(name="BadName")


@pytest.mark.parametrize(
    ("function", "name"),
    [("train_model", "train-model"), ("BadName", "bad-name"), ("<lambda>", "lambda"), ("__", "job"), ("ABC", "abc"), ("é", "job")],
)
def test_functions_names_become_dns_labels(function: str, name: str) -> None:
    """A job takes its function's name, whatever Python allows in it."""
    assert name == job_name(function)


def test_use_takes_a_client_only() -> None:
    """A URL given to it would fail much later, and elsewhere."""
    with pytest.raises(TypeError, match=r"gw\.use\(gw\.Client\(url, api_key\)\)"):
        gw.use("http://127.0.0.1:8200")  # type: ignore[arg-type]  # that is the mistake
