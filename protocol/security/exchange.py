"""Both ends of a SASL exchange: what the mechanisms have in common.

Theory of operation. The client speaks first. Each message of the server is a challenge, and each one of the client a
response. The carrier (SaslAuthenticate of Kafka) transports them one after the other.

    client.first()  ──▶  server.answer(...)  ──▶  client.answer(...) is bytes: send them
                                                  client.answer(...) is None: the client has all that it requires

An exchange is over for the client when `answer` returns None, and for the server when it has a `principal`. Whatever
contradicts the mechanism raises AuthenticationFailed; the machine is useless afterwards.
"""

from __future__ import annotations

from typing import Protocol


class AuthenticationFailed(Exception):
    """The other side did not prove what it has to prove, or contradicts the mechanism. The text contains no secret."""


class SaslClient(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """Return the first message."""

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the response to the challenge; None if it was the last one. Raises AuthenticationFailed."""


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def principal(self) -> str | None:
        """Name of the authenticated user; None until the exchange is over."""

    def answer(self, response: bytes) -> bytes:
        """Return the challenge to the client's message. Raises AuthenticationFailed."""


def sasl_name(name: str) -> str:
    """Return a user's name as messages of SCRAM and OAUTHBEARER carry it (`saslname` of RFC 5802)."""
    return name.replace("=", "=3D").replace(",", "=2C")


def user_name(carried: str) -> str:
    """Return the user's name that a message carries; the inverse of `sasl_name`."""
    return carried.replace("=2C", ",").replace("=3D", "=")


def text_of(message: bytes, what: str) -> str:
    """Return the message as text. Raises AuthenticationFailed that names `what` if it is not UTF-8."""
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed(f"{what} is not UTF-8") from None
