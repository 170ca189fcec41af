"""How aiokafka's clients connect with the TLS and SASL of a `BrokerReach`.

aiokafka has exchanges of its own, so it gets the credentials themselves, as they are when the client is made. It does
not repeat a login on an open connection (KIP-368): the broker closes the connection then, and aiokafka opens another.
Make a new client after a failure, so that changed passwords and certificates are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.adapters.kafka.bootstrap import open_first
from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed, TlsFailed
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.security.login import Credentials, SaslLogin
from lethe.adapters.security.tokens import TokenUnavailable
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.security.oauthbearer import OAUTHBEARER


async def client_options(reach: BrokerReach) -> dict[str, Any]:
    """Return keyword arguments of aiokafka's clients, for a reach with one security protocol.

    Raises AuthenticationRefused and TlsFailed where there is nothing to connect with.
    """
    ((protocol, security),) = reach.security.items()
    found: dict[str, Any] = {"security_protocol": protocol.name}
    try:
        found["ssl_context"] = await asyncio.to_thread(security.context)
    except (OSError, ValueError) as error:
        raise TlsFailed(f"certificates and keys cannot be used: {error}") from error
    if security.login is not None:
        try:
            found |= _sasl(security.login, await security.login.credentials())
        except (TokenUnavailable, Unusable, OSError, ValueError) as error:
            raise AuthenticationRefused(f"no login with {security.login.mechanism}: {error}") from error
    return found


def _sasl(login: SaslLogin, now: Credentials) -> dict[str, Any]:
    if login.mechanism == OAUTHBEARER:
        return {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": _token_provider(login)}
    if now.is_token:
        raise ValueError("delegation tokens are not supported for these connections: give a user and its password")
    return {
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": now.username,
        "sasl_plain_password": now.secret.reveal(),
    }


def _token_provider(login: SaslLogin) -> object:
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        """Gives the token of the time of each connection."""

        def __init__(self) -> None:
            self._extensions: Mapping[str, str] = {}

        async def token(self) -> str:
            now = await login.credentials()
            self._extensions = now.extensions or {}
            return now.secret.reveal()

        def extensions(self) -> Mapping[str, str]:
            return self._extensions

    return Provider()


async def why_unreachable(reach: BrokerReach, servers: Sequence[str], client_id: str) -> str | None:
    """Return why none of the servers (host:port) can be reached; None if one can.

    aiokafka itself only says that it could not connect to any.
    """
    try:
        opened = await open_first(reach, servers, client_id)
    except ConnectionFailed as error:
        return str(error)
    await opened.close()
    return None
