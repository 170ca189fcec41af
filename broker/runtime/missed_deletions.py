"""Deletions that the agent missed while it was away: read from ZooKeeper before it registers, and settled there.

The core decides which directories go (broker.core.debts). What could not be read or removed here is left to the
controller, which settles it once the agent is registered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from lethe.adapters.debts import OpenDebt, read_debts_of
from lethe.adapters.logs import fields
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.broker.core.inputs import DebtsRead, FoundDebt
from lethe.broker.runtime.sessions import topic_id_of
from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete, Exists, GetData, MultiDone, is_absent

logger = logging.getLogger(__name__)


class MissedDeletions:
    """What one broker owes at its start."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._done = False
        self._settled: asyncio.Future[Sequence[FoundDebt]] | None = None

    async def catch_up(self, session: ZooKeeperSession, feed: Callable[[DebtsRead], None]) -> None:
        """Carry out what is owed, once in the agent's life; `feed` takes it to the core. Raises SessionLost."""
        if self._done:
            return
        debts = await self._read(session)
        if debts:
            self._settled = asyncio.get_running_loop().create_future()
            feed(DebtsRead(tuple(debts)))
            settled = await self._settled
            await self._remove(session, [debts[found] for found in settled])
            logger.info("%s of %s from before the start settled", len(settled), counted(len(debts), "missed deletion"))
        self._done = True

    def note_settled(self, debts: Sequence[FoundDebt]) -> None:
        """The core's answer to what was fed."""
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(debts)

    async def _read(self, session: ZooKeeperSession) -> dict[FoundDebt, OpenDebt]:
        """The topics are read after the debts, so that a topic that is not there any more is not yet to come."""
        read = await read_debts_of(session, [self._broker])
        for unseen in read.unseen:
            logger.warning("%s cannot be read, and is left to the controller: %s", unseen.path, unseen.reason)
        names = [debt.topic for debt in read.debts]
        if not names:
            return {}
        topics = await session.read([GetData(paths.topic(name)) for name in names])
        trash = await session.read([Exists(paths.trashed(name)) for name in names])
        return {
            FoundDebt(
                each.topic,
                each.created_zxid,
                each.debt.topic_id,
                each.debt.partitions,
                each.debt.since_ms,
                each.debt.size_bytes,
                topic_id_of(each.topic, topic),
                not is_absent(trashed),
            ): each
            for each, topic, trashed in zip(read.debts, topics, trash, strict=True)
        }

    async def _remove(self, session: ZooKeeperSession, settled: Sequence[OpenDebt]) -> None:
        outcomes = await session.multis([[Delete(each.path, each.version)] for each in settled]) if settled else ()
        for each, outcome in zip(settled, outcomes, strict=True):
            if not isinstance(outcome, MultiDone):
                logger.warning("%s is settled but stays: %s", each.path, outcome, extra=fields(topic=each.topic))
