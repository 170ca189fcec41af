"""A session that may not read some znodes, as their ACLs make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from adapters.zookeeper.interface import ZooKeeperSession
from protocol.zookeeper.operations import Exists, Read, ReadFailed, ReadOutcome, ZkError
from tests.fakes.zookeeper import FakeSession


class _Forbidden:
    def __init__(self, session: FakeSession, hidden: Sequence[str]) -> None:
        self._session, self._hidden = session, hidden

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        """As ZooKeeper does, without rights for `Exists`, which needs none."""
        found = await self._session.read(reads)
        return [
            ReadFailed(ZkError.NO_AUTH) if read.path in self._hidden and not isinstance(read, Exists) else outcome
            for read, outcome in zip(reads, found, strict=True)
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def forbidding(session: FakeSession, *hidden: str) -> ZooKeeperSession:
    """The session, without the right to read the data and children of these znodes."""
    return cast(ZooKeeperSession, _Forbidden(session, hidden))
