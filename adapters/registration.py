"""A process's znodes: its registration, the cluster's id and roots, notifications about failed log directories.

Registration is one multi: create the ephemeral znode with null data, then set its data expecting version 0. So the data
appears atomically, and the returned Stat contains the czxid, which is the broker's epoch. If the znode exists already,
its owner decides, as in Kafka:

    owner                                 result
    this session                          it is ours: the reply of an earlier attempt was lost
    an earlier session of this process    it is deleted and created again
    another process                       EphemeralTaken; for a broker BrokerIdTaken
    none: it disappeared meanwhile        another attempt

A controller holds its id in the same way, by `/lethe/instances/<broker.id>`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from lethe.adapters.zookeeper.interface import RequestRefused, ZooKeeperSession
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    Delete,
    Exists,
    GetData,
    MultiDone,
    MultiFailed,
    MultiUnknown,
    Operation,
    Present,
    SetData,
    ZkError,
    error_words,
    read_error,
)
from lethe.protocol.zookeeper.znodes import decode_cluster_id, encode_broker, encode_cluster_id, encode_log_dir_event

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 10
"""Attempts of an operation that other processes may interfere with; each one starts with a fresh read."""

PATIENCE_AFTER_S = 1.0
"""Added to the longest time that the session of a killed process can last under one leader of ZooKeeper."""


class Patience:
    """How long a process waits for what the session of another one owns, which may have been killed.

    1.5 session timeouts and `PATIENCE_AFTER_S`, and anew from each connection of its own session: ZooKeeper may have a
    new leader then, which keeps every session for a whole timeout."""

    def __init__(self, session: ZooKeeperSession, now_s: Callable[[], float] = time.monotonic) -> None:
        self._session, self._now_s = session, now_s
        self.seconds = max(0.0, 1.5 * session.negotiated_timeout_ms / 1000 + PATIENCE_AFTER_S)
        self._begin()

    def _begin(self) -> None:
        self._connections, self._until_s = self._session.connections, self._now_s() + self.seconds

    def is_over(self) -> bool:
        """Return True once the wait is over: whoever owns it has a session that is kept alive."""
        if self._session.connections != self._connections:
            self._begin()
        return self._now_s() >= self._until_s


class BrokerIdTaken(Exception):
    """Another process is registered under the broker's id."""

    def __init__(self, broker_id: int, owner: int) -> None:
        super().__init__(
            f"another process (ZooKeeper session {owner:#x}) is registered as broker {broker_id}; "
            "stop it, or give this one a broker.id of its own"
        )
        self.owner = owner


class EphemeralTaken(Exception):
    """Another process's session owns the ephemeral znode."""

    def __init__(self, path: str, owner: int) -> None:
        super().__init__(f"{path} belongs to ZooKeeper session {owner:#x}")
        self.path = path
        self.owner = owner


class RegistrationFailed(RequestRefused):
    """A znode of this process could not be written, or not be read; `error` is None where no answer says why."""


async def ensure_roots(session: ZooKeeperSession, roots: Sequence[str] = paths.PERSISTENT_ROOTS) -> None:
    """Create the missing ones of these persistent znodes; by default those that every Kafka broker expects."""
    outcomes = await session.read([Exists(path) for path in roots])
    for path, outcome in zip(roots, outcomes, strict=True):
        if not isinstance(outcome, Present):
            await session.ensure_path(path)


