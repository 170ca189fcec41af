"""SaslHandshake and SaslAuthenticate: the requests that carry a SASL exchange (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_WITH_AUTHENTICATE: Final = 1
"""SaslHandshake of this version is followed by SaslAuthenticate requests; version 0 by tokens without any header."""


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest:
    mechanism: str


@dataclass(frozen=True, slots=True)
class SaslHandshakeResponse:
    error: int
    mechanisms: tuple[str, ...] = ()
    """Mechanisms that the listener enables, also in a refusal."""


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest:
    auth_bytes: bytes = field(repr=False)
    """Token of the mechanism. It may contain a password, so no representation shows it."""


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse:
    error: int
    error_message: str | None = None
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: int = 0
    """After this time the broker accepts only another authentication (KIP-368); 0 is no limit."""
