"""Reads and commits consumer groups' offsets for the core, over connections of their own.

An answer has as many rows as all groups have offsets, so no control request may wait behind it. The event always
follows, with what could not be read or committed, unless `end` is called first.

Offsets are committed over one connection for each broker, to all brokers side by side. Once a broker does not answer,
all groups that are left for it have failed, and the core tries them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Final

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.adapters.kafka.groups import GroupsUnseen, ListedOffsets, commit_offsets, hidden_by, merged, read_offsets
from lethe.controller.core.effects import CommitOffsets, Coordinator, GroupCommit, ReadOffsets
from lethe.controller.core.events import OffsetsCommitted, OffsetsRead
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.vocabulary import Endpoint

Connect = Callable[[Endpoint], Awaitable[KafkaConnection]]
"""Opens a connection; raises ConnectionFailed."""

LIMIT_MS: Final = 60_000
"""For one effect, from the first connection to the last answer."""
ENDPOINTS_AT_ONCE: Final = 64
"""Brokers to which offsets are committed at the same time: silent ones must not delay the others."""
MAX_REMEMBERED: Final = 100_000
"""Groups that are remembered for the order of later commits."""
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
        self._asked: dict[str, None] = {}
        """Groups that were asked, the latest last. The others go first: there may be more than can be asked at a time,
        and one that breaks its connection must not delay them at each attempt."""

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
            return OffsetsRead(effect.id, merged(parts), hidden=hidden_by(parts))
        except TimeoutError:
            return OffsetsRead(effect.id, None, f"they could not be read within {self._limit_ms} ms")
        except _FAILURES as error:
            return OffsetsRead(effect.id, None, str(error))

    async def _read_from(self, coordinator: Coordinator, partitions: int, topics: tuple[str, ...]) -> ListedOffsets:
        async with await self._connect(coordinator.endpoint) as connection:
            return await read_offsets(connection, coordinator.broker, dict(coordinator.led), partitions, topics)

    async def _commit(self, effect: CommitOffsets) -> OffsetsCommitted:
        found: dict[str, Mapping[str, str]] = {}
        slots = asyncio.Semaphore(ENDPOINTS_AT_ONCE)
        try:
            async with asyncio.timeout(self._limit_ms / 1000), asyncio.TaskGroup() as group:
                for endpoint, commits in self._by_endpoint(effect.groups).items():
                    name = f"offsets for {endpoint.host}:{endpoint.port}"
                    group.create_task(self._commit_at(endpoint, commits, found, slots), name=name)
        except TimeoutError:
            problem = f"not all coordinators have answered within {self._limit_ms} ms"
            found = {each.group: dict.fromkeys(each.topics, problem) for each in effect.groups} | found
        problems: dict[str, dict[str, str]] = {}
        for each in effect.groups:
            for topic, problem in found[each.group].items():
                problems.setdefault(topic, {})[each.group] = problem
        return OffsetsCommitted(effect.id, problems)

    def _by_endpoint(self, groups: tuple[GroupCommit, ...]) -> dict[Endpoint, list[GroupCommit]]:
        """Return the commits in the order in which they are sent: those that were asked last come last."""
        ranks = {group: rank for rank, group in enumerate(self._asked)}
        found: dict[Endpoint, list[GroupCommit]] = {}
        for each in sorted(groups, key=lambda each: ranks.get(each.group, -1)):
            found.setdefault(each.endpoint, []).append(each)
        return found

    async def _commit_at(
        self,
        endpoint: Endpoint,
        commits: Sequence[GroupCommit],
        found: dict[str, Mapping[str, str]],
        slots: asyncio.Semaphore,
    ) -> None:
        """Commit for one group after the other, and put their problems into `found`.

        Once the broker has failed to answer, it is not asked for the others."""
        async with slots:
            try:
                async with await self._connect(endpoint) as connection:
                    for each in commits:
                        self._note_asked(each.group)
                        found[each.group] = await _commit_one(connection, each)
            except (ClientError, ProtocolError) as error:
                for each in commits:
                    found.setdefault(each.group, dict.fromkeys(each.topics, str(error)))

    def _note_asked(self, group: str) -> None:
        self._asked.pop(group, None)
        self._asked[group] = None
        if len(self._asked) > MAX_REMEMBERED:
            del self._asked[next(iter(self._asked))]


async def _commit_one(connection: KafkaConnection, commit: GroupCommit) -> Mapping[str, str]:
    try:
        return await commit_offsets(connection, commit.group, commit.topics)
    except GroupsUnseen as error:
        return dict.fromkeys(commit.topics, str(error))
