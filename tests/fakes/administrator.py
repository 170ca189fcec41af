"""Clients that administer topics and move partitions through a controller that may die at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.client_errors import ClientError
from lethe.protocol.kafka.admin import DeletableTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.admin_configs import (
    AlterableResource,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
)
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

Address = Callable[[], Awaitable[tuple[str, int]]]
R = TypeVar("R", bound=Response)
TIMEOUT_MS: Final = 30_000
PAUSE_S: Final = 0.1
Targets = Mapping[TopicPartition, tuple[int, ...]]
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
                self._connection = await KafkaConnection.open(*await self._address(), "administrator")
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


async def alter_configs(client: Administrator, resources: Sequence[AlterableResource]) -> set[str]:
    """Have the settings changed; return the names of what exists. A change whose answer is lost is asked for again."""
    left = {each.name: each for each in resources}
    errors: dict[str, int] = {}
    while left:
        answer = await client.ask(IncrementalAlterConfigsRequest(tuple(left.values())), AlterConfigsResponse)
        rows = {} if answer is None else {row.name: row.error for row in answer.resources}
        errors |= {name: error for name, error in rows.items() if error not in LOST}
        left = {name: each for name, each in left.items() if name not in errors}
        if left:
            await client.close()
            await asyncio.sleep(PAUSE_S)
    others = {name: e for name, e in errors.items() if e not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert not others, others
    return {name for name, error in errors.items() if error == ErrorCode.NONE}


async def move_partitions(client: Administrator, targets: Targets) -> set[TopicPartition]:
    """Have the partitions moved; return those whose topics exist. A request whose answer is lost is sent again."""
    errors = None
    while errors is None:
        errors = await _altered(client, targets)
    _require(errors, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {at for at, error in errors.items() if error == ErrorCode.NONE}


async def cancel_moves(client: Administrator, origins: Targets) -> set[TopicPartition]:
    """End the reassignments of the partitions; return those that have their origins again.

    An answer that is lost leaves open which ones it has ended, so these partitions are moved to their origins.
    """
    errors = await _altered(client, dict.fromkeys(origins))
    if errors is None:
        return await move_partitions(client, origins)
    _require(errors, ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {at for at, error in errors.items() if error == ErrorCode.NONE}


async def moving(client: Administrator) -> set[TopicPartition] | None:
    """The partitions in reassignment; None: the answer was lost."""
    answer = await client.ask(ListPartitionReassignmentsRequest(None, TIMEOUT_MS), ListPartitionReassignmentsResponse)
    if answer is None:
        return None
    assert answer.error == ErrorCode.NONE, answer
    return {TopicPartition(topic, row.partition) for topic, rows in answer.topics for row in rows}


async def _altered(
    client: Administrator, rows: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, int] | None:
    """The error of each partition; None: the answer was lost."""
    topics: dict[str, tuple[ReassignablePartition, ...]] = {}
    for (topic, partition), replicas in rows.items():
        topics[topic] = (*topics.get(topic, ()), ReassignablePartition(partition, replicas))
    request = AlterPartitionReassignmentsRequest(tuple(map(ReassignableTopic, topics, topics.values())), TIMEOUT_MS)
    answer = await client.ask(request, AlterPartitionReassignmentsResponse)
    if answer is None:
        await asyncio.sleep(PAUSE_S)
        return None
    return {TopicPartition(topic, row.partition): row.error for topic, mine in answer.topics for row in mine}


def _require(errors: Mapping[TopicPartition, int], *expected: ErrorCode) -> None:
    others = {str(at): error for at, error in errors.items() if error not in expected}
    assert not others, others
