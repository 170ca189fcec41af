"""The client's SASL login on an open connection to a broker, and when it is repeated.

Theory of operation. SaslHandshake names the mechanism; SaslAuthenticate carries the mechanism's messages until it is
over. The broker may limit how long the login counts (KIP-368, `connections.max.reauth.ms`, or the end of a token). Then
the same exchange is repeated on the same connection before a request, once 85 to 95 % of that time are over: Kafka's
client does so, and the random share keeps many connections from doing it at once.

    SaslHandshake v1  SCRAM-SHA-512   ->  NONE
    SaslAuthenticate  n,,n=lethe,r=…  ->  r=…,s=…,i=4096
    SaslAuthenticate  c=biws,r=…,p=…  ->  v=…, session lifetime 60 s: again before a request after 51 to 57 s
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, cast

from lethe.adapters.kafka.client_errors import AuthenticationRefused
from lethe.adapters.security.secrets import Secret
from lethe.adapters.security.tokens import TokenSource, TokenUnavailable
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.counting import listed
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.kafka.sasl import (
    FIRST_WITH_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.security.exchange import AuthenticationFailed, SaslClient
from lethe.protocol.security.jaas import JaasEntry
from lethe.protocol.security.oauthbearer import OAUTHBEARER, OAuthBearerClient
from lethe.protocol.security.plain import PLAIN, PlainClient
from lethe.protocol.security.principals import sasl_principal
from lethe.protocol.security.scram import Derive, ScramClient, ScramMechanism, salted_password

Ask = Callable[[Request, int], Awaitable[Response]]
"""(request, version) -> response, on the connection that logs in"""
Password = Callable[[], str]
"""Returns the password for the next login. May raise Unusable, OSError, ValueError; their texts do not contain it."""

GSSAPI: Final = "GSSAPI"
_NONCE_BYTES: Final = 24
_EARLIEST: Final = 0.85
_SPREAD: Final = 0.10
_MAX_SHOWN: Final = 300
_MAX_REMEMBERED: Final = 4
_SHORTEST_MASKED: Final = 3
"""Shorter texts occur in any sentence."""
MODULES: Final = {
    PLAIN: "PlainLoginModule",
    ScramMechanism.SHA_256.value: "ScramLoginModule",
    ScramMechanism.SHA_512.value: "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}
"""Class of the login module, without its package, for each mechanism that a client can use."""
MECHANISMS: Final = tuple(MODULES)
"""Names of the mechanisms that a client can use."""
_NAMES: Final = ", ".join(MECHANISMS)


class LoginUnusable(ValueError):
    """The configuration gives no login. The text says what is wrong with it, and contains no secret."""


class _Derived:
    """One salted password, once it is derived."""

    __slots__ = ("lock", "salted")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.salted: bytes | None = None


class SaltedPasswords:
    """Remembers salted passwords of SCRAM: all brokers of a cluster have the same credential of a user.

    Without it a controller that logs in at a hundred brokers derives the same bytes a hundred times, which takes longer
    than a preflight waits. A broker that makes up salts makes only its own logins wait.
    """

    __slots__ = ("_derive", "_found", "_lock")

    def __init__(self, derive: Derive = salted_password) -> None:
        self._derive = derive
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str, bytes, int], _Derived] = {}

    def __len__(self) -> int:
        return len(self._found)

    def derive(self, digest: str, password: str, salt: bytes, iterations: int) -> bytes:
        """Return `salted_password`. May be called from any thread; others with the same arguments wait meanwhile."""
        key = (digest, password, salt, iterations)
        with self._lock:
            derived = self._found.setdefault(key, _Derived())
            if len(self._found) > _MAX_REMEMBERED:
                del self._found[next(iter(self._found))]
        with derived.lock:
            if derived.salted is None:
                derived.salted = self._derive(*key)
            return derived.salted


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one login shows. For clients with exchanges of their own, such as aiokafka, `SaslLogin` tells it."""

    username: str
    """Empty for OAUTHBEARER."""
    secret: Secret
    """The password; for OAUTHBEARER the token."""
    is_token: bool = False
    """Name and secret are id and HMAC of a delegation token."""
    extensions: Mapping[str, str] | None = None
    """Of OAUTHBEARER (KIP-342)."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A mechanism with its credentials. Make it with `plain`, `scram`, `oauthbearer` or `from_jaas`."""

    mechanism: str
    identity: str
    """Who logs in, for messages."""
    principal: str
    """Whom brokers take it for, unless they map names: `User:lethe`, for messages about rights."""
    remedy: str
    """What to check after a refusal."""
    credentials: Callable[[], Awaitable[Credentials]] = field(repr=False)
    """Returns them as of now. Raises TokenUnavailable, Unusable, OSError and ValueError."""
    random: Callable[[], float] = field(default=random.random, repr=False)
    """A number from 0 to 1 for the time of the next login."""
    _salted: SaltedPasswords = field(default_factory=SaltedPasswords, repr=False, compare=False)

    async def client(self) -> SaslClient:
        """Return the client's side of one exchange. Raises what `credentials` raises."""
        found = await self.credentials()
        secret = found.secret.reveal()
        if self.mechanism == PLAIN:
            return PlainClient(found.username, secret)
        if self.mechanism == OAUTHBEARER:
            return OAuthBearerClient(secret, found.extensions)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        mechanism = ScramMechanism(self.mechanism)
        return ScramClient(
            mechanism, found.username, secret, nonce, is_token=found.is_token, derive=self._salted.derive
        )

    @classmethod
    def plain(cls, username: str, password: Password) -> Self:
        """Log in by PLAIN."""
        return cls._with_password(PLAIN, username, password, is_token=False)

    @classmethod
    def scram(cls, mechanism: ScramMechanism, username: str, password: Password, *, is_token: bool = False) -> Self:
        """Log in by SCRAM. `is_token`: name and password are id and HMAC of a delegation token."""
        return cls._with_password(mechanism.value, username, password, is_token=is_token)

    @classmethod
    def _with_password(cls, mechanism: str, username: str, password: Password, *, is_token: bool) -> Self:
        async def credentials() -> Credentials:
            return Credentials(username, Secret(await asyncio.to_thread(password)), is_token)

        return cls(mechanism, f"user {username}", str(sasl_principal(username)), _CHECK_PASSWORD, credentials)

    @classmethod
    def oauthbearer(cls, source: TokenSource, extensions: Mapping[str, str] | None = None) -> Self:
        """Log in by OAUTHBEARER with the token that the source has at that time."""

        async def credentials() -> Credentials:
            return Credentials("", Secret(await source.token()), extensions=extensions)

        remedy = f"check {source}: its expiry, issuer and audience"
        return cls(OAUTHBEARER, str(source), f"the principal of {source}", remedy, credentials)

    @classmethod
    def from_jaas(cls, mechanism: str, entry: JaasEntry, source: TokenSource | None = None) -> Self:
        """Return the login for a mechanism and its login module. Raises LoginUnusable, JaasError, and Unusable for the
        mechanism.

        `source`: where tokens come from, for OAUTHBEARER.
        """
        check_mechanism(mechanism)
        if entry.module_name != MODULES[mechanism]:
            raise LoginUnusable(
                f"the mechanism {mechanism} goes with {MODULES[mechanism]}, and sasl.jaas.config names "
                f"{entry.module_name}: change one of them"
            )
        if mechanism == OAUTHBEARER:
            return cls._from_token(entry, source)
        username, password = entry.option("username"), entry.option("password")
        if mechanism == PLAIN:
            return cls.plain(username, lambda: password)
        is_token = entry.options.get("tokenauth", "").lower() == "true"
        return cls.scram(ScramMechanism(mechanism), username, lambda: password, is_token=is_token)

    @classmethod
    def _from_token(cls, entry: JaasEntry, source: TokenSource | None) -> Self:
        if source is None:
            raise LoginUnusable(
                "OAUTHBEARER needs a token: name the file that contains it, or a command that prints it"
            )
        prefix = "extension_"
        extensions = {
            name.removeprefix(prefix): value for name, value in entry.options.items() if name.startswith(prefix)
        }
        return cls.oauthbearer(source, extensions)


