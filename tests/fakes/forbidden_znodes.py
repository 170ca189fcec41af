"""Sessions that may not read or write some znodes, as their ACLs make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.zookeeper.operations import (
    Exists,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Read,
    ReadFailed,
    ReadOutcome,
    ZkError,
    error_words,
)
from tests.fakes.zookeeper import FakeSession

NO_AUTH: Final = error_words(ZkError.NO_AUTH)
"""Why such a znode is unseen."""

ErrorOf = Callable[[Operation], ZkError | None]
"""The error with which an operation fails; None: the session performs it."""


class _Forbidden:
    def __init__(self, session: FakeSession, hidden: Sequence[str], tells_existence: bool) -> None:
        self._session, self._hidden, self._tells_existence = session, hidden, tells_existence

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        found = await self._session.read(reads)
        return [
            ReadFailed(ZkError.NO_AUTH) if self._forbids(read) else outcome
            for read, outcome in zip(reads, found, strict=True)
        ]

    def _forbids(self, read: Read) -> bool:
        return read.path in self._hidden and not (self._tells_existence and isinstance(read, Exists))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def forbidding(session: FakeSession, *hidden: str, tells_existence: bool = True) -> ZooKeeperSession:
    """The session, without the right to read the data and children of these znodes. Later ZooKeepers do not tell
    whether such a znode exists either."""
    return cast(ZooKeeperSession, _Forbidden(session, hidden, tells_existence))


class Refusing:
    """A session whose multis fail where an access list would make them; of the first `unknown` the outcome is lost."""

    def __init__(self, session: FakeSession, error_of: ErrorOf, unknown: int = 0) -> None:
        self._session, self._error_of, self._unknown = session, error_of, unknown
        self.tried = 0

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        self.tried += 1
        if self.tried <= self._unknown:
            return MultiUnknown("the connection broke")
        for index, operation in enumerate(operations):
            if (error := self._error_of(operation)) is not None:
                return MultiFailed(index, error)
        return await self._session.multi(operations)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
