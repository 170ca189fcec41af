"""The mechanisms that a listener can have, as exchanges: PLAIN and SCRAM.

PLAIN: users and passwords are the options `user_<name>="<password>"` of the listener's login module, as in Kafka; they
are read again at each login. SCRAM: credentials are those of Kafka's users in ZooKeeper.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from lethe.adapters.security.accepting import CredentialsUnavailable
from lethe.adapters.security.scram_users import ScramUsers
from lethe.protocol.security.jaas import JaasEntry
from lethe.protocol.security.plain import PlainServer
from lethe.protocol.security.scram import ScramMechanism, ScramServer, user_of

_USER_PREFIX: Final = "user_"
_NONCE_BYTES: Final = 24


class PlainExchange:
    """The server's side of PLAIN. `read` returns the login module as of now."""

    def __init__(self, read: Callable[[], JaasEntry]) -> None:
        self.principal: str | None = None
        self.user: str | None = None
        self._read = read

    async def answer(self, response: bytes) -> bytes:
        """Return the empty challenge. Raises AuthenticationFailed, CredentialsUnavailable."""
        try:
            entry = await asyncio.to_thread(self._read)
        except ValueError as error:
            raise CredentialsUnavailable(str(error)) from error

        def check(name: str, password: str) -> bool:
            expected = entry.options.get(_USER_PREFIX + name)
            if expected is None:
                return False
            self.user = name
            return hmac.compare_digest(expected.encode(), password.encode())

        server = PlainServer(check)
        challenge = server.answer(response)
        self.principal = server.principal
        return challenge


class ScramExchange:
    """The server's side of SCRAM."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self.principal: str | None = None
        self.user: str | None = None
        self._mechanism = mechanism
        self._users = users
        self._server: ScramServer | None = None

    async def answer(self, response: bytes) -> bytes:
        """Return the challenge. Raises AuthenticationFailed, CredentialsUnavailable."""
        if self._server is None:
            user = user_of(response)
            credential = await self._users.find(self._mechanism, user)
            self.user = user if credential is not None else None
            self._server = ScramServer(self._mechanism, secrets.token_urlsafe(_NONCE_BYTES), lambda _: credential)
        challenge = self._server.answer(response)
        self.principal = self._server.principal
        return challenge


def has_users(entry: JaasEntry) -> bool:
    """Return whether the login module has users of PLAIN."""
    return any(name.startswith(_USER_PREFIX) for name in entry.options)
