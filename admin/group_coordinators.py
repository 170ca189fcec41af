"""Whether brokers tell of all consumer groups, which they do not say by themselves.

A broker lists the groups that it coordinates: those whose partition of `__consumer_offsets` it leads. Groups are hidden
without an error where such a partition has no leader, where its leader has not heard of that yet, and where an
authorizer does not let us describe the cluster: then a broker leaves out what it may not tell. ZooKeeper says who
leads, and each leader what it believes and what we may do (Metadata from version 8 on, Kafka 2.3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import describe
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import MetadataRequest, MetadataRequestTopic, MetadataResponse
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, Broker, BrokerId
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, ask_all, open_connection

CLIENT_ID: Final = "lethe-candidates"
FIRST_WITH_OPERATIONS: Final = 8
LAST_WITH_OPERATIONS: Final = 10
"""The Metadata versions that say what we may do with the cluster."""
DESCRIBE: Final = 1 << 8
"""The bit of the operation DESCRIBE."""


class Leadership(NamedTuple):
    leader: int
    leader_epoch: int


class Coordinators(NamedTuple):
    """Who leads each partition of `__consumer_offsets`, and why groups may be hidden. No partition where there is no
    such topic: then no group has ever been."""

    leaders: Mapping[int, Leadership]
    problems: tuple[str, ...] = ()

    @property
    def brokers(self) -> tuple[int, ...]:
        """Those that coordinate, sorted."""
        return tuple(sorted({found.leader for found in self.leaders.values()}))

    def led_by(self, broker: int) -> dict[int, int]:
        """The leader epochs of its partitions."""
        return {number: led.leader_epoch for number, led in self.leaders.items() if led.leader == broker}


AskCoordinator = Callable[[Broker], Awaitable[MetadataResponse]]
"""Asks a live broker for `__consumer_offsets` and for what we may do. Raises ClientError and ProtocolError."""


async def read_coordinators(session: ZooKeeperSession, brokers: Sequence[Broker]) -> Coordinators:
    """What ZooKeeper says; `brokers` are those that are registered."""
    live = {int(broker.id) for broker in brokers}
    leaders: dict[int, Leadership] = {}
    orphans: list[int] = []
    problems = []
    for topic in await describe(session, [GROUP_METADATA_TOPIC], ()):
        if topic.problem is not None:
            problems.append(f"consumer groups: {topic.problem}")
        for each in topic.partitions:
            if each.leader is not None and each.leader in live:
                leaders[each.partition] = Leadership(each.leader, each.leader_epoch)
            else:
                orphans.append(each.partition)
    if orphans:
        more = f" (and {len(orphans) - 1} more)" if len(orphans) > 1 else ""
        problems.append(
            f"consumer groups: partition {orphans[0]} of {GROUP_METADATA_TOPIC}{more} has no leader that is there, so "
            "nobody tells of the groups in it"
        )
    return Coordinators(leaders, tuple(problems))


async def hidden_groups(
    coordinators: Coordinators, brokers: Sequence[Broker], ask: AskCoordinator | None = None
) -> tuple[str, ...]:
    """Why the lists of those who coordinate may leave out groups; empty where they do not."""
    there = {int(broker.id): broker for broker in brokers}

    async def one(broker: Broker) -> str | None:
        try:
            answer = await (ask or ask_coordinator)(broker)
        except (ClientError, ProtocolError) as error:
            return f"consumer groups of broker {broker.id}: {error}"
        return hiding_problem(broker.id, answer, coordinators.led_by(broker.id))

    asked = await ask_all([there[broker] for broker in coordinators.brokers], one, at_once=MAX_AT_ONCE_BRIEFLY)
    return (*coordinators.problems, *(problem for problem in asked if problem is not None))


def hiding_problem(broker: BrokerId, answer: MetadataResponse, led: Mapping[int, int]) -> str | None:
    """Why a broker's list of groups may leave some out, by its own word. `led` are the leader epochs of the partitions
    of `__consumer_offsets` that ZooKeeper has it lead."""
    of = f"consumer groups of broker {broker}"
    if not answer.cluster_authorized_operations & DESCRIBE:
        return (
            f"{of}: it leaves out groups without saying so, because nobody without a name may DESCRIBE the cluster "
            "(an authorizer decides so)"
        )
    topic = next((topic for topic in answer.topics if topic.name == GROUP_METADATA_TOPIC), None)
    if topic is None or topic.error != ErrorCode.NONE:
        why = "it does not know the topic" if topic is None else error_name(topic.error)
        return f"{of}: it does not tell what it leads of {GROUP_METADATA_TOPIC}: {why}"
    believed = {each.partition: each.leader_epoch for each in topic.partitions if each.leader == broker}
    if missing := sorted(number for number, epoch in led.items() if believed.get(number) != epoch):
        return f"{of}: it has not heard yet that it leads partition {missing[0]} of {GROUP_METADATA_TOPIC}"
    return None


async def ask_coordinator(broker: Broker, timeout_ms: int = 10_000) -> MetadataResponse:
    """Raises ClientError and ProtocolError."""
    async with await open_connection(
        broker, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, client_id=CLIENT_ID
    ) as connection:
        common = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
        version = min(common, LAST_WITH_OPERATIONS)
        if version < FIRST_WITH_OPERATIONS:
            raise ClientError("it is older than Kafka 2.3 and does not say whether it tells of all groups")
        request = MetadataRequest(
            (MetadataRequestTopic(GROUP_METADATA_TOPIC),),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
        )
        return cast(MetadataResponse, await connection.request(request, version))