_CHECK_PASSWORD: Final = "check user name and password in sasl.jaas.config, and that the broker has this user"


def check_mechanism(mechanism: str) -> None:
    """Raise Unusable if a client cannot use the mechanism."""
    if mechanism == GSSAPI:
        raise Unusable(
            "is Kerberos, for which Lethe has no library",
            f"set it to one of {_NAMES}, which the broker has to enable as well (sasl.enabled.mechanisms)",
        )
    if mechanism not in MODULES:
        raise Unusable("is no SASL mechanism that Lethe has", f"set it to one of {_NAMES}")


# --- the exchange -------------------------------------------------------------------------------------------------


async def log_in(login: SaslLogin, ask: Ask, offered: Mapping[int, VersionRange], place: str) -> float | None:
    """Log in on a connection. Return the seconds after which to log in again; None if never.

    `offered`: the broker's versions by API key. `place`: peer and protocol, for messages. Raises AuthenticationRefused,
    what `ask` raises, and ProtocolError if the broker does not offer what is required.
    """
    handshake = highest_common_version(ApiKey.SASL_HANDSHAKE, offered)
    authenticate = highest_common_version(ApiKey.SASL_AUTHENTICATE, offered)
    if handshake < FIRST_WITH_AUTHENTICATE:
        raise AuthenticationRefused(f"{place} is older than Kafka 1.0: it knows no SaslHandshake v1, which is required")
    client = await _client(login, place)
    await _name_mechanism(login, ask, handshake, place)
    lifetime_ms = 0
    response: bytes | None = client.first()
    while response is not None:
        answer = cast(SaslAuthenticateResponse, await ask(SaslAuthenticateRequest(response), authenticate))
        if answer.error != ErrorCode.NONE:
            said = shown(masked(answer.error_message or error_name(answer.error), response))
            raise AuthenticationRefused(
                f"{place} refuses {login.identity} with {login.mechanism}: {said}; {login.remedy}"
            )
        lifetime_ms = answer.session_lifetime_ms
        try:
            # SCRAM hashes for a second if the server asks for the most.
            response = await asyncio.to_thread(client.answer, answer.auth_bytes)
        except AuthenticationFailed as error:
            raise AuthenticationRefused(
                f"the login of {login.identity} at {place} with {login.mechanism} failed: {error}"
            ) from error
    return lifetime_ms / 1000 * (_EARLIEST + _SPREAD * login.random()) if lifetime_ms > 0 else None


