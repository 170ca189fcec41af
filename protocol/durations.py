"""Durations as people write them: `90s`, `30m`, `24h`, `7d`, `0`."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

_UNITS_MS: Final = MappingProxyType({"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000})
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)", re.ASCII)


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of a whole number with a unit; 0 needs none. Raises ValueError."""
    if text.strip() == "0":
        return 0
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no duration: write a whole number and its unit, such as 90s, 30m, 24h or 7d")
    return int(found[1]) * _UNITS_MS[found[2]]
