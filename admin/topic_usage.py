"""Asks brokers for a topic's consumer groups and offsets: which clients use it, and when it was last written to.

No request can create a topic. A question without an answer is reported as such, never as "no group".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.adapters.kafka.client import ClientError, KafkaConnection, ProtocolError
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.group_coordinators import (
    CLIENT_ID,
    Coordinators,
    coordinator_asker,
    hidden_groups,
    read_coordinators,
)
from lethe.admin.group_readers import CoordinatedGroups, Group, read_groups
from lethe.admin.partition_offsets import FoundRecord, list_offsets
from lethe.protocol.kafka.consumers import EARLIEST, LATEST
from lethe.protocol.vocabulary import Broker, TopicPartition
from lethe.survey.brokers import ask_all, open_connection

CONNECT_MS: Final = 10_000
REQUEST_MS: Final = 20_000
LIMIT_MS: Final = 120_000
"""Time limit for all groups of a broker, and for all offsets of one."""

Connect = Callable[[Broker], Awaitable[KafkaConnection]]
"""Connects to a live broker. Raises ClientError."""


class LeaderQuery(NamedTuple):
    """The leader to ask about a partition, and the start of the time in question."""

    leader: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of one partition. `since` is the first record from the requested time on; None where there is none."""

    first: int
    end: int
    since: int | None


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """What brokers say about these topics, and what they do not.

    A group that did not answer may read any topic, so `unasked` concerns all of them. A partition without known offsets
    is not in `offsets`; `unknown` may say why.
    """

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, Offsets] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """All unanswered questions, each reason once."""
        return tuple(dict.fromkeys((*self.unasked, *self.unknown.values())))


def connector(reach: BrokerReach) -> Connect:
    """Return how brokers are connected to."""
    return lambda broker: open_connection(
        broker, reach, connect_timeout_ms=CONNECT_MS, request_timeout_ms=REQUEST_MS, client_id=CLIENT_ID
    )


async def ask_readers(
    session: ZooKeeperSession,
    reach: BrokerReach,
    brokers: Sequence[Broker],
    partitions: Mapping[TopicPartition, LeaderQuery],
) -> TopicUsage:
    """Return groups by topic, and offsets by partition. Failures of brokers never raise."""
    connect = connector(reach)
    coordinators = await read_coordinators(session, brokers)
    hidden = await hidden_groups(coordinators, brokers, coordinator_asker(reach))
    topics = {partition.topic for partition in partitions}
    groups, unasked = await all_groups(coordinators, brokers, topics, connect)
    if (await read_coordinators(session, brokers)) != coordinators:
        hidden = (*hidden, "consumer groups: they went to other brokers while these were asked")
    offsets, unknown = await read_offsets(brokers, partitions, connect)
    return TopicUsage(groups, offsets, (*hidden, *unasked), unknown)


async def all_groups(
    coordinators: Coordinators, brokers: Sequence[Broker], topics: set[str], connect: Connect
) -> tuple[dict[str, tuple[Group, ...]], tuple[str, ...]]:
    """Return the groups of all coordinators by topic, in order of their names, and why some are unknown."""

    async def one(broker: Broker) -> CoordinatedGroups:
        try:
            async with asyncio.timeout(LIMIT_MS / 1000), await connect(broker) as connection:
                return await read_groups(connection, broker.id, topics)
        except (ClientError, TimeoutError) as error:
            return CoordinatedGroups(problems=[f"consumer groups of broker {broker.id}: {why(error)}"])

    wanted = frozenset(coordinators.brokers)
    found = await ask_all([broker for broker in brokers if broker.id in wanted], one)
    by_topic: dict[str, list[Group]] = {}
    for each in found:
        for topic, groups in each.by_topic.items():
            by_topic.setdefault(topic, []).extend(groups)
    ordered = {topic: tuple(sorted(groups, key=lambda group: group.name)) for topic, groups in by_topic.items()}
    return ordered, tuple(problem for each in found for problem in each.problems)


def why(error: Exception) -> str:
    """Return the reason of a failure, for a message."""
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


# --- offsets ------------------------------------------------------------------------------------------------------


async def read_offsets(
    brokers: Sequence[Broker], partitions: Mapping[TopicPartition, LeaderQuery], connect: Connect
) -> tuple[dict[TopicPartition, Offsets], dict[TopicPartition, str]]:
    """Return the offsets of partitions whose leader returned all three, and the reasons for the others."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, asked in partitions.items():
        by_leader.setdefault(asked.leader, []).append(partition)
    found: dict[TopicPartition, Offsets] = {}
    live = {int(broker.id): broker for broker in brokers}
    unknown = {
        partition: f"{partition} has no live leader to ask for offsets"
        for leader, led in by_leader.items()
        if leader not in live
        for partition in led
    }

    async def one(broker: Broker) -> None:
        led = by_leader[int(broker.id)]
        try:
            async with asyncio.timeout(LIMIT_MS / 1000), await connect(broker) as connection:
                await _offsets_of(connection, int(broker.id), led, partitions, found, unknown)
        except (ClientError, ProtocolError, TimeoutError) as error:
            reason = f"broker {broker.id} gives no offsets: {why(error)}"
            unknown.update(dict.fromkeys((each for each in led if each not in unknown), reason))

    await ask_all([live[leader] for leader in by_leader if leader in live], one)
    return found, unknown


async def _offsets_of(
    connection: KafkaConnection,
    leader: int,
    led: Sequence[TopicPartition],
    partitions: Mapping[TopicPartition, LeaderQuery],
    found: dict[TopicPartition, Offsets],
    unknown: dict[TopicPartition, str],
) -> None:
    """Add one leader's answers about its partitions."""
    first = await list_offsets(connection, dict.fromkeys(led, EARLIEST))
    end = await list_offsets(connection, dict.fromkeys(led, LATEST))
    since = await list_offsets(connection, {each: partitions[each].since_ms for each in led})
    for each in led:
        match first.get(each), end.get(each), since.get(each, "it is not in the answer"):
            case FoundRecord(low, _), FoundRecord(high, _), FoundRecord() | None as record:
                found[each] = Offsets(low, high, None if record is None else record.offset)
            case told:
                reason = next((one for one in told if isinstance(one, str)), "it is not in the answer")
                unknown[each] = f"broker {leader} gives no offset of {each}: {reason}"
