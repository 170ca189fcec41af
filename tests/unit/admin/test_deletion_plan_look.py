"""A plan's topics are marked together, and only as they were looked at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.admin.deletion_plan import PlannedPartition, PlannedTopic, TopicDeletionPlan
from lethe.admin.deletion_plan_look import mark_as_planned
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.admin.topic_znodes import list_topics
from lethe.cli.topics_create import creation
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Create,
    Data,
    Delete,
    Exists,
    GetData,
    MultiOutcome,
    Operation,
    Present,
    SetData,
)
from lethe.protocol.zookeeper.znodes import DeletionOrders, TopicZnode, decode_deletion_marker, encode_topic
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect


async def plan_of(session: FakeSession, *names: str) -> TopicDeletionPlan:
    """The plan of these topics, which have one partition on brokers 1 and 2."""
    topics = []
    for name in names:
        await creation(session, TopicCreationRequest(name, assignment=((1, 2),)))
        (found,) = await session.read([Exists(paths.topic(name))])
        assert isinstance(found, Present)
        partitions = (PlannedPartition(0, (1, 2), 0, 0),)
        topics.append(PlannedTopic(name, None, found.stat.czxid, partitions, 0, None, (), (), ()))
    return TopicDeletionPlan(None, 5, (1, 2, 3), tuple(topics), (), (), ())


def assigned(*replicas: tuple[int, ...]) -> bytes:
    return encode_topic(TopicZnode({number: ReplicaAssignment(each) for number, each in enumerate(replicas)}, None))


async def test_all_are_marked(session: FakeSession) -> None:
    plan = await plan_of(session, "bills", "orders")
    assert [outcome.problem for outcome in await mark_as_planned(session, plan)] == [None, None]
    assert (await list_topics(session)).marked == ("bills", "orders")


async def test_the_order_of_replicas_is_no_change(session: FakeSession) -> None:
    plan = await plan_of(session, "orders")
    await apply(session, SetData(paths.topic("orders"), assigned((2, 1)), ANY_VERSION))
    assert [outcome.problem for outcome in await mark_as_planned(session, plan)] == [None]


@pytest.mark.parametrize(
    "data, said",
    [
        (assigned((1, 2), (2, 1)), "orders has changed while the topics were to be marked: nothing was done"),
        (assigned((1, 3)), "orders has changed while the topics were to be marked: nothing was done"),
        (b"?", "orders cannot be read, so it may have changed: nothing was done"),
    ],
)
async def test_what_changes_while_the_user_is_asked_is_not_marked(session: FakeSession, data: bytes, said: str) -> None:
    plan = await plan_of(session, "bills", "orders")
    await apply(session, SetData(paths.topic("orders"), data, ANY_VERSION))
    assert [outcome.problem for outcome in await mark_as_planned(session, plan)] == [said, said]
    assert (await list_topics(session)).marked == ()


class TooLate(FakeSession):
    """A session whose multi comes after a topic was removed and created again."""

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        if any(isinstance(each, Check) for each in operations):
            await apply(self, Delete(paths.topic("orders")), Create(paths.topic("orders"), assigned((1, 2))))
        return await super().multi(operations)


@pytest.mark.parametrize("admin, follows", [("1.2.3.4:80", "of Lethe drops the mark"), (None, "of Kafka deletes")])
async def test_a_topic_that_is_created_again_is_not_the_one_that_its_marker_names(
    zookeeper: FakeZooKeeper, session: FakeSession, admin: str | None, follows: str
) -> None:
    await elect(session, 3, admin=admin)
    plan = await plan_of(session, "bills", "orders")
    late = TooLate(zookeeper, lambda _: None)
    fine, other = await mark_as_planned(late, plan)
    assert fine.problem is None
    assert other.problem is not None
    assert other.problem.startswith("orders was created again, or brought back from the trash, while")
    assert follows in other.problem
    for topic in plan.topics:
        (marker,) = await session.read([GetData(paths.delete_topic(topic.topic))])
        assert isinstance(marker, Data)
        assert decode_deletion_marker(marker.data) == DeletionOrders(topic_czxid=topic.czxid)


class Quick(FakeSession):
    """A session whose multi is followed at once by the deletion, and by another topic of the name."""

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        outcome = await super().multi(operations)
        if any(isinstance(each, Check) for each in operations):
            await apply(self, Delete(paths.topic("orders")), Delete(paths.delete_topic("orders")))
            await apply(self, Create(paths.topic("orders"), assigned((1, 2))))
        return outcome


async def test_a_topic_that_is_created_after_the_deletion_is_no_problem(
    zookeeper: FakeZooKeeper, session: FakeSession
) -> None:
    plan = await plan_of(session, "orders")
    assert [each.problem for each in await mark_as_planned(Quick(zookeeper, lambda _: None), plan)] == [None]
