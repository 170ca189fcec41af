"""The server's side of a SASL login on one connection, and of its repetitions (KIP-43, KIP-152, KIP-368).

Theory of operation. The client names a mechanism (SaslHandshake), then sends the mechanism's messages
(SaslAuthenticate) until it is authenticated or refused. ApiVersions may come before. Whatever else comes before ends
the connection. With `connections.max.reauth.ms` an authentication ends, and the client repeats it on the same
connection; the mechanism and the principal stay the same.

    client                     server                                       then
    SaslHandshake  PLAIN       UNSUPPORTED_SASL_MECHANISM, those enabled    closed
    SaslAuthenticate, wrong    SASL_AUTHENTICATION_FAILED, Kafka's text     closed
    SaslAuthenticate, right    NONE, session lifetime 60 s                  requests, for 60 s
    a request after 61 s       nothing                                      closed
    SaslHandshake after 50 s   NONE                                         the same exchange again

As in Kafka, the text of a refusal does not tell whether there is such a user. SaslHandshake v0, which is followed by
messages without any header, is not offered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from lethe.adapters.security.login import shown
from lethe.protocol.counting import listed
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.principals import Principal, sasl_principal

SASL_APIS: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {ApiKey.SASL_HANDSHAKE: VersionRange(1, 1), ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2)}
)
BEFORE_LOGIN: Final = frozenset({ApiKey.API_VERSIONS, *SASL_APIS})
"""Requests that are read before the client has authenticated."""
MAX_RECEIVE_BYTES: Final = 524_288
"""Kafka's default of `sasl.server.max.receive.size`."""
MIN_REPEAT_S: Final = 1.0
"""Kafka's shortest time between two authentications on a connection."""


class CredentialsUnavailable(Exception):
    """Whether the credentials are right cannot be said now: the client may try again. The message says why."""


class Exchange(Protocol):
    """The server's side of one exchange of a mechanism."""

    @property
    def principal(self) -> str | None:
        """Name of the authenticated user; None until the exchange is over."""

    @property
    def user(self) -> str | None:
        """Name of the user that authenticates, for the log; None unless there is such a user."""

    async def answer(self, response: bytes) -> bytes:
        """Return the challenge. Raises AuthenticationFailed, CredentialsUnavailable."""


@dataclass(frozen=True, slots=True)
class SaslAcceptance:
    """What a listener with SASL accepts."""

    mechanisms: Mapping[str, Callable[[], Exchange]]
    max_receive_bytes: int = MAX_RECEIVE_BYTES
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """By mechanism; 0, or none: an authentication does not end."""


class SaslAnswer(NamedTuple):
    """The response, if any; and why the connection ends after it, or None."""

    response: SaslHandshakeResponse | SaslAuthenticateResponse | None
    failure: str | None = None


class SaslConversation:
    """SASL on one connection."""

    def __init__(self, acceptance: SaslAcceptance, now_s: Callable[[], float] | None = None) -> None:
        self.principal: Principal | None = None
        """As whom the client has authenticated; kept during a repetition."""
        self._acceptance = acceptance
        self._now_s = asyncio.get_running_loop().time if now_s is None else now_s
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._began_s: float | None = None
        self._ends_s: float | None = None

    @property
    def max_receive_bytes(self) -> int:
        """Limit of requests before the client has authenticated."""
        return self._acceptance.max_receive_bytes

    def refusal(self, api_key: int) -> str | None:
        """Return why a request of this API ends the connection; None if it may be read."""
        if self._exchange is not None:
            if api_key != ApiKey.SASL_AUTHENTICATE:
                return f"it sent {_api_name(api_key)} in the middle of its SASL exchange"
        elif self.principal is None:
            if api_key not in BEFORE_LOGIN:
                return f"it sent {_api_name(api_key)} before it had authenticated"
        elif api_key != ApiKey.SASL_HANDSHAKE and self._ends_s is not None and self._now_s() > self._ends_s:
            return "its authentication had ended (connections.max.reauth.ms), and it did not repeat it"
        return None

    async def answer(self, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> SaslAnswer:
        """Answer a request of the exchange."""
        if isinstance(request, SaslHandshakeRequest):
            return self._begin(request.mechanism)
        return await self._continue(request.auth_bytes)

    def _begin(self, mechanism: str) -> SaslAnswer:
        enabled = tuple(self._acceptance.mechanisms)
        now_s = self._now_s()
        if self.principal is not None:
            too_soon = self._began_s is not None and now_s - self._began_s < MIN_REPEAT_S
            if self._ends_s is None or too_soon:
                return SaslAnswer(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, enabled))
            if mechanism != self._mechanism:
                failure = f"it repeated its authentication by {self._mechanism} with {shown(mechanism)!r}"
                refused = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, (self._mechanism,))
                return SaslAnswer(refused, failure)
        make = self._acceptance.mechanisms.get(mechanism)
        if make is None:
            failure = (
                f"it asked for the SASL mechanism {shown(mechanism)!r}, and this listener has {listed(enabled)}: "
                f"change sasl.mechanism there, or sasl.enabled.mechanisms here"
            )
            return SaslAnswer(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, enabled), failure)
        self._exchange, self._mechanism, self._began_s = make(), mechanism, now_s
        return SaslAnswer(SaslHandshakeResponse(ErrorCode.NONE, enabled))

    async def _continue(self, message: bytes) -> SaslAnswer:
        exchange = self._exchange
        if exchange is None:
            said = "SaslAuthenticate came without SaslHandshake"
            response = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, said)
            return SaslAnswer(response, said if self.principal is None else None)
        try:
            challenge = await exchange.answer(message)
        except AuthenticationFailed as error:
            return self._refused(exchange, str(error))
        except CredentialsUnavailable as error:
            return SaslAnswer(None, f"its credentials could not be checked: {error}")
        if exchange.principal is None:
            return SaslAnswer(SaslAuthenticateResponse(ErrorCode.NONE, None, challenge))
        principal = sasl_principal(exchange.principal)
        if self.principal is not None and principal != self.principal:
            return self._refused(exchange, f"it was {self.principal} and repeated its authentication as {principal}")
        return self._accepted(principal, challenge)

    def _accepted(self, principal: Principal, challenge: bytes) -> SaslAnswer:
        lifetime_ms = max(0, self._acceptance.max_reauth_ms.get(self._mechanism, 0))
        self._ends_s = self._now_s() + lifetime_ms / 1000 if lifetime_ms else None
        self.principal, self._exchange = principal, None
        return SaslAnswer(SaslAuthenticateResponse(ErrorCode.NONE, None, challenge, lifetime_ms))

    def _refused(self, exchange: Exchange, reason: str) -> SaslAnswer:
        again = "authentication" if self.principal is None else "re-authentication"
        said = f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"
        user = "" if exchange.user is None else f" of user {shown(exchange.user)!r}"
        failure = f"the {self._mechanism} {again}{user} failed: {reason}"
        return SaslAnswer(SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, said), failure)


def _api_name(api_key: int) -> str:
    return ApiKey(api_key).name if api_key in list(ApiKey) else f"API {api_key}"
