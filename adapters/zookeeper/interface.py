"""What a ZooKeeper session promises to whoever uses it. The real one and the tests' fake both keep it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from lethe.protocol.zookeeper.operations import MultiOutcome, Operation, Read, ReadOutcome, WatchFired, ZkError
from lethe.protocol.zookeeper.packing import GroupOutcome, MultiPlan

OnWatch = Callable[[WatchFired], None]
"""Called on the event loop for each watch that goes off, before the answer of any read that saw the change. It must
only take note: no blocking, no exceptions."""


class SessionLost(Exception):
    """The session is over, so the request was not sent (or, for a read, never answered). Ephemeral znodes are gone or
    will be; only a new session can go on, and what the old one believed has to be read again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the ZooKeeper session is lost: {reason}")
        self.reason = reason


class ZooKeeperUnavailable(Exception):
    """No session could be opened: says which servers were tried and what each answered."""


class WriteRefused(Exception):
    """ZooKeeper will not create or delete a znode: says which, and with what error."""

    def __init__(self, path: str, error: ZkError) -> None:
        super().__init__(f"ZooKeeper refuses to write {path}: {error.name}")
        self.path = path
        self.error = error


class ZooKeeperSession(Protocol):
    """One session. All coroutines may be called concurrently; requests are sent in the order of the calls."""

    @property
    def session_id(self) -> int:
        """ZooKeeper's 64-bit id of the session: the owner of the ephemeral znodes it makes."""

    @property
    def negotiated_timeout_ms(self) -> int:
        """After so long without contact the session is over; ZooKeeper may have changed what was asked for."""

    @property
    def lost(self) -> asyncio.Event:
        """Set once, for ever, when the session is over (expired, refused, closed, or out of touch for too long)."""

    @property
    def lost_reason(self) -> str | None:
        """Why the session is over, in words that can be shown; None while it lives."""

    @property
    def connected(self) -> bool:
        """False while a living session has no connection: requests wait until it is back or the session is lost."""

    @property
    def in_touch(self) -> bool:
        """False where the session may be over without our having heard of it: its timeout has passed since the newest
        request that was answered. A process that was stopped for so long sees it before anything else."""

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        """The outcomes in the order of the reads. Reads are repeated after a reconnect, so they always end with an
        answer or with SessionLost. Not a snapshot: each read sees the tree as it is at its own time.

        A watch that was asked for is armed when this returns, or has gone off already, however many are set at once;
        not so where GetData or GetChildren failed (NO_NODE, NO_AUTH): a missing znode is watched by Exists only."""

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        """All operations or none, sent once at most. MultiUnknown where the connection broke before the answer.
        Raises SessionLost where it was not sent, ValueError where ZooKeeper could not take it (too large)."""

    async def multis(self, multis: Sequence[Sequence[Operation]]) -> list[MultiOutcome]:
        """Several multis, pipelined: sent in order, each applied or not on its own. A multi that could not be sent
        any more because the session was lost is MultiUnknown, unless none could (then SessionLost)."""

    async def write(self, plan: MultiPlan) -> tuple[GroupOutcome, ...]:
        """Carries the plan out, several multis in flight, until each group has its outcome. Where the session is lost
        on the way, the remaining groups are GroupUnknown; raises SessionLost only where it is lost from the start."""

    async def ensure_path(self, path: str) -> None:
        """Creates the znode (persistent, null data) and its missing ancestors; it may exist already. Raises
        WriteRefused, for instance where an ancestor is ephemeral or belongs to somebody else."""

    async def delete_recursive(self, path: str) -> None:
        """Deletes the znode and all below it, children first, not atomically; it may be missing. Raises
        WriteRefused."""

    async def close(self) -> None:
        """Ends the session at the server, so that its ephemeral znodes go at once; then it is lost."""


OpenSession = Callable[[OnWatch], AbstractAsyncContextManager[ZooKeeperSession]]
"""How to get a session: bound to its configuration by the composition root, or to a fake by a test. Raises
ZooKeeperUnavailable. Leaving the context closes the session."""
