"""Whether brokers tell of all consumer groups: what hides some has to be noticed, because brokers do not say so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from lethe.adapters.kafka.client import ConnectionFailed
from lethe.adapters.kafka.groups import DESCRIBE, hiding_problem
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.group_coordinators import (
    CoordinatorAnswer,
    Coordinators,
    PartitionLeader,
    coordinator_asker,
    hidden_groups,
    read_coordinators,
)
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataPartition, MetadataResponse, MetadataTopic
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, Broker, BrokerEpoch, BrokerId, ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_topic
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, bring_online, prepare

BROKERS = tuple(Broker(BrokerId(each), BrokerEpoch(each), ()) for each in (1, 2))


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await prepare(session, {1: None, 2: None})
        yield session


async def groups_led(session: FakeSession, leaders: Mapping[int, tuple[int, ...]]) -> None:
    """`__consumer_offsets`, of which each partition has this ISR."""
    assignments = {number: ReplicaAssignment((1, 2)) for number in leaders}
    await apply(session, Create(paths.topic(GROUP_METADATA_TOPIC), encode_topic(TopicZnode(assignments))))
    await bring_online(session, GROUP_METADATA_TOPIC, leaders)


def answer(
    leaders: Mapping[int, tuple[int, int]], *, operations: int = DESCRIBE, error: int = ErrorCode.NONE
) -> MetadataResponse:
    """What a broker believes of each partition: leader and leader epoch."""
    partitions = tuple(MetadataPartition(0, number, *led, (1, 2), (1, 2)) for number, led in leaders.items())
    topic = MetadataTopic(error, GROUP_METADATA_TOPIC, None, True, partitions)
    return MetadataResponse((), None, BrokerId(1), (topic,), 0, operations)


async def test_all_coordinators_tell_of_all_groups(session: FakeSession) -> None:
    await groups_led(session, {0: (1, 2), 1: (2,), 2: (1,)})
    found = await read_coordinators(session, BROKERS)
    assert found == Coordinators({0: PartitionLeader(1, 0), 1: PartitionLeader(2, 0), 2: PartitionLeader(1, 0)})
    assert found.brokers == (1, 2)
    asked: list[int] = []

    async def ask(broker: Broker) -> CoordinatorAnswer:
        asked.append(broker.id)
        return CoordinatorAnswer(answer({0: (1, 0), 1: (2, 0), 2: (1, 0)}), "User:lethe")

    assert await hidden_groups(found, BROKERS, ask) == ()
    assert sorted(asked) == [1, 2]


async def test_groups_of_partitions_without_a_live_leader_are_hidden(session: FakeSession) -> None:
    await groups_led(session, {0: (1, 2), 1: (), 2: (3,)})
    found = await read_coordinators(session, BROKERS)
    (problem,) = found.problems
    assert "partitions 1-2 of __consumer_offsets have no live leader" in problem

    async def ask(_: Broker) -> CoordinatorAnswer:
        return CoordinatorAnswer(answer({0: (1, 0)}), "User:lethe")

    assert await hidden_groups(found, BROKERS, ask) == found.problems


async def test_where_no_group_has_ever_been_nothing_is_hidden(session: FakeSession) -> None:
    assert await read_coordinators(session, BROKERS) == Coordinators({})
    assert await hidden_groups(Coordinators({}), BROKERS, coordinator_asker(PLAINTEXT_REACH)) == ()


async def test_a_coordinator_that_is_silent(session: FakeSession) -> None:
    await groups_led(session, {0: (1, 2)})

    async def ask(_: Broker) -> CoordinatorAnswer:
        raise ConnectionFailed("cannot connect")

    found = await read_coordinators(session, BROKERS)
    assert await hidden_groups(found, BROKERS, ask) == ("consumer groups of broker 1: cannot connect",)


@pytest.mark.parametrize(
    "told,words",
    [
        (answer({0: (1, 4)}), None),
        (answer({0: (1, 4)}, operations=0), "let User:lethe DESCRIBE the cluster"),
        (answer({0: (1, 4)}, operations=NO_AUTHORIZED_OPERATIONS), "let User:lethe DESCRIBE the cluster"),
        (answer({0: (1, 4)}, operations=~DESCRIBE & 0xFFFF), "let User:lethe DESCRIBE the cluster"),
        (answer({0: (1, 3)}), "its metadata does not show it yet as leader of partition 0"),
        (answer({0: (2, 4)}), "its metadata does not show it yet as leader of partition 0"),
        (answer({}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "UNKNOWN_TOPIC_OR_PARTITION"),
        (MetadataResponse((), None, BrokerId(1), (), 0, DESCRIBE), "it does not know the topic"),
    ],
)
def test_what_a_coordinator_says_of_itself(told: MetadataResponse, words: str | None) -> None:
    problem = hiding_problem(BrokerId(1), told, {0: 4}, "User:lethe")
    assert (problem is None) if words is None else (problem is not None and words in problem)
