"""Detects whether brokers list all consumer groups.

A broker lists the groups that it coordinates: those whose partition of `__consumer_offsets` it leads. Some groups are
hidden without an error in these cases:

    case                                              detected from
    such a partition has no live leader               ZooKeeper
    its leader has not learnt of its leadership yet   Metadata: another leader epoch than in ZooKeeper
    an authorizer denies us DESCRIBE on the cluster   Metadata: the authorized operations (Kafka 2.3, version 8)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.kafka.groups import coordinator_metadata, hiding_problem
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import describe
from lethe.protocol.counting import plural
from lethe.protocol.kafka.queries import MetadataResponse
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, Broker
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, ask_all, open_connection
from lethe.survey.causes import partitions_text

CLIENT_ID: Final = "lethe-candidates"


class PartitionLeader(NamedTuple):
    leader: int
    leader_epoch: int


class Coordinators(NamedTuple):
    """Leaders of the partitions of `__consumer_offsets`, and why groups may be hidden. Without that topic there are no
    leaders and no groups."""

    leaders: Mapping[int, PartitionLeader]
    problems: tuple[str, ...] = ()

    @property
    def brokers(self) -> tuple[int, ...]:
        """The coordinating brokers, sorted."""
        return tuple(sorted({found.leader for found in self.leaders.values()}))

    def led_by(self, broker: int) -> dict[int, int]:
        """Return the leader epochs of the partitions that the broker leads."""
        return {number: led.leader_epoch for number, led in self.leaders.items() if led.leader == broker}


class CoordinatorAnswer(NamedTuple):
    """A broker's answer about `__consumer_offsets` and the authorized operations, and who has asked it."""

    metadata: MetadataResponse
    principal: str


AskCoordinator = Callable[[Broker], Awaitable[CoordinatorAnswer]]
"""Asks a live broker. Raises ClientError and ProtocolError."""


async def read_coordinators(session: ZooKeeperSession, brokers: Sequence[Broker]) -> Coordinators:
    """Return the coordinators by ZooKeeper; `brokers` are the registered ones."""
    live = {int(broker.id) for broker in brokers}
    leaders: dict[int, PartitionLeader] = {}
    orphans: list[int] = []
    problems = []
    for topic in await describe(session, [GROUP_METADATA_TOPIC], ()):
        if topic.problem is not None:
            problems.append(f"consumer groups: {topic.problem}")
        for each in topic.partitions:
            if each.leader is not None and each.leader in live:
                leaders[each.partition] = PartitionLeader(each.leader, each.leader_epoch)
            elif each.state_unseen is None:
                orphans.append(each.partition)
    if orphans:
        lack = plural(len(orphans), "has", "have")
        which = f"{partitions_text(tuple(orphans))} of {GROUP_METADATA_TOPIC}"
        problems.append(f"consumer groups: {which} {lack} no live leader, so that groups are unseen")
    return Coordinators(leaders, tuple(problems))


async def hidden_groups(coordinators: Coordinators, brokers: Sequence[Broker], ask: AskCoordinator) -> tuple[str, ...]:
    """Return why coordinators may leave groups out of their lists; empty where they do not."""
    there = {int(broker.id): broker for broker in brokers}

    async def one(broker: Broker) -> str | None:
        try:
            answer = await ask(broker)
        except (ClientError, ProtocolError) as error:
            return f"consumer groups of broker {broker.id}: {error}"
        return hiding_problem(broker.id, answer.metadata, coordinators.led_by(broker.id), answer.principal)

    asked = await ask_all([there[broker] for broker in coordinators.brokers], one, at_once=MAX_AT_ONCE_BRIEFLY)
    return (*coordinators.problems, *(problem for problem in asked if problem is not None))


def coordinator_asker(reach: BrokerReach, timeout_ms: int = 10_000) -> AskCoordinator:
    """Return a function that asks brokers over new connections."""

    async def ask(broker: Broker) -> CoordinatorAnswer:
        async with await open_connection(
            broker, reach, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, client_id=CLIENT_ID
        ) as connection:
            return CoordinatorAnswer(await coordinator_metadata(connection), connection.principal)

    return ask
