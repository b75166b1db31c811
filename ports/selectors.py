"""Label selectors as people type them."""

from __future__ import annotations

from ports.errors import Invalid


def parse_selector(text: str) -> dict[str, str]:
    """ "a=1,b=2" as pairs; "" is none. Raises Invalid for anything but equalities."""
    found: dict[str, str] = {}
    for term in (part.strip() for part in text.split(",") if part.strip()):
        key, sign, value = term.partition("=")
        if not sign or not key.strip() or value.startswith("=") or key.endswith("!"):
            raise Invalid(f"{term!r:.80} is no label.", "label_selector", 'Give "key=value", several with commas between.', text)
        found[key.strip()] = value.strip()
    return found
