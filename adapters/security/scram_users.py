"""The SCRAM credentials of Kafka's users, from `/config/users/<user>` in ZooKeeper.

A credential is read when its user logs in, and kept for some seconds, since a broker opens several connections at once.
So a changed password counts within `FRESH_S`. While ZooKeeper cannot be read, the last credential of a user that has
logged in before counts, as in Kafka; others cannot be checked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from lethe.adapters.security.accepting import CredentialsUnavailable
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.protocol.security.exchange import AuthenticationFailed
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.zookeeper.json_fields import MalformedZnode
from lethe.protocol.zookeeper.operations import Data, GetData, ReadOutcome, ZkError, is_absent, read_error
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import decode_config

FRESH_S: Final = 5.0
MAX_USERS: Final = 1_000
MAX_NAME: Final = 1_000
"""Characters of a user's name; a longer one is nobody's."""
_NO_ZNODES: Final = (".", "..")
_AT_ONCE: Final = 10


class _Known(NamedTuple):
    credentials: dict[str, str]
    """Texts by mechanism; empty: there is no such user."""
    read_s: float


class ScramUsers:
    """Finds credentials. `session` returns the session of the moment, or None."""

    def __init__(
        self, session: Callable[[], ZooKeeperSession | None], now_s: Callable[[], float] | None = None
    ) -> None:
        self._session = session
        self._now_s = now_s
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the user's credential; None if there is none. Raises AuthenticationFailed for one that is damaged, and
        CredentialsUnavailable."""
        if len(user) > MAX_NAME or user in _NO_ZNODES:
            return None
        text = (await self._credentials(user)).get(mechanism.value)
        if text is None:
            return None
        try:
            return ScramCredential.parse(text)
        except ValueError as error:
            remedy = "write it again with kafka-configs"
            raise AuthenticationFailed(f"{config_user(user)[:200]}: {mechanism.value}: {error}; {remedy}") from None

    async def _credentials(self, user: str) -> dict[str, str]:
        async with self._slots:
            known, now_s = self._known.get(user), self._now()
            if known is not None and now_s - known.read_s < FRESH_S:
                return known.credentials
            try:
                found = await self._read(user)
            except CredentialsUnavailable:
                if known is not None and known.credentials:
                    return known.credentials
                raise
            self._known[user] = _Known(found, now_s)
            self._known.move_to_end(user)
            self._forget()
            return found

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._now_s is None else self._now_s()

    def _forget(self) -> None:
        """Forget the user that was read longest ago, and names of nobody before any user."""
        if len(self._known) > MAX_USERS:
            nobody = next((name for name, known in self._known.items() if not known.credentials), None)
            del self._known[next(iter(self._known)) if nobody is None else nobody]

    async def _read(self, user: str) -> dict[str, str]:
        session, path = self._session(), config_user(user)
        if session is None:
            raise CredentialsUnavailable("there is no session with ZooKeeper, which has the SCRAM credentials")
        try:
            (outcome,) = await session.read([GetData(path)])
        except SessionLost as error:
            raise CredentialsUnavailable(str(error)) from error
        return _decoded(path, outcome)


def _decoded(path: str, outcome: ReadOutcome) -> dict[str, str]:
    if isinstance(outcome, Data):
        try:
            return decode_config(path, outcome.data)
        except MalformedZnode as malformed:
            raise AuthenticationFailed(f"{malformed}; write it again with kafka-configs") from None
    error = read_error(outcome)
    if is_absent(outcome) or error is ZkError.BAD_ARGUMENTS:
        return {}
    name = "unknown" if error is None else error.name
    raise CredentialsUnavailable(f"{path[:200]} cannot be read ({name}): let this process read it, as brokers do")
