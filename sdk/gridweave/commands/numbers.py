"""Numbers of the command line: a whole number is what is written as one, since 1.5 GPUs rounded to two would be booked and billed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cyclopts import Parameter, Token

from gridweave.errors import Refused

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """Raises Refused for what is no whole number; the parser's own would round it."""
    token = tokens[0]
    if _WHOLE.fullmatch(token.value):
        return int(token.value)
    option = token.keyword or "The number"
    remedy = "Give a whole number, such as 2."
    raise Refused(f"{option} cannot be {token.value!r:.80}", kind="usage", field=option.lstrip("-"), value=token.value, remedy=remedy)


WHOLE = Parameter(converter=_whole)
