"""Contract of a ZooKeeper session. The real one and the tests' fake both fulfil it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from lethe.protocol.zookeeper.operations import (
    FORBIDDEN,
    MultiOutcome,
    Operation,
    Read,
    ReadOutcome,
    WatchFired,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupOutcome, MultiPlan

OnWatch = Callable[[WatchFired], None]
"""Called on the event loop for each watch that fires, before the answer of any read that saw the change. It must only
record the event: no blocking, no exceptions."""


class SessionLost(Exception):
    """The session is over, so the request was not sent (or, for a read, never answered).

    Its ephemeral znodes are gone or will be. Only a new session can continue, and must read everything again.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the ZooKeeper session is lost: {reason}")
        self.reason = reason


class ZooKeeperUnavailable(Exception):
    """No session could be opened; the message lists the servers that were tried, with their answers."""


class ZooKeeperRefused(ZooKeeperUnavailable):
    """ZooKeeper refuses this client's login: trying again helps only after somebody has changed a setting."""


class RequestRefused(Exception):
    """ZooKeeper refuses a read or a write; the message names the znode and the error."""

    def __init__(self, message: str, error: ZkError | None = None) -> None:
        super().__init__(message)
        self.error = error


class WriteRefused(RequestRefused):
    """ZooKeeper refuses to create or delete a znode."""

    def __init__(self, path: str, error: ZkError) -> None:
        super().__init__(f"ZooKeeper refuses to write {path}: {error_words(error)}", error)
        self.path = path


def needs_new_settings(error: Exception) -> bool:
    """Return whether trying again helps only after somebody has changed a setting or an access list."""
    return isinstance(error, ZooKeeperRefused) or (isinstance(error, RequestRefused) and error.error in FORBIDDEN)


class ZooKeeperSession(Protocol):
    """One session. All coroutines may be called concurrently; requests are sent in the order of the calls."""

    @property
    def session_id(self) -> int:
        """ZooKeeper's 64-bit session id, the owner of the session's ephemeral znodes."""

    @property
    def negotiated_timeout_ms(self) -> int:
        """Session timeout granted by ZooKeeper, which may differ from the requested one."""

    @property
    def lost(self) -> asyncio.Event:
        """Set permanently when the session is over (expired, refused, closed, or without contact for too long)."""

    @property
    def lost_reason(self) -> str | None:
        """Why the session is over, as a message for users; None while it lives."""

    @property
    def connected(self) -> bool:
        """False while a live session has no connection: requests wait until it returns or the session is lost."""

    @property
    def connections(self) -> int:
        """How many connections the session has had. An election of ZooKeeper's leader closes all, and gives every
        session of every client a whole timeout again."""

    @property
    def in_touch(self) -> bool:
        """False if the session may have expired unnoticed: its timeout has passed since the newest answered request was
        sent. A process that was suspended for so long sees this first."""

    @property
    def write_window(self) -> int:
        """Multis of plans that may be unanswered at once; fewer while ZooKeeper answers slowly, at least 1."""

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        """Return the outcomes in the order of the reads.

        Reads are repeated after a reconnect, so they end with an answer or with SessionLost. They are no snapshot: each
        read sees the tree at its own time.

        A path that is too long for ZooKeeper is not sent: its read fails with MARSHALLING.

        A requested watch is armed, or has fired already, when this returns. A failed GetData or GetChildren (NO_NODE,
        NO_AUTH) arms none: only Exists watches a missing znode.
        """

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        """Apply all operations or none; sent at most once. MultiUnknown if the connection broke before the answer.

        Raises SessionLost if it was not sent, ValueError if it is too large for ZooKeeper.
        """

    async def multis(self, multis: Sequence[Sequence[Operation]]) -> list[MultiOutcome]:
        """Send several multis in order without waiting in between; each is applied or not on its own.

        A multi that was not sent because the session was lost is MultiUnknown. Raises SessionLost if none was sent.
        """

    async def write(self, plan: MultiPlan) -> tuple[GroupOutcome, ...]:
        """Carry the plan out, several multis in flight, until each group has its outcome.

        A group that is too large for ZooKeeper fails with MARSHALLING, and the others are sent.

        If the session is lost on the way, the remaining groups are GroupUnknown. Raises SessionLost only if the session
        is lost at the start.
        """

    async def ensure_path(self, path: str) -> None:
        """Create the znode (persistent, null data) and its missing ancestors; it may exist already.

        Raises WriteRefused, for instance if an ancestor is ephemeral or not writable for us.
        """

    async def close(self) -> None:
        """End the session at the server, so that its ephemeral znodes disappear at once."""


OpenSession = Callable[[OnWatch], AbstractAsyncContextManager[ZooKeeperSession]]
"""Open a session: the composition root binds it to its configuration, a test to a fake. Raises ZooKeeperUnavailable.
Leaving the context closes the session."""
