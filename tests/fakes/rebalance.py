"""A client that rebalances a cluster as Cruise Control does, through a controller that may die at any moment.

Partitions are moved in batches while few enough are under way, and some moves are cancelled. A request whose answer is
lost is sent again: a move asked for twice is one move. Only a cancellation is not: its partition may have arrived or
gone back, so it is asked for its target once more. So it is known of each partition which replicas it has in the end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.client_errors import ClientError
from lethe.protocol.kafka.admin import DeletableTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import Response, api_of_request
from lethe.protocol.kafka.to_controller import AdminRequest
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import TopicPartition

Replicas = tuple[int, ...]
Address = Callable[[], Awaitable[tuple[str, int]]]
R = TypeVar("R", bound=Response)
TIMEOUT_MS: Final = 30_000
PAUSE_S: Final = 0.1
LOST: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class Administrator:
    """Sends requests to the controller, wherever it is. `address` waits until there is one."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: KafkaConnection | None = None

    async def ask(self, request: AdminRequest, kind: type[R], limit_ms: int = 2 * TIMEOUT_MS) -> R | None:
        """The answer; None: it was lost, or this is not the controller any more."""
        try:
            if self._connection is None:
                self._connection = await KafkaConnection.open(*await self._address(), "rebalance")
            answer = await self._connection.request(request, SPOKEN[api_of_request(request)].max, limit_ms)
        except (ClientError, ProtocolError):
            await self.close()
            return None
        assert isinstance(answer, kind)
        if getattr(answer, "error", ErrorCode.NONE) in LOST:
            await self.close()
            return None
        return answer

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class Rebalance:
    """One rebalance. `run` ends when nothing moves any more; `wanted` says what each partition then has."""

    def __init__(
        self,
        address: Address,
        origins: Mapping[TopicPartition, Replicas],
        targets: Mapping[TopicPartition, Replicas],
        *,
        batch: int,
        at_once: int,
        between: Callable[[float], Awaitable[None]],
    ) -> None:
        """`between` is called before each batch, with the share of the partitions that have been asked for."""
        self._client = Administrator(address)
        self._origins, self._targets = origins, targets
        self._batch, self._at_once = batch, at_once
        self._between = between
        self._pending = dict.fromkeys(targets)
        self.wanted: dict[TopicPartition, Replicas] = {}
        self.cancelled: dict[TopicPartition, None] = {}
        self.refused: dict[TopicPartition, ErrorCode] = {}
        self.lost = 0
        """Answers that did not come."""

    async def run(self) -> None:
        try:
            for number in itertools.count():
                moving = await self._moving()
                if moving is not None and not moving and not self._pending:
                    return
                if moving is not None:
                    await self._between(1 - len(self._pending) / len(self._targets))
                    batch = await self._next_batch(len(moving))
                    if number % 3 == 0:
                        await self._cancel(batch[::5])
                await asyncio.sleep(PAUSE_S)
        finally:
            await self._client.close()

    async def _moving(self) -> list[TopicPartition] | None:
        answer = await self._client.ask(
            ListPartitionReassignmentsRequest(None, TIMEOUT_MS), ListPartitionReassignmentsResponse
        )
        if answer is None:
            self.lost += 1
            return None
        assert answer.error == ErrorCode.NONE
        return sorted(TopicPartition(topic.topic, row.partition) for topic in answer.topics for row in topic.partitions)

    async def _next_batch(self, moving: int) -> list[TopicPartition]:
        """Ask for the next ones; those that are asked for."""
        room = min(self._batch, self._at_once - moving)
        batch = list(itertools.islice(self._pending, max(room, 0)))
        errors = await self._alter({tp: self._targets[tp] for tp in batch}) if batch else None
        for tp, error in (errors or {}).items():
            del self._pending[tp]
            if error is ErrorCode.NONE:
                self.wanted[tp] = self._targets[tp]
            else:
                self.refused[tp] = error
        return batch

    async def _cancel(self, some: Iterable[TopicPartition]) -> None:
        asked = [tp for tp in some if tp not in self.cancelled and tp in self.wanted]
        errors = await self._alter(dict.fromkeys(asked)) if asked else {}
        if errors is None:
            self._pending.update(dict.fromkeys(asked))
            return
        for tp, error in errors.items():
            if error is ErrorCode.NONE:
                self.wanted[tp] = self._origins[tp]
                self.cancelled[tp] = None

    async def _alter(
        self, replicas: Mapping[TopicPartition, Replicas | None]
    ) -> dict[TopicPartition, ErrorCode] | None:
        """The error of each partition; None: the answer was lost."""
        topics = tuple(
            ReassignableTopic(name, tuple(ReassignablePartition(tp.partition, replicas[tp]) for tp in rows))
            for name, rows in itertools.groupby(sorted(replicas), lambda tp: tp.topic)
        )
        answer = await self._client.ask(
            AlterPartitionReassignmentsRequest(topics, TIMEOUT_MS), AlterPartitionReassignmentsResponse
        )
        rows = [
            (TopicPartition(topic.topic, row.partition), ErrorCode(row.error))
            for topic in ([] if answer is None else answer.topics)
            for row in topic.partitions
        ]
        if answer is None or any(error in LOST for _, error in rows):
            self.lost += 1
            return None
        assert answer.error == ErrorCode.NONE
        return dict(rows)


async def delete_topics(address: Address, names: tuple[str, ...], chunk: int) -> None:
    """Have the topics deleted, so many in a request; a request whose answer is lost is sent again."""
    client = Administrator(address)
    done = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        for first in range(0, len(names), chunk):
            left = names[first : first + chunk]
            while left:
                request = DeleteTopicsRequest(tuple(map(DeletableTopic, left)), TIMEOUT_MS)
                answer = await client.ask(request, DeleteTopicsResponse)
                rows = () if answer is None else answer.topics
                left = tuple(
                    name for name in left if (name, True) not in {(row.name, row.error in done) for row in rows}
                )
                await asyncio.sleep(PAUSE_S)
    finally:
        await client.close()
