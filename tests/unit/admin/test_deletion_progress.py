"""Deletions seen from outside: what is left where, what is waited for, and that a new incarnation is not the old."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from lethe.admin import topic_znodes
from lethe.admin.deletion_look import look, targets
from lethe.admin.deletion_progress import (
    DeletionTarget,
    FailedLogDir,
    TopicDeletionProgress,
    UnseenPlace,
    UnseenZnode,
)
from lethe.admin.topic_plans import TopicPlan
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import SavedPartition, TrashEntry, TrashPhase, encode_broker, encode_trash
from lethe.survey.brokers import AskBroker, QueryScope
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Directory,
    LogDirSource,
    LogDirView,
    UnansweredQuestion,
)
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, complete_deletion, prepare

OLD, NEW = TopicId(uuid.UUID(int=1 << 100)), TopicId(uuid.UUID(int=2 << 100))


def view(
    cached: dict[str, TopicId | None] | None = None, stored: Sequence[str] = (), failed: Sequence[str] = ()
) -> BrokerAnswers:
    """What a broker tells that answers everything."""
    replicas = tuple(Directory(f"{topic}-0", DirectoryKind.REPLICA, TopicPartition(topic, 0)) for topic in stored)
    dirs = [LogDirView(BrokerId(0), "/data/a", LogDirSource.BROKER, replicas)]
    dirs += [
        LogDirView(BrokerId(0), path, LogDirSource.BROKER, (), "it has failed", has_failed=True) for path in failed
    ]
    cache = {name: CachedTopic(topic_id, (0,)) for name, topic_id in (cached or {}).items()}
    return BrokerAnswers(BrokerId(0), cache, BrokerId(1), tuple(dirs))


def unseen(failure: BrokerFailure, why: str) -> BrokerAnswers:
    return BrokerAnswers(BrokerId(0), unseen=(UnansweredQuestion(failure, why),))


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await prepare(session, {1: None, 2: None})
        await create(session, OLD)
        yield session


async def create(session: FakeSession, topic_id: TopicId | None) -> None:
    (outcome,) = await topic_znodes.create_topics(session, [TopicPlan("orders", topic_id, ((1, 2), (2, 3)))])
    assert outcome.problem is None


async def register(session: FakeSession, number: int, data: bytes | None = None) -> None:
    broker = Broker(BrokerId(number), BrokerEpoch(0), (Endpoint("PLAINTEXT", "127.0.0.1", 1),))
    await apply(session, Create(paths.broker_id(number), data or encode_broker(broker, timestamp_ms=0)))


class Brokers:
    """What each broker answers; one that is not named has nothing."""

    def __init__(self, **views: BrokerAnswers) -> None:
        self.views = {int(name.removeprefix("b")): view for name, view in views.items()}
        self.scopes: list[QueryScope] = []

    def __call__(self, scope: QueryScope) -> AskBroker:
        self.scopes.append(scope)

        async def ask(broker: Broker) -> BrokerAnswers:
            return dataclasses.replace(self.views.get(broker.id, view()), broker=broker.id)

        return ask


async def seen(session: FakeSession, wanted: Sequence[DeletionTarget], brokers: Brokers) -> TopicDeletionProgress:
    (progress,) = await look(session, brokers, wanted)
    return progress


async def test_from_mark_to_nothing(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    assert (wanted[0].brokers, wanted[0].partitions, wanted[0].topic_id) == ((1, 2, 3), (0, 1), OLD)
    await topic_znodes.mark_for_deletion(session, ["orders"])
    full = view({"orders": OLD}, ["orders"])
    progress = await seen(session, wanted, Brokers(b1=full, b2=full))
    away = UnseenPlace(3, BrokerPlace.LOGS, BrokerFailure.ABSENT, "it is not registered")
    assert progress == TopicDeletionProgress("orders", True, True, (1, 2), (1, 2), (away,), (3,))
    assert progress.waits == (
        "broker 3 to come back",
        "the metadata cache of broker 1",
        "the metadata cache of broker 2",
        "the logs of broker 1",
        "the logs of broker 2",
    )
    await register(session, 3)
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers(b2=view(stored=["orders"])))
    assert not progress.is_done
    assert progress.waits_for == "the logs of broker 2"
    progress = await seen(session, wanted, Brokers())
    assert progress.is_done
    assert progress.waits_for == ""


async def test_a_broker_with_replicas_that_went_away_was_not_seen(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers())
    assert (progress.is_left, progress.is_done, progress.is_settled) == (False, False, False)
    assert progress.waits_for == "a look at the log directories of broker 3 (it is not registered)"


async def test_without_any_registered_broker_nothing_was_seen(session: FakeSession) -> None:
    await apply(session, Create(paths.delete_topic("ghost"), None))
    wanted = await targets(session, ["orders", "ghost"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    await apply(session, Delete(paths.delete_topic("ghost")))
    for broker in (1, 2):
        await apply(session, Delete(paths.broker_id(broker)))
    orders, ghost = await look(session, Brokers(), wanted)
    assert [(each.broker, each.place) for each in orders.unseen] == [
        (None, BrokerPlace.CACHE),
        (1, BrokerPlace.LOGS),
        (2, BrokerPlace.LOGS),
        (3, BrokerPlace.LOGS),
    ]
    assert [(each.broker, each.place) for each in ghost.unseen] == [
        (None, BrokerPlace.CACHE),
        (None, BrokerPlace.LOGS),
    ]
    assert ghost.waits_for == "a look at the metadata cache and log directories of any broker (no broker is registered)"
    assert not ghost.is_done


async def test_a_registration_that_cannot_be_understood_hides_its_broker(session: FakeSession) -> None:
    await register(session, 3, b"{")
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers())
    assert [(each.broker, each.place) for each in progress.unseen] == [
        (3, BrokerPlace.CACHE),
        (3, BrokerPlace.LOGS),
    ]
    assert "broker 3 (its registration cannot be understood)" in progress.waits_for


async def test_where_partitions_are_not_known_brokers_are_asked_for_all_replicas(session: FakeSession) -> None:
    await apply(session, Create(paths.topic("foreign"), b"<xml/>"))
    brokers = Brokers(b1=view(stored=["foreign"]))
    (progress,) = await look(session, brokers, await targets(session, ["foreign"]))
    await look(session, brokers, await targets(session, ["orders"]))
    assert progress.stored_by == (1,)
    assert brokers.scopes == [QueryScope({"foreign"}), QueryScope({"orders"}, {"orders": (0, 1)})]


async def test_a_failed_log_directory_is_named_where_the_topic_may_have_a_replica(session: FakeSession) -> None:
    await apply(session, Create(paths.topic("single"), b'{"version":1,"partitions":{"0":[1]}}'))
    wanted = await targets(session, ["orders", "single"])
    await topic_znodes.mark_for_deletion(session, ["orders", "single"])
    failed = view(failed=["/data/b", "/data/c"])
    orders, single = await look(session, Brokers(b2=failed), wanted)
    assert orders.failed_log_dirs == (FailedLogDir(2, "/data/b"), FailedLogDir(2, "/data/c"))
    for words in ("broker 3 to come back", "broker 2 whose log directory /data/b has failed", "/data/c", "repair it"):
        assert words in orders.waits_for
    assert "controller" not in orders.waits_for
    assert (single.failed_log_dirs, single.waits_for) == ((), "the controller")
    await complete_deletion(session, "orders")
    (orders,) = await look(session, Brokers(b2=failed), wanted[:1])
    assert (orders.is_left, orders.is_done) == (False, False)
    assert "a look at the log directories of broker 2 (log directory /data/b has failed)" in orders.waits


async def test_a_silent_broker_leaves_it_open(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, Brokers(b2=unseen(BrokerFailure.SILENT, "no answer within 5 s")))
    assert not progress.is_done
    assert "a look at the metadata cache and log directories of broker 2 (no answer within 5 s)" in progress.waits


@pytest.mark.parametrize(
    "failure, is_settled", [(BrokerFailure.REFUSED, True), (BrokerFailure.UNASKED, True), (BrokerFailure.ERROR, False)]
)
async def test_only_what_a_person_has_to_change_ends_the_wait(
    session: FakeSession, failure: BrokerFailure, is_settled: bool
) -> None:
    await register(session, 3)
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    hidden = Brokers(b2=unseen(failure, "no"))
    assert not (await seen(session, wanted, hidden)).is_settled
    await complete_deletion(session, "orders")
    progress = await seen(session, wanted, hidden)
    assert (progress.is_done, progress.is_settled) == (False, is_settled)


async def test_a_dropped_mark_is_a_refusal(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    progress = await seen(session, wanted, Brokers())
    assert progress.is_given_up
    assert not progress.is_done


async def test_a_new_incarnation_is_not_the_old_one(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    await create(session, NEW)
    new = view({"orders": NEW}, ["orders"])
    assert (await seen(session, wanted, Brokers(b1=new, b2=new))).is_done
    stale = view({"orders": OLD}, ["orders"])
    assert (await seen(session, wanted, Brokers(b1=stale, b2=new))).cached_by == (1,)


async def test_without_ids_a_new_incarnation_settles_it(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    old = view({"orders": None})
    assert (await seen(session, wanted, Brokers(b1=old))).cached_by == (1,)
    await complete_deletion(session, "orders")
    await create(session, None)
    assert (await seen(session, wanted, Brokers(b1=old))).is_done


async def test_only_a_mark_was_left(session: FakeSession) -> None:
    await apply(session, Create(paths.delete_topic("ghost"), None))
    wanted = await targets(session, ["ghost"])
    assert wanted == [DeletionTarget("ghost", None, None, (), (), possible_hosts=(1, 2, 3))]
    progress = await seen(session, wanted, Brokers())
    assert (progress.is_done, progress.is_given_up, progress.absent) == (False, False, ())
    assert progress.waits[0] == "the controller"


async def test_where_only_a_mark_was_left_any_absent_broker_may_have_replicas(session: FakeSession) -> None:
    """Its znode was removed by hand. Broker 3 is not registered and has replicas of another topic."""
    await apply(session, Create(paths.delete_topic("ghost"), None))
    wanted = await targets(session, ["ghost"])
    await apply(session, Delete(paths.delete_topic("ghost")))
    progress = await seen(session, wanted, Brokers())
    assert (progress.is_left, progress.is_done, progress.is_settled) == (False, False, False)
    assert progress.waits == ("a look at the log directories of broker 3 (it is not registered)",)
    await register(session, 3)
    assert (await seen(session, wanted, Brokers())).is_done


async def test_where_only_a_mark_was_left_a_topic_that_cannot_be_read_may_name_a_broker(session: FakeSession) -> None:
    await register(session, 3)
    await apply(session, Create(paths.delete_topic("ghost"), None), Create(paths.topic("foreign"), b"<xml/>"))
    wanted = await targets(session, ["ghost"])
    await apply(session, Delete(paths.delete_topic("ghost")))
    progress = await seen(session, wanted, Brokers())
    assert (progress.is_done, progress.is_blind) == (False, True)
    assert "a broker that only this topic names is not known" in progress.waits_for
    hidden = forbidding(session, paths.BROKER_TOPICS)
    progress = await seen(session, await targets(hidden, ["ghost"]), Brokers())
    assert (progress.is_done, progress.unseen_znodes) == (False, (UnseenZnode(paths.BROKER_TOPICS, NO_AUTH),))


async def test_a_topic_that_cannot_be_read_can_still_be_watched(session: FakeSession) -> None:
    await apply(session, Create(paths.topic("foreign"), b"<xml/>"))
    (target,) = await targets(session, ["foreign"])
    assert target.czxid is not None
    assert (target.brokers, target.partitions) == ((), ())


async def test_a_topic_that_may_not_be_read_is_there(session: FakeSession) -> None:
    blind = forbidding(session, paths.topic("orders"))
    wanted = await targets(blind, ["orders", "unknown"])
    (known,) = await targets(session, ["orders"])
    assert wanted[0] == DeletionTarget("orders", known.czxid, None, (), ())
    assert wanted[1].czxid is None
    await topic_znodes.mark_for_deletion(session, ["orders"])
    (progress,) = await look(blind, Brokers(), wanted[:1])
    assert (progress.has_znode, progress.is_recreated, progress.is_done) == (True, False, False)


async def test_a_refused_marker_is_not_a_dropped_mark(session: FakeSession) -> None:
    await register(session, 3)
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    path = paths.delete_topic("orders")
    (progress,) = await look(forbidding(session, path, tells_existence=False), Brokers(), wanted)
    assert (progress.has_znode, progress.is_given_up, progress.is_settled) == (True, False, False)
    assert progress.unseen_znodes == (UnseenZnode(path, NO_AUTH),)
    assert progress.waits_for == f"the controller, a look at /admin/delete_topics/orders ({NO_AUTH})"


async def test_a_refused_topic_is_not_gone(session: FakeSession) -> None:
    await register(session, 3)
    wanted = await targets(session, ["orders"])
    blind = forbidding(session, paths.topic("orders"), tells_existence=False)
    (progress,) = await look(blind, Brokers(), wanted)
    assert (progress.is_left, progress.is_done, progress.is_blind) == (False, False, True)
    assert progress.waits_for == f"a look at /brokers/topics/orders ({NO_AUTH})"
    (progress,) = await look(blind, Brokers(b1=view(stored=["orders"])), wanted)
    assert not progress.is_settled, "waiting helps against what was seen"


async def test_topic_in_the_trash_settles_it(session: FakeSession) -> None:
    wanted = await targets(session, ["orders"])
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await complete_deletion(session, "orders")
    kept = {0: SavedPartition((1,), 1, 0, (1,))}
    for topic_id in (NEW, OLD):
        entry = TrashEntry(TrashPhase.TRASHED, topic_id, 1_000, 500, None, kept)
        await session.multi([Create(path, None) for path in (paths.LETHE, paths.TRASH)])
        await session.multi([Create(paths.trashed("orders"), encode_trash(entry))])
        progress = await seen(session, wanted, Brokers(b2=view(stored=["orders"])))
        assert progress.is_settled is progress.is_trashed is (topic_id == OLD), "another topic of the name is none"
        assert progress.trashed_until_ms == (1_500 if topic_id == OLD else None)
        await session.multi([Delete(paths.trashed("orders"))])
