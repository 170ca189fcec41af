"""Topics written to and read from a ZooKeeper: what is created and marked, what is refused, what is set apart."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from lethe.admin import topic_znodes
from lethe.admin.outcomes import Outcome
from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import ListedTopics, NoCluster
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, GetData
from lethe.survey.znodes import ZnodeUnreadable
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, bring_online, elect, prepare

TOPIC_ID = TopicId(uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF))


@pytest.fixture
async def empty() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        yield session


@pytest.fixture
async def session(empty: FakeSession) -> FakeSession:
    await prepare(empty, {1: None, 2: "a"})
    return empty


def plan(name: str) -> TopicPlan:
    return TopicPlan(name, TOPIC_ID, ((1, 2), (2, 1)), {"retention.ms": "1000"})


async def test_where_there_is_no_cluster_nothing_is_written(empty: FakeSession) -> None:
    with pytest.raises(NoCluster, match="/brokers/ids"):
        await topic_znodes.create_topics(empty, [plan("orders")])
    with pytest.raises(NoCluster):
        await topic_znodes.mark_for_deletion(empty, ["orders"])
    with pytest.raises(NoCluster):
        await topic_znodes.list_topics(empty)


async def test_a_refused_look_at_the_brokers_is_not_an_absent_cluster(session: FakeSession) -> None:
    blind = forbidding(session, paths.BROKER_IDS, tells_existence=False)
    with pytest.raises(ZnodeUnreadable, match="/brokers/ids: NO_AUTH"):
        await topic_znodes.list_topics(blind)


async def test_where_settings_may_exist_unseen_no_topic_is_created(session: FakeSession) -> None:
    blind = forbidding(session, paths.config_topic("orders"), tells_existence=False)
    with pytest.raises(ZnodeUnreadable, match="/config/topics/orders: NO_AUTH"):
        await topic_znodes.create_topics(blind, [plan("orders")])
    assert (await topic_znodes.list_topics(session)).names == ()


async def test_created_topics_are_listed_and_described(session: FakeSession) -> None:
    assert await topic_znodes.create_topics(session, [plan("orders"), plan("bills")]) == [
        Outcome("orders"),
        Outcome("bills"),
    ]
    assert await topic_znodes.list_topics(session) == ListedTopics(("bills", "orders"), ())
    await bring_online(session, "orders", {0: (1, 2)})
    (topic,) = await topic_znodes.describe(session, ["orders", "gone"], marked=["orders"])
    assert (topic.topic_id, topic.is_marked, topic.config) == (TOPIC_ID, True, {"retention.ms": "1000"})
    assert [(p.partition, p.leader, p.isr, p.assignment.replicas) for p in topic.partitions] == [
        (0, 1, (1, 2), (1, 2)),
        (1, None, (), (2, 1)),
    ]


async def test_each_topic_of_a_batch_has_its_own_outcome(session: FakeSession) -> None:
    outcomes = await topic_znodes.create_topics(
        session, [plan("a.b"), plan("a_b"), plan("b/c"), plan("a.b"), plan("d")]
    )
    assert [(o.name, o.problem is None) for o in outcomes] == [
        ("a.b", True),
        ("a_b", False),
        ("b/c", False),
        ("a.b", False),
        ("d", True),
    ]
    assert "collides with a.b" in str(outcomes[1].problem)
    assert (await topic_znodes.list_topics(session)).names == ("a.b", "d")


async def test_settings_left_by_an_earlier_topic_are_replaced(session: FakeSession) -> None:
    await apply(session, Create(paths.config_topic("orders"), b'{"version":1,"config":{"segment.bytes":"99"}}'))
    await topic_znodes.create_topics(session, [plan("orders")])
    (topic,) = await topic_znodes.describe(session, ["orders"], ())
    assert topic.config == {"retention.ms": "1000"}


async def test_a_lost_reply_is_told_as_unknown(session: FakeSession) -> None:
    session.lose_next_reply(applied=True)
    (outcome,) = await topic_znodes.create_topics(session, [plan("orders")])
    assert outcome.is_unknown
    assert "unknown" in str(outcome.problem)


async def test_marks(session: FakeSession) -> None:
    await topic_znodes.create_topics(session, [plan("orders"), plan("bills")])
    names = ["orders", "nothing", "__consumer_offsets", "bills"]
    outcomes = await topic_znodes.mark_for_deletion(session, names)
    assert [o.name for o in outcomes] == names
    assert [o.problem is None for o in outcomes] == [True, False, False, True]
    (mark,) = await session.read([GetData(paths.delete_topic("orders"))])
    assert isinstance(mark, Data)
    assert not mark.data
    assert (await topic_znodes.mark_for_deletion(session, ["orders"])) == [Outcome("orders", was_done=True)]
    assert (await topic_znodes.list_topics(session)).marked == ("bills", "orders")
    (again,) = await topic_znodes.create_topics(session, [plan("orders")])
    assert "marked for deletion" in str(again.problem)


async def test_a_cluster_under_kraft_is_left_alone(session: FakeSession) -> None:
    await apply(
        session, Create(paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}')
    )
    with pytest.raises(NoCluster, match="KRaft controller 3000"):
        await topic_znodes.create_topics(session, [plan("orders")])
    with pytest.raises(NoCluster, match="migrated"):
        await topic_znodes.mark_for_deletion(session, ["orders"])


async def test_what_cannot_be_understood_is_told_with_its_topic(session: FakeSession) -> None:
    await topic_znodes.create_topics(session, [plan("orders"), plan("bills")])
    await apply(
        session,
        Create(paths.topic("foreign"), b"<xml/>"),
        Create(paths.topic_partitions("orders"), None),
        Create(paths.topic_partition("orders", 1), None),
        Create(paths.partition_state("orders", 1), b'{"leader":"one"}'),
    )
    foreign, orders, bills = await topic_znodes.describe(session, ["foreign", "orders", "bills"], ())
    assert "/brokers/topics/foreign" in str(foreign.problem)
    assert foreign.partitions == ()
    assert "/brokers/topics/orders/partitions/1/state" in str(orders.problem)
    assert [p.partition for p in orders.partitions] == [0, 1]
    assert [p.state_unseen for p in orders.partitions] == [None, orders.problem]
    assert bills.problem is None


async def test_requests_that_cannot_be_understood_are_unseen(session: FakeSession) -> None:
    await topic_znodes.create_topics(session, [plan("orders")])
    moving = b'{"version":3,"partitions":{"0":[1,2]},"removing_replicas":{"0":[2]}}'
    await apply(
        session,
        Create(paths.REASSIGN_PARTITIONS, b"\x00"),
        Create(paths.topic("moving"), moving),
        Create(paths.topic("foreign"), b"<xml/>"),
    )
    (orders,) = await topic_znodes.describe(session, ["orders"], ())
    assert orders.problem is None
    assert "/admin/reassign_partitions cannot be understood" in str(orders.requests_unseen)
    found = await topic_znodes.being_reassigned(session, ["orders", "moving", "foreign"])
    assert found.names == ("moving",)
    assert found.unseen["orders"] == orders.requests_unseen
    assert "/brokers/topics/foreign" in found.unseen["foreign"]


async def test_a_broken_registration_hides_no_other_broker(session: FakeSession) -> None:
    await apply(session, Create(paths.broker_id(7), b"{}"), Create(paths.BROKER_IDS + "/x", b""))
    brokers, malformed = await topic_znodes.live_brokers(session)
    assert [(b.id, b.rack) for b in brokers] == [(1, None), (2, "a")]
    assert [problem.path for problem in malformed] == ["/brokers/ids/7"]


async def test_the_active_controller(session: FakeSession) -> None:
    assert await topic_znodes.active_controller(session) is None
    await elect(session, 1)
    controller = await topic_znodes.active_controller(session)
    assert controller is not None
    assert controller.znode.broker_id == 1
    assert controller.stat.ephemeral_owner == session.session_id
    assert not controller.is_kraft
