"""A session that may not read some znodes, as their ACLs make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.zookeeper.operations import Exists, Read, ReadFailed, ReadOutcome, ZkError
from tests.fakes.zookeeper import FakeSession


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
