"""Values of Kafka's configuration, as its brokers parse them."""

from __future__ import annotations


def parse_boolean(text: str) -> bool | None:
    """Return the boolean, or None where Kafka refuses the text. Case and surrounding blanks do not count: ` TRUE` is
    true."""
    return {"true": True, "false": False}.get(text.strip().lower())
