"""SASL OAUTHBEARER (RFC 7628, KIP-255): one message with a token.

Theory of operation. A server that accepts the token answers with nothing. Another one answers with JSON that says why;
the client confirms it with one byte, and only then the server reports the failure.

    client  n,,^Aauth=Bearer <token>^A^A           server  (empty)                       accepted
    client  n,,^Aauth=Bearer <token>^A^A           server  {"status":"invalid_token"}
    client  ^A                                     server  fails
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lethe.protocol.security.exchange import AuthenticationFailed, sasl_name, text_of, user_name

OAUTHBEARER: Final = "OAUTHBEARER"

_SEPARATOR: Final = "\x01"
_CONFIRMATION: Final = b"\x01"
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_SASL_NAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)*)\x01"
)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """The content of the message. `extensions`: further names and values for the server (KIP-342)."""

    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    authorization_id: str = ""

    def encode(self) -> bytes:
        """Return the message. Raises ValueError if a part cannot be carried; it does not quote the part."""
        if not _TOKEN.fullmatch(self.token):
            raise ValueError("the text is no OAuth token: it is empty, or has characters that tokens do not have")
        for name, value in self.extensions.items():
            if name == "auth" or not _KEY.fullmatch(name):
                raise ValueError(f"{name!r} is no name for an extension of OAUTHBEARER: only letters, and not auth")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of the extension {name!r} of OAUTHBEARER is not printable ASCII")
        pairs = {"auth": f"Bearer {self.token}", **self.extensions}
        name = sasl_name(self.authorization_id)
        shown = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        return f"n,{name and 'a=' + name},{_SEPARATOR}{shown}{_SEPARATOR}".encode()

    @classmethod
    def decode(cls, message: bytes) -> BearerToken:
        """Parse the message. Raises AuthenticationFailed."""
        found = _FIRST.fullmatch(text_of(message, "the message of OAUTHBEARER"))
        if found is None:
            raise AuthenticationFailed("the message of OAUTHBEARER is malformed, or asks for channel binding")
        pairs = dict(pair.partition("=")[::2] for pair in found["pairs"].split(_SEPARATOR)[:-1])
        scheme, _, token = pairs.pop("auth", "").partition(" ")
        token = token.lstrip(" ")
        if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
            raise AuthenticationFailed("the message of OAUTHBEARER has no bearer token")
        return cls(token, pairs, user_name(found["authzid"] or ""))


class OAuthBearerClient:
    """The client's side of one exchange."""

    __slots__ = ("_first", "_refusal")

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._first = BearerToken(token, extensions or {}).encode()
        self._refusal: str | None = None

    def first(self) -> bytes:
        """Return the message with the token."""
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        """Return None if the server accepts the token, and the confirmation if it does not.

        Raises AuthenticationFailed if the server continues after the confirmation.
        """
        if self._refusal is not None:
            raise AuthenticationFailed(f"the server does not accept the token: {self._refusal}")
        if not challenge:
            return None
        self._refusal = _status(challenge)
        return _CONFIRMATION


def _status(challenge: bytes) -> str:
    """Return the status that the server gives as the reason."""
    try:
        status = json.loads(challenge)["status"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return "it gives no reason"
    return status if isinstance(status, str) and re.fullmatch(r"[\x20-\x7e]{1,200}", status) else "it gives no reason"
