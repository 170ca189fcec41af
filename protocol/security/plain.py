"""SASL PLAIN (RFC 4616): one message with name and password. Only TLS keeps it secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lethe.protocol.security.exchange import AuthenticationFailed, text_of

PLAIN: Final = "PLAIN"


@dataclass(frozen=True, slots=True)
class PlainToken:
    """The content of the message. `authorization_id` is empty unless the client asks to act as another user."""

    username: str
    password: str = field(repr=False)
    authorization_id: str = ""

    def encode(self) -> bytes:
        """Return the message. Raises ValueError if a part is empty or contains the separator."""
        if not self.username or not self.password:
            raise ValueError(f"SASL PLAIN needs a user name and a password; the {self._empty} is empty")
        if "\0" in self.username + self.password + self.authorization_id:
            raise ValueError("SASL PLAIN cannot carry a user name or a password with the character NUL")
        return "\0".join((self.authorization_id, self.username, self.password)).encode()

    @property
    def _empty(self) -> str:
        return "password" if self.username else "user name"

    @classmethod
    def decode(cls, message: bytes) -> PlainToken:
        """Parse the message. Raises AuthenticationFailed."""
        parts = text_of(message, "the message of SASL PLAIN").split("\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("the message of SASL PLAIN does not consist of a user name and a password")
        return cls(parts[1], parts[2], parts[0])


class PlainClient:
    """The client's side of one exchange."""

    __slots__ = ("_first",)

    def __init__(self, username: str, password: str) -> None:
        self._first = PlainToken(username, password).encode()

    def first(self) -> bytes:
        """Return the only message."""
        return self._first

    def answer(self, challenge: bytes) -> None:
        """Return None. Raises AuthenticationFailed if the server asks for more."""
        if challenge:
            raise AuthenticationFailed("the server continues SASL PLAIN, which has one message")


class PlainServer:
    """The server's side of one exchange. `check` returns whether a user name and a password belong together."""

    __slots__ = ("_check", "principal")

    def __init__(self, check: Callable[[str, str], bool]) -> None:
        self.principal: str | None = None
        self._check = check

    def answer(self, response: bytes) -> bytes:
        """Return the empty challenge that accepts the client. Raises AuthenticationFailed."""
        if self.principal is not None:
            raise AuthenticationFailed("a message of SASL PLAIN came after the end of the exchange")
        token = PlainToken.decode(response)
        if not self._check(token.username, token.password):
            raise AuthenticationFailed("there is no user of this name and password")
        if token.authorization_id not in ("", token.username):
            raise AuthenticationFailed("the client asks to act as another user than the one that authenticates")
        self.principal = token.username
        return b""
