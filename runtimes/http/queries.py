"""Query parameters and path segments, read as strictly as bodies: unknown, doubled and malformed ones are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

import falcon.asgi

from ports.errors import Invalid

_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class Query:
    """The parameters of one request. Raises Invalid naming the parameter."""

    def __init__(self, req: falcon.asgi.Request, known: Iterable[str]) -> None:
        names = tuple(known)
        try:
            pairs = parse_qsl(req.query_string, keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=100)
        except ValueError as error:
            raise Invalid("The query can't be read.", "query", "Percent-encode it as UTF-8.", req.query_string) from error
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in names:
                remedy = f"The parameters are: {', '.join(names)}." if names else "This route takes none."
                raise Invalid(f"{name!r:.60} is no parameter here.", f"{name:.60}", remedy, value)
            if "\x00" in value or len(value) > 512:
                raise Invalid(f"{name} has a NUL or more than 512 characters.", name, "Send plain text.", value)
            self._values.setdefault(name, []).append(value)

    def text(self, name: str, default: str = "") -> str:
        values = self._values.get(name, [default])
        if len(values) > 1:
            raise Invalid(f"{name} came {len(values)} times.", name, "Send it once.", values[1])
        return values[0]

    def many(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self.text(name, str(default))
        if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) is None or not low <= int(value) <= high:
            raise Invalid(f"{name} is {value!r:.60}.", name, f"Send a whole number from {low} to {high}.", value)
        return int(value)

    def seconds(self, name: str, high: int) -> float:
        value = self.text(name, "0")
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value, re.ASCII) is None or float(value) > high:
            raise Invalid(f"{name} is {value!r:.60}.", name, f"Send a number of seconds from 0 to {high}.", value)
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.text(name, "false")
        if value not in ("true", "false"):
            raise Invalid(f"{name} is {value!r:.60}.", name, "Send true or false.", value)
        return value == "true"


def model_name(text: str) -> str:
    """Raises Invalid unless a model could have that name."""
    if _ID.fullmatch(text) is None:
        remedy = "Choose at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends."
        raise Invalid("That is no name of a model.", "name", remedy, ascii(text)[1:-1])
    return text


def job_id(text: str) -> str:
    """Raises Invalid unless it could be the id of a job."""
    if _ID.fullmatch(text) is None:
        raise Invalid("That is no job id.", "id", "Send the id that submit gave, such as job-abcdefghij2345678901.", ascii(text)[1:-1])
    return text
