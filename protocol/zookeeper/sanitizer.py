"""Names of users as parts of paths: percent-encoded, as Kafka's Sanitizer does it."""

from __future__ import annotations

import re
from typing import Final

_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def sanitized(name: str) -> str:
    """Return `CN%3Da%20b` for `CN=a b`; other characters than letters, digits, dot, dash and underscore as UTF-8."""
    return "".join(each if each in _PLAIN else "".join(f"%{byte:02X}" for byte in each.encode()) for each in name)


def desanitized(name: str) -> str:
    """Return `CN=a b` for `CN%3Da%20b`, and for `CN%3Da+b`, as Java does. A text that is not encoded so is returned as
    it is."""
    try:
        return _ENCODED.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(), name.replace("+", " "))
    except UnicodeDecodeError:
        return name
