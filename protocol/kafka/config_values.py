"""Values of Kafka's configuration, as its brokers parse them."""

from __future__ import annotations

from typing import Final

_MAX_DIGITS: Final = 15
_DECIMALS: Final = 3


def parse_boolean(text: str) -> bool | None:
    """Return the boolean, or None where Kafka refuses the text. Case and surrounding blanks do not count: ` TRUE` is
    true."""
    return {"true": True, "false": False}.get(text.strip().lower())


def parse_thousandths(text: str) -> int | None:
    """Return a number without sign and with up to three decimals in thousandths; None for another text.

    "0.5" -> 500, "20" -> 20000"""
    whole, point, decimals = text.strip().partition(".")
    is_number = whole.isascii() and whole.isdigit() and len(whole) <= _MAX_DIGITS
    has_decimals = decimals.isascii() and decimals.isdigit() and len(decimals) <= _DECIMALS
    if not is_number or bool(point) is not has_decimals:
        return None
    return int(whole + decimals.ljust(_DECIMALS, "0"))
