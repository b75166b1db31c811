"""The one cattrs converter: every stored and sent form of a value type goes through it.

Units become their integers, a RunId its text, enums their values; fields at their default are left out, and
an unknown field is refused.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from ports.units import Credits, Instant, Mib, Span
from ports.workloads import RunId

T = TypeVar("T")


def make_converter() -> Converter:
    """Another one like it, for whoever has to register more."""
    made = Converter(forbid_extra_keys=True, unstruct_collection_overrides={frozenset: sorted})
    for unit in (Mib, Credits, Instant, Span):
        only = attrs.fields(unit)[0].name
        made.register_unstructure_hook(unit, lambda value, only=only: getattr(value, only))
        made.register_structure_hook(unit, lambda value, _, unit=unit: value if isinstance(value, unit) else unit(_whole(value)))
    made.register_unstructure_hook(RunId, str)
    made.register_structure_hook(RunId, lambda value, _: value if isinstance(value, RunId) else RunId.parse(value))
    made.register_unstructure_hook_factory(attrs.has, lambda kind: make_dict_unstructure_fn(kind, made, _cattrs_omit_if_default=True))
    made.register_structure_hook_factory(attrs.has, lambda kind: make_dict_structure_fn(kind, made, _cattrs_forbid_extra_keys=True))
    return made


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"a whole number is wanted, not {value!r:.60}")
    return value


converter = make_converter()


def dump(value: Any) -> str:
    """Compact JSON of a value type; equal values give equal text."""
    return json.dumps(converter.unstructure(value), separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def load(text: str | bytes, kind: type[T]) -> T:
    """Raises whatever json or cattrs raise: use it for forms that we wrote ourselves."""
    return converter.structure(json.loads(text), kind)
