"""The secrets of one run: each is new and occurs nowhere else, so that finding one proves a leak."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

_MARK: Final = "+s/"
"""Characters that base64 and percent-encoding change."""


class Secrets:
    """Passwords and tokens by what they are for."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def password(self, purpose: str) -> str:
        """Return the password for this purpose; the first call makes it."""
        return self.values.setdefault(purpose, f"{secrets.token_hex(8)}{_MARK}{secrets.token_hex(8)}")

    def token(self, purpose: str) -> str:
        """Return a token that an HTTP header can carry."""
        return self.values.setdefault(purpose, secrets.token_hex(32))

    def forms(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield (purpose, encoding, bytes) for all in which a secret could have been written."""
        for purpose, value in self.values.items():
            for encoding, form in forms_of(value):
                yield purpose, encoding, form


def forms_of(value: str) -> Iterator[tuple[str, bytes]]:
    """Yield (encoding, bytes); base64 as it is at any place of a longer text."""
    raw = value.encode()
    yield "plain", raw
    yield "percent-encoded", quote(value, safe="").encode()
    yield "UTF-16", value.encode("utf-16-le")
    yield "JSON", value.replace("/", "\\/").encode()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + raw)
        # The first and the last characters also depend on what stands beside the secret.
        middle = whole[4 if shift else 0 : len(whole) - 4]
        yield f"base64, shifted by {shift}", middle
        yield f"base64 for URLs, shifted by {shift}", middle.replace(b"+", b"-").replace(b"/", b"_")


def found_in(data: bytes, forms: list[tuple[str, str, bytes]]) -> list[str]:
    """Return purpose and encoding of each secret in the data."""
    return [f"{purpose} ({encoding})" for purpose, encoding, form in forms if form in data]