async def cluster_id(session: ZooKeeperSession, proposed: str) -> str:
    """Return the cluster's id; write the proposed one if there is none. Raises MalformedZnode, RegistrationFailed."""
    for _ in range(MAX_ATTEMPTS):
        (found,) = await session.read([GetData(paths.CLUSTER_ID)])
        if isinstance(found, Data):
            return decode_cluster_id(found.data)
        if (unread := read_error(found)) is not None:
            raise RegistrationFailed(f"{paths.CLUSTER_ID} cannot be read: {error_words(unread)}", unread)
        await session.ensure_path(paths.parent_of(paths.CLUSTER_ID))
        outcome = await session.multi([Create(paths.CLUSTER_ID, encode_cluster_id(proposed))])
        if isinstance(outcome, MultiDone):
            return proposed
        if isinstance(outcome, MultiFailed) and outcome.error is not ZkError.NODE_EXISTS:
            what = f"{paths.CLUSTER_ID} cannot be created: {error_words(outcome.error)}"
            raise RegistrationFailed(what, outcome.error)
    raise RegistrationFailed(f"{paths.CLUSTER_ID} is neither there nor can it be created")


async def register_broker(
    session: ZooKeeperSession, broker: Broker, *, timestamp_ms: int, earlier_sessions: Collection[int] = ()
) -> BrokerEpoch:
    """Register the broker, whose `epoch` is ignored, and return its new epoch.

    Raises BrokerIdTaken, RegistrationFailed, SessionLost.
    """
    path = paths.broker_id(broker.id)
    data = encode_broker(broker, timestamp_ms=timestamp_ms)
    making: list[Operation] = [Create(path, None, ephemeral=True), SetData(path, data, 0)]
    try:
        return BrokerEpoch(await make_ephemeral(session, path, making, earlier_sessions))
    except EphemeralTaken as taken:
        raise BrokerIdTaken(broker.id, taken.owner) from taken


async def make_ephemeral(
    session: ZooKeeperSession, path: str, making: Sequence[Operation], earlier_sessions: Collection[int] = ()
) -> int:
    """Create the ephemeral znode with the operations `making`, unless this session owns it already; return its czxid.

    Raises EphemeralTaken, RegistrationFailed, SessionLost.
    """
    operations: Sequence[Operation] = making
    for _ in range(MAX_ATTEMPTS):
        outcome = await session.multi(operations)
        match outcome:
            case MultiDone(stats=stats):
                last = stats[-1]
                if last is not None:
                    return last.czxid
            case MultiFailed(error=error) if error not in (ZkError.NODE_EXISTS, ZkError.NO_NODE, ZkError.BAD_VERSION):
                raise RegistrationFailed(f"{path} cannot be written: {error_words(error)}", error)
            case MultiFailed() | MultiUnknown():
                pass
        (found,) = await session.read([Exists(path)])
        operations = making
        if (unread := read_error(found)) is not None:
            raise RegistrationFailed(f"{path} exists and cannot be read: {error_words(unread)}", unread)
        if not isinstance(found, Present):
            continue
        owner = found.stat.ephemeral_owner
        if owner == session.session_id:
            return found.stat.czxid
        if owner not in earlier_sessions:
            raise EphemeralTaken(path, owner)
        logger.info("%s of an earlier session (%#x) of this process is replaced", path, owner)
        operations = [Delete(path, found.stat.version), *making]
    raise RegistrationFailed(f"{path} kept changing while this process tried to make it")


async def notify_log_dir_failure(session: ZooKeeperSession, broker_id: BrokerId) -> None:
    """Notify the controller that the broker has lost a log directory. Raises RegistrationFailed, SessionLost.

    If the reply is lost, the notification is written again: two of them are harmless.
    """
    operation = Create(paths.log_dir_event_notification(), encode_log_dir_event(broker_id), sequential=True)
    for _ in range(MAX_ATTEMPTS):
        outcome = await session.multi([operation])
        match outcome:
            case MultiDone():
                return
            case MultiFailed(error=ZkError.NO_NODE):
                await session.ensure_path(paths.log_dir_event_notifications())
            case MultiFailed(error=error):
                raise RegistrationFailed(f"{operation.path} cannot be written: {error_words(error)}", error)
            case MultiUnknown():
                pass
    raise RegistrationFailed(f"{operation.path} could not be written in {MAX_ATTEMPTS} attempts")
