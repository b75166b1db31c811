"""Which values `gw.function` takes: told where the function is decorated, not when its first job is refused.

These are the bounds that every gateway has. Whether a fleet has such a GPU only its gateway knows. Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from gridweave.errors import Refused

ENV_KEYS = ("pip", "uv", "env_vars", "working_dir")
_MOST_GPUS, _MOST_HOURS, _MOST_MIB = 1024, 8760, 16 * 1024 * 1024
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(|[gmt]i?b?)", re.IGNORECASE | re.ASCII)
_MIB = {"": 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_USER = r"[!-+\--~]{1,128}"
_TEXTS: dict[str, tuple[str, str]] = {
    "gpu": (r"[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,62}", "Give a GPU model as `gridweave gpus` shows it, such as A100-80GB."),
    "vendor": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", "Give a vendor such as nvidia."),
    "provider": (_USER, "Give a provider's id, without spaces."),
    "owner": (rf"org|provider|self_host|provider:{_USER}", "Give org, provider, provider:ID or self_host."),
}


def check(options: Any) -> None:
    """Raises Refused, naming field, value and remedy, for what no gateway takes."""
    _check_vram(options.vram)
    if type(options.gpus) is not int or not 1 <= options.gpus <= _MOST_GPUS:
        raise _refuse("gpus", options.gpus, f"Give a whole number from 1 to {_MOST_GPUS}.")
    hours = options.max_hours
    if hours is not None and (isinstance(hours, bool) or not isinstance(hours, (int, float)) or not 0 < hours <= _MOST_HOURS):
        raise _refuse("max_hours", hours, f"Give a number of hours above 0, at most {_MOST_HOURS}.")
    if options.max_cost is not None and not _is_cost(options.max_cost):
        raise _refuse("max_cost", options.max_cost, "Give credits above 0 with at most six decimal places, such as 2.5.")
    if not isinstance(options.exclusive, bool):
        raise _refuse("exclusive", options.exclusive, "Give True or False.")
    for field, (pattern, remedy) in _TEXTS.items():
        value = getattr(options, field)
        if value is not None and not _fits(pattern, value):
            raise _refuse(field, value, remedy)
    if options.name is not None and not _fits(_LABEL, options.name):
        remedy = f"Give at most 63 lower-case letters, digits and dashes, such as {job_name(str(options.name))!r}."
        raise _refuse("name", options.name, remedy)
    _check_labels(options.labels)
    _check_env(options.env)


def _is_cost(value: object) -> bool:
    found = re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", str(value), re.ASCII) if isinstance(value, (str, int, float)) else None
    return found is not None and not isinstance(value, bool) and float(found[0]) > 0


def job_name(callable_name: str) -> str:
    """A name for a job of that function: a DNS label, as Kubernetes wants names to be."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", callable_name) if callable_name != callable_name.upper() else callable_name
    return re.sub(r"[^a-z0-9]+", "-", spaced.lower()).strip("-")[:50].strip("-") or "job"


def unknown(given: Iterable[str], known: Iterable[str]) -> TypeError:
    """For options that there are not, with what may have been meant."""
    names = list(known)
    each = next(each for each in given if each not in names)
    meant = get_close_matches(each, names, n=1)
    hint = f" Did you mean {meant[0]}?" if meant else ""
    return TypeError(f"gw.function has no option {each!r}.{hint} It takes {', '.join(names)}.")


def _check_vram(vram: object) -> None:
    found = _AMOUNT.fullmatch(str(vram).strip()) if isinstance(vram, (str, int, float)) and not isinstance(vram, bool) else None
    mib = Fraction(Decimal(found[1])) * _MIB[found[2].lower()[:1]] if found else Fraction(0)
    if mib.denominator != 1 or not 0 < mib <= _MOST_MIB:
        raise _refuse("vram", vram, 'Give a positive amount such as "8GB", "40960MiB" or 8 (GB); it must be a whole number of MiB.')


def _check_labels(labels: object) -> None:
    if not isinstance(labels, Mapping):
        raise _refuse("labels", labels, 'Give a dict of texts, such as {"team": "vision"}.')
    for key, value in labels.items():
        if not _fits(rf"({_LABEL}(\.{_LABEL})*/)?{_WORD}", key):
            raise _refuse("labels", key, "A label's key has at most 63 letters, digits, '-', '_' and '.'.")
        if not _fits(rf"({_WORD})?", value):
            raise _refuse(f"labels.{key}", value, "A label's value is a text of at most 63 letters, digits, '-', '_' and '.'.")


def _check_env(env: object) -> None:
    if not isinstance(env, Mapping):
        raise _refuse("env", env, 'Give a dict, such as {"pip": ["numpy"]}.')
    for key in env:
        if key not in ENV_KEYS:
            raise Refused(f"env has an unknown key {key!r}", field="env", value=str(key), remedy=f"Known are {', '.join(ENV_KEYS)}.")
    for key in ("pip", "uv"):
        wanted = env.get(key) or ()
        if isinstance(wanted, str) or not isinstance(wanted, Iterable) or not all(isinstance(each, str) for each in wanted):
            remedy = f'Give a list of requirements, as in env={{"{key}": ["numpy>=2"]}}.'
            raise Refused(f"env[{key!r}] is not a list of texts", field=f"env.{key}", value=repr(wanted)[:200], remedy=remedy)
    variables = env.get("env_vars") or {}
    if not isinstance(variables, Mapping):
        raise _refuse("env.env_vars", variables, 'Give a dict of texts, such as {"SEED": "1"}.')
    for key, value in variables.items():
        if not isinstance(value, str):
            raise Refused(f"env_vars[{key!r}] is not a text", field="env.env_vars", remedy=f"Write it as str, such as {str(1)!r} for 1.")
        if not _fits("[A-Za-z_][A-Za-z0-9_]{0,254}", key):
            raise _refuse("env.env_vars", key, "A variable's name has letters, digits and underscores, and does not begin with a digit.")


def _fits(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def _refuse(field: str, value: object, remedy: str) -> Refused:
    if isinstance(value, float) and not math.isfinite(value):
        return Refused(f"{field} is {value}", field=field, value=str(value), remedy="Give a finite number.")
    return Refused(f"{field} cannot be {value!r:.80}", field=field, value=str(value)[:200], remedy=remedy)
