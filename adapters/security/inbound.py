"""The security of a process's listeners: who may connect, who it is then, and what it may do.

What stands in ZooKeeper is followed with each session of the process: Kafka's ACLs, and the credentials of users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from lethe.adapters.kafka.admission import OPEN, Admission
from lethe.adapters.kafka.peers import Handler
from lethe.adapters.peers import Peer
from lethe.adapters.security.accepting import MAX_RECEIVE_BYTES, Exchange, SaslAcceptance
from lethe.adapters.security.access import AccessControl, AccessSettings
from lethe.adapters.security.acl_reader import RETRY_S, AclReader
from lethe.adapters.security.exchanges import PlainExchange, ScramExchange
from lethe.adapters.security.refusal_counts import OF_SASL, OF_TLS, RefusalCounts
from lethe.adapters.security.scram_users import ScramUsers
from lethe.adapters.security.tls import ClientAuth, TlsMaterial
from lethe.adapters.zookeeper.interface import OnWatch, OpenSession, SessionLost, ZooKeeperSession
from lethe.protocol.security.jaas import JaasEntry
from lethe.protocol.security.plain import PLAIN
from lethe.protocol.security.principal_mapping import DEFAULT_MAPPING, PrincipalMapping
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import Endpoint
from lethe.protocol.zookeeper.operations import WatchFired

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """What is configured for one listener."""

    tls: TlsMaterial | None = None
    mechanisms: tuple[str, ...] = ()
    """Enabled mechanisms of SASL, of those that can be served; empty without SASL."""
    read_plain: Callable[[], JaasEntry] | None = None
    """Returns the login module with the users of PLAIN as of now. Raises ValueError."""
    mapping: PrincipalMapping = DEFAULT_MAPPING
    max_receive_bytes: int = MAX_RECEIVE_BYTES
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """By mechanism."""
    max_login_ms: int = 30_000
    failure_delay_ms: int = 100


@dataclass(frozen=True, slots=True)
class InboundSettings:
    """What is configured for all listeners."""

    listeners: Mapping[str, ListenerSettings] = field(default_factory=dict)
    """By the listener's name; one that is missing is open."""
    access: AccessSettings | None = None
    """None: there is no authorizer, and every client may do everything, as in Kafka."""


class Inbound:
    """The security of one process's listeners."""

    def __init__(self, settings: InboundSettings) -> None:
        self._settings = settings
        self.session: ZooKeeperSession | None = None
        self.access: Final = None if settings.access is None else AccessControl(settings.access, AclReader())
        """None without an authorizer."""
        self._users = ScramUsers(lambda: self.session)
        self.tls: Final = {name: each.tls for name, each in settings.listeners.items() if each.tls is not None}
        """Certificates by listener."""
        self.refused: Final = {name: _refusal_counts(each) for name, each in settings.listeners.items()}
        """Refused clients by listener."""
        self._admissions = {name: self._admission(name, each) for name, each in settings.listeners.items()}

    def admission(self, listener: str) -> Admission:
        """Return what the listener requires of clients."""
        return self._admissions.get(listener, OPEN)

    def open_to_all(self, endpoints: Iterable[Endpoint], what: str) -> str | None:
        """Return a warning that clients of these listeners may do `what`, with the remedy; None if that depends on
        rights."""
        if self.access is not None:
            return None
        by_login: dict[bool, list[str]] = {False: [], True: []}
        for endpoint in endpoints:
            by_login[self._knows_clients(endpoint.listener)].append(endpoint.text)
        verbs = {False: "reaches", True: "may log in to"}
        clients = " or ".join(f"{verbs[login]} {' or '.join(texts)}" for login, texts in by_login.items() if texts)
        also = ", and let listeners ask for a login or a certificate" if by_login[False] else ""
        return f"any client that {clients} can {what}: set authorizer.class.name{also}"

    def _knows_clients(self, listener: str) -> bool:
        tls = self.tls.get(listener)
        return self.admission(listener).sasl is not None or (
            tls is not None and tls.settings.client_auth is ClientAuth.REQUIRED
        )

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that passes on only what clients may do."""
        return handler if self.access is None else self.access.guarded(handler)

    def refuse_forwarding(self, peer: Peer, listener: str) -> str | None:
        """Return why requests of a client are not forwarded to a broker; None if they are."""
        return None if self.access is None else self.access.refuse_forwarding(peer, listener)

    def following(self, open_session: OpenSession) -> OpenSession:
        """Return the same sessions; while one is open, ACLs and credentials are read through it."""

        @asynccontextmanager
        async def opening(on_watch: OnWatch) -> AsyncIterator[ZooKeeperSession]:
            def both(fired: WatchFired) -> None:
                if self.access is not None:
                    self.access.reader.on_watch(fired)
                on_watch(fired)

            async with open_session(both) as session:
                following = asyncio.create_task(self._follow(session), name="acls")
                self.session = session
                try:
                    yield session
                finally:
                    self.session = None
                    # Not awaited: whoever ends the session may be cancelled here, and its own reason would be lost.
                    following.cancel()

        return opening

    async def _follow(self, session: ZooKeeperSession) -> None:
        """Follow the ACLs until the session is lost. A fault here must not end the process's session."""
        while self.access is not None:
            try:
                await self.access.reader.follow(session)
            except SessionLost:
                return
            except Exception:
                logger.exception("the ACLs cannot be followed at present; trying again in %.0f s", RETRY_S)
            await asyncio.sleep(RETRY_S)

    def _admission(self, listener: str, settings: ListenerSettings) -> Admission:
        tls = self.tls.get(listener)
        return Admission(
            tls=None if tls is None else tls.server_context,
            sasl=self._sasl(settings) if settings.mechanisms else None,
            mapping=settings.mapping,
            max_login_ms=settings.max_login_ms,
            failure_delay_ms=settings.failure_delay_ms,
            refused=self.refused[listener],
        )

    def _sasl(self, settings: ListenerSettings) -> SaslAcceptance:
        mechanisms = {name: self._exchange(name, settings) for name in settings.mechanisms}
        return SaslAcceptance(mechanisms, settings.max_receive_bytes, settings.max_reauth_ms)

    def _exchange(self, mechanism: str, settings: ListenerSettings) -> Callable[[], Exchange]:
        if mechanism == PLAIN:
            read = settings.read_plain
            if read is None:
                raise ValueError("PLAIN is enabled without users")
            return lambda: PlainExchange(read)
        scram = ScramMechanism(mechanism)
        return lambda: ScramExchange(scram, self._users)


def _refusal_counts(settings: ListenerSettings) -> RefusalCounts:
    return RefusalCounts(*(OF_TLS if settings.tls is not None else ()), *(OF_SASL if settings.mechanisms else ()))
