"""Names of users as parts of paths: percent-encoded, as Kafka's Sanitizer does it."""

from __future__ import annotations

from typing import Final

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def sanitized(name: str) -> str:
    """Return `CN%3Da%20b` for `CN=a b`; other characters than letters, digits, dot, dash and underscore as UTF-8."""
    return "".join(each if each in _PLAIN else "".join(f"%{byte:02X}" for byte in each.encode()) for each in name)