async def _client(login: SaslLogin, place: str) -> SaslClient:
    try:
        return await login.client()
    except (TokenUnavailable, Unusable, OSError, ValueError) as error:
        raise AuthenticationRefused(f"no login at {place} with {login.mechanism}: {error}") from error


async def _name_mechanism(login: SaslLogin, ask: Ask, version: int, place: str) -> None:
    answer = cast(SaslHandshakeResponse, await ask(SaslHandshakeRequest(login.mechanism), version))
    enabled = shown(listed(answer.mechanisms) or "none")
    match answer.error:
        case ErrorCode.NONE:
            return
        case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise AuthenticationRefused(
                f"{place} does not enable {login.mechanism}, only {enabled}: name one of these in sasl.mechanism "
                f"(between brokers sasl.mechanism.inter.broker.protocol), or enable {login.mechanism} in the broker"
            )
        case ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationRefused(
                f"{place} takes no login here: its listener does not use SASL, so security.protocol is PLAINTEXT or SSL"
            )
        case other:
            raise AuthenticationRefused(
                f"{place} refuses the mechanism {login.mechanism}: {error_name(other)}; it enables {enabled}"
            )


def masked(text: str, sent: bytes) -> str:
    """Return the text without what it repeats of a message: PLAIN and OAUTHBEARER send the secret itself."""
    # The longest first: the password may contain the user name.
    for part in sorted(re.split(r"[\0\x01 ]", sent.decode(errors="replace")), key=len, reverse=True):
        if len(part) >= _SHORTEST_MASKED:
            text = text.replace(part, "***")
    return text


def shown(text: str) -> str:
    """Return a peer's text for a message: one line of limited length."""
    line = "".join(each if each.isprintable() else "?" for each in text[:_MAX_SHOWN])
    return line + ("…" if len(text) > _MAX_SHOWN else "")
