"""JSON into attrs classes, strictly: nothing is guessed, and every refusal names field, value and remedy.

No duplicate or unknown keys, no bool where a number is wanted, no NaN, no number that is not exact. The bounds
are those of each field's `msgspec.Meta`, which the OpenAPI document shows too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import AttributeValidationNote, BaseValidationError, ForbiddenExtraKeysError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn
from msgspec import Meta

from ports.errors import Invalid

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

AMOUNT = int | float | str  # an amount with or without its unit; arrives as text, exactly as written
RAW = {"raw": True}  # in `extra` of a text's Meta: it may hold bytes that are no UTF-8
_LIMIT = Decimal(10) ** 15
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


def parse(data: bytes) -> Any:
    """JSON text as Python values, numbers with a fraction as Decimal. Raises Invalid."""
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Invalid("The body is not UTF-8.", "body", "Send JSON in UTF-8.") from error
    except json.JSONDecodeError as error:
        message = f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise Invalid(message, "body", "Send one JSON object.", data[:60].decode("utf-8", "replace")) from error
    except (RecursionError, ValueError) as error:
        raise Invalid("The body has a number or a nesting beyond what can be read.", "body", "Send plain JSON.") from error


def structure(value: Any, kind: type[T]) -> T:
    """Raises Invalid for the first thing that is wrong, with its path as field."""
    try:
        return converter.structure(value, kind)
    except (BaseValidationError, Invalid) as error:
        raise _first(error, "") from error


def canonical(value: Any) -> bytes:
    """The same bytes for bodies that say the same, whatever their spacing and order."""
    return _ENCODER.encode(value).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in {earlier for earlier, _ in pairs[:at]})
        raise Invalid(f"The key {twice!r:.60} comes twice in one object.", f"{twice:.60}", "Send each key once.")
    return found


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=_unique)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)


def _wrong(value: Any, wanted: str) -> NoReturn:
    shown = "null" if value is None else json.dumps(value, default=str)
    raise Invalid(f"is {shown:.60}, not {wanted}.", "", f"Send {wanted}.", shown)


def _text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        _wrong(value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid("has half of a surrogate pair.", "", "Send valid Unicode.", ascii(value)) from None
    return value


def _raw_text(value: Any, kind: Any) -> str:
    """Text in which U+DC80 to U+DCFF stand for bytes that are no UTF-8, as in `os.environ`."""
    _text(_ESCAPED_BYTE.sub("", value) if isinstance(value, str) else value, kind)
    return str(value)


def _whole(value: Any, _: Any) -> int:
    return value if type(value) is int else _wrong(value, "a whole number")


def _flag(value: Any, _: Any) -> bool:
    return value if isinstance(value, bool) else _wrong(value, "true or false")


def _number(value: Any, _: Any) -> Decimal:
    number = Decimal(value) if type(value) is int else value
    if not isinstance(number, Decimal) or not number.is_finite() or abs(number) >= _LIMIT:
        _wrong(value, "a number of ordinary size")
    return number


def _amount(value: Any, _: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        _wrong(value, "a number or a text")
    return _text(str(value), str)


def _tuple_hook(kind: Any) -> Hook:
    each = get_args(kind)[0]
    hook = converter.get_structure_hook(each)

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            _wrong(value, "a list")
        return tuple(_located(f"[{at}]", hook, item, each) for at, item in enumerate(value))

    return read


def _dict_hook(kind: Any) -> Hook:
    key_kind, value_kind = get_args(kind)
    key_hook, value_hook = converter.get_structure_hook(key_kind), converter.get_structure_hook(value_kind)

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            _wrong(value, "an object")
        return {
            _located(f".{key:.80}", key_hook, key, key_kind): _located(f".{key:.80}", value_hook, item, value_kind)
            for key, item in value.items()
        }

    return read


def _located(place: str, hook: Hook, value: Any, kind: Any) -> Any:
    try:
        return hook(value, kind)
    except Invalid as error:
        raise attrs.evolve(error, field=place + error.field) from error


def _class_hook(kind: Any) -> Hook:
    hook = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True)

    def read(value: Any, target: Any) -> Any:
        return hook(value, target) if isinstance(value, Mapping) else _wrong(value, "an object")

    return read


def _bounded_hook(kind: Any) -> Hook:
    """Structure the bare type, then hold it against its Meta."""
    bare, *extras = get_args(kind)
    metas = [extra for extra in extras if isinstance(extra, Meta)]
    hook = _raw_text if any(meta.extra == RAW for meta in metas) else converter.get_structure_hook(bare)

    def read(value: Any, _: Any) -> Any:
        made = hook(value, bare)
        for meta in metas:
            if not _within(made, meta):
                _wrong(value, meta.description or "a value within bounds")
        return made

    return read


def _within(value: Any, meta: Meta) -> bool:
    return not (
        (meta.ge is not None and value < meta.ge)
        or (meta.gt is not None and value <= meta.gt)
        or (meta.le is not None and value > meta.le)
        or (meta.min_length is not None and len(value) < meta.min_length)
        or (meta.max_length is not None and len(value) > meta.max_length)
        or (meta.pattern is not None and re.search(meta.pattern, value, re.ASCII) is None)
    )


def _maybe_hook(kind: Any) -> Hook:
    bare = next(each for each in get_args(kind) if each is not type(None))
    hook = converter.get_structure_hook(bare)
    return lambda value, _: None if value is None else hook(value, bare)


def _origin(kind: Any) -> Any:
    return get_origin(kind)


def _is_maybe(kind: Any) -> bool:
    parts = get_args(kind)
    return _origin(kind) in (Union, UnionType) and len(parts) == 2 and type(None) in parts


def _first(error: BaseException, path: str) -> Invalid:
    """The first refusal below a validation error, with the path that leads to it."""
    if isinstance(error, ForbiddenExtraKeysError):
        name = min(error.extra_fields)
        known = ", ".join(each.name for each in attrs.fields(error.cl))
        field = f"{path}.{name}" if path else name
        return Invalid(f"{field!r:.120} is not a field here.", f"{field:.120}", f"The fields are: {known}.", name)
    if isinstance(error, BaseValidationError):
        worst = error.exceptions[0]
        return _first(worst, path + _place(worst, bool(path)))
    if isinstance(error, Invalid):
        where = (path + error.field).lstrip(".") or "body"
        message = f"{where} {error.message}" if error.message.startswith(("is ", "has ")) else error.message
        return Invalid(message, where, error.remedy, error.value)
    if isinstance(error, KeyError):
        return Invalid(f"{path or error.args[0]} is missing.", path or str(error.args[0]), "Add it; /openapi.json says what it may be.")
    raise error


def _place(error: BaseException, nested: bool) -> str:
    for note in getattr(error, "__notes__", []):
        if isinstance(note, AttributeValidationNote):
            return f".{note.name}" if nested else note.name
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]"
    return ""


converter = Converter(forbid_extra_keys=True, detailed_validation=True)
converter.register_structure_hook_factory(attrs.has, _class_hook)
converter.register_structure_hook_factory(lambda kind: _origin(kind) is tuple, _tuple_hook)
converter.register_structure_hook_factory(lambda kind: _origin(kind) is dict, _dict_hook)
converter.register_structure_hook_factory(_is_maybe, _maybe_hook)
converter.register_structure_hook_factory(lambda kind: _origin(kind) is Annotated, _bounded_hook)
for _kind, _hook in ((str, _text), (int, _whole), (bool, _flag), (float, _number)):
    converter.register_structure_hook(_kind, _hook)
converter.register_structure_hook_func(lambda kind: kind == AMOUNT, _amount)
