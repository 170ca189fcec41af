"""Deletions seen from outside: what is left where, what is waited for, and that a new incarnation is not the old."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from adapters import topic_admin
from adapters.deletion_progress import BrokerView, FailedLogDir, Progress, Target, look, targets
from protocol.topic_plans import TopicPlan
from protocol.vocabulary import Broker, TopicId
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Create
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, complete_deletion, prepare

OLD, NEW = TopicId(uuid.UUID(int=1 << 100)), TopicId(uuid.UUID(int=2 << 100))
NOTHING = BrokerView({}, frozenset())


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await prepare(session, {1: None, 2: None})
        await create(session, OLD)
        yield session


async def create(session: FakeSession, topic_id: TopicId | None) -> None:
    (outcome,) = await topic_admin.create_topics(session, [TopicPlan("orders", topic_id, ((1, 2), (2, 3)))])
    assert outcome.problem is None


class Brokers:
    """What each broker would answer; None for one that is silent."""

    def __init__(self, **views: BrokerView | None) -> None:
        self.views = {int(name.removeprefix("b")): view for name, view in views.items()}

    async def __call__(self, broker: Broker, topics: Sequence[Target]) -> BrokerView | None:
        return self.views.get(broker.id, NOTHING)


async def seen(session: FakeSession, wanted: Sequence[Target], brokers: Brokers) -> Progress:
    (progress,) = await look(session, brokers, wanted)
    return progress


async def test_from_mark_to_nothing(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    assert (wanted[0].brokers, wanted[0].partitions, wanted[0].topic_id) == ((1, 2, 3), (0, 1), OLD)
    await topic_admin.mark_for_deletion(session, ["orders"])
    full = BrokerView({"orders": OLD}, frozenset({"orders"}))
    progress = await seen(session, wanted, Brokers(b1=full, b2=full))
    assert progress == Progress("orders", True, True, (1, 2), (1, 2), (), (3,))
    assert progress.waits_for == ("broker 3 to come back, the metadata cache of brokers 1, 2, the logs of brokers 1, 2")
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers(b2=BrokerView({}, frozenset({"orders"}))))
    assert not progress.is_done
    assert progress.waits_for == "the logs of broker 2"
    progress = await seen(session, wanted, Brokers())
    assert progress.is_done
    assert progress.waits_for == ""


async def test_a_failed_log_directory_is_named_where_the_topic_may_have_a_replica(session: FakeSession) -> None:
    await apply(session, Create(paths.topic("single"), b'{"version":1,"partitions":{"0":[1]}}'))
    wanted = await targets(session, ["orders", "single"])
    await topic_admin.mark_for_deletion(session, ["orders", "single"])
    failed = BrokerView({}, frozenset(), ("/data/b", "/data/c"))
    orders, single = await look(session, Brokers(b2=failed), wanted)
    assert orders.failed_log_dirs == (FailedLogDir(2, "/data/b"), FailedLogDir(2, "/data/c"))
    for words in ("broker 3 to come back", "broker 2 whose log directory /data/b has failed", "/data/c", "repair it"):
        assert words in orders.waits_for
    assert "controller" not in orders.waits_for
    assert (single.failed_log_dirs, single.waits_for) == ((), "the controller")
    await complete_deletion(session, "orders")
    (orders,) = await look(session, Brokers(b2=failed), wanted[:1])
    assert (orders.is_done, orders.waits_for) == (True, "")


async def test_a_silent_broker_leaves_it_open(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_admin.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers(b2=None))
    assert not progress.is_done
    assert progress.waits_for == "an answer of broker 2"


async def test_a_dropped_mark_is_a_refusal(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    progress = await seen(session, wanted, Brokers())
    assert progress.is_given_up
    assert not progress.is_done


async def test_a_new_incarnation_is_not_the_old_one(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_admin.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    await create(session, NEW)
    new = BrokerView({"orders": NEW}, frozenset({"orders"}))
    assert (await seen(session, wanted, Brokers(b1=new, b2=new))).is_done
    stale = BrokerView({"orders": OLD}, frozenset({"orders"}))
    assert (await seen(session, wanted, Brokers(b1=stale, b2=new))).cached_by == (1,)


async def test_without_ids_a_new_incarnation_settles_it(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_admin.mark_for_deletion(session, ["orders"])
    old = BrokerView({"orders": None}, frozenset())
    assert (await seen(session, wanted, Brokers(b1=old))).cached_by == (1,)
    await complete_deletion(session, "orders")
    await create(session, None)
    assert (await seen(session, wanted, Brokers(b1=old))).is_done


async def test_only_a_mark_was_left(session: FakeSession) -> None:
    await apply(session, Create(paths.delete_topic("ghost"), None))
    wanted = await targets(session, ["ghost"])
    assert wanted == [Target("ghost", None, None, (), ())]
    progress = await seen(session, wanted, Brokers())
    assert (progress.is_done, progress.is_given_up, progress.waits_for) == (False, False, "the controller")


async def test_a_topic_that_cannot_be_read_can_still_be_watched(session: FakeSession) -> None:
    await apply(session, Create(paths.topic("foreign"), b"<xml/>"))
    (target,) = await targets(session, ["foreign"])
    assert target.czxid is not None
    assert (target.brokers, target.partitions) == ((), ())
