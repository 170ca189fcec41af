"""Reads and commits consumer groups' offsets for the core, over connections of their own.

An answer has as many rows as all groups have offsets, so no control request may wait behind it. The event always
follows, with what could not be read or committed, unless `end` is called first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.adapters.kafka.groups import GroupsUnseen, ListedOffsets, commit_offsets, merged, read_offsets
from lethe.controller.core.effects import CommitOffsets, Coordinator, GroupCommit, ReadOffsets
from lethe.controller.core.events import OffsetsCommitted, OffsetsRead
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.vocabulary import Endpoint

Connect = Callable[[Endpoint], Awaitable[KafkaConnection]]
"""Opens a connection; raises ConnectionFailed."""

LIMIT_MS: Final = 60_000
"""For one effect, from the first connection to the last answer."""
_FAILURES: Final = (ClientError, ProtocolError, GroupsUnseen)


class GroupOffsetsClient:
    """Performs `ReadOffsets` and `CommitOffsets`."""

    def __init__(
        self,
        connect: Connect,
        post: Callable[[OffsetsRead | OffsetsCommitted], None],
        fault: Callable[[Exception, str], None],
        *,
        limit_ms: int = LIMIT_MS,
    ) -> None:
        self._connect = connect
        self._post = post
        self._fault = fault
        self._limit_ms = limit_ms
        self._running: set[asyncio.Task[None]] = set()

    def perform(self, effect: ReadOffsets | CommitOffsets) -> None:
        """Start it; the event is posted at the end."""
        work = self._read(effect) if isinstance(effect, ReadOffsets) else self._commit(effect)
        task = asyncio.create_task(self._posted(work), name=f"{type(effect).__name__} {effect.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def end(self) -> None:
        """Cancel what is going on; nothing is posted any more."""
        for task in self._running:
            task.cancel()

    async def _posted(self, work: Coroutine[None, None, OffsetsRead | OffsetsCommitted]) -> None:
        try:
            self._post(await work)
        except Exception as error:  # noqa: BLE001 - the loop decides about every fault
            self._fault(error, "offsets of consumer groups")

    async def _read(self, effect: ReadOffsets) -> OffsetsRead:
        # Each partition has a leader among them: see `core.coordinators`.
        partitions = sum(len(each.led) for each in effect.coordinators)
        try:
            async with asyncio.timeout(self._limit_ms / 1000):
                parts = [await self._read_from(each, partitions, effect.topics) for each in effect.coordinators]
            return OffsetsRead(effect.id, merged(parts))
        except TimeoutError:
            return OffsetsRead(effect.id, None, f"they could not be read within {self._limit_ms} ms")
        except _FAILURES as error:
            return OffsetsRead(effect.id, None, str(error))

    async def _read_from(self, coordinator: Coordinator, partitions: int, topics: tuple[str, ...]) -> ListedOffsets:
        async with await self._connect(coordinator.endpoint) as connection:
            return await read_offsets(connection, coordinator.broker, dict(coordinator.led), partitions, topics)

    async def _commit(self, effect: CommitOffsets) -> OffsetsCommitted:
        problems: dict[str, dict[str, str]] = {}
        for each in effect.groups:
            try:
                async with asyncio.timeout(self._limit_ms / 1000):
                    found = await self._commit_one(each)
            except TimeoutError:
                found = dict.fromkeys(each.topics, f"its coordinator has not answered within {self._limit_ms} ms")
            except _FAILURES as error:
                found = dict.fromkeys(each.topics, str(error))
            for topic, problem in found.items():
                problems.setdefault(topic, {})[each.group] = problem
        return OffsetsCommitted(effect.id, problems)

    async def _commit_one(self, commit: GroupCommit) -> dict[str, str]:
        async with await self._connect(commit.endpoint) as connection:
            return await commit_offsets(connection, commit.group, commit.topics)
