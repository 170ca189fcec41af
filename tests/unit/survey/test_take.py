"""Taking a survey on a fake ZooKeeper: what is malformed, silent or in motion is part of the result."""

from __future__ import annotations

import socket
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_plans import TopicPlan, creation_operations, deletion_operation
from lethe.protocol.findings import Reason
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.survey_records import ZNODES, survey_id
from lethe.protocol.vocabulary import Broker, BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Create,
    Delete,
    Read,
    ReadOutcome,
    SetData,
)
from lethe.protocol.zookeeper.znodes import TrashPhase, encode_cluster_id, encode_trash
from lethe.survey.leftovers import leftovers
from lethe.survey.records import rows_of
from lethe.survey.take import take_survey
from lethe.survey.views import BrokerAnswers, BrokerFailure, LogDirSource, LogDirView, UnansweredQuestion
from lethe.survey.zookeeper import read_tree
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, bring_online, delete_tree, elect, prepare

TOPIC_ID = TopicId(uuid.UUID(int=77))


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await prepare(session, {1: None, 2: None})
        await elect(session, 1)
        plan = TopicPlan("orders", TOPIC_ID, ((1, 2), (2, 1)))
        await apply(session, *creation_operations(plan, config_exists=False))
        await bring_online(session, "orders", {0: (1, 2), 1: (2, 1)})
        yield session


async def knows_orders(broker: Broker) -> BrokerAnswers:
    return BrokerAnswers(broker.id, {"orders": CachedTopic(TOPIC_ID, (0, 1))}, BrokerId(1))


async def test_the_tree_is_read(session: FakeSession) -> None:
    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: knows_orders)
    tree = survey.zookeeper
    orders = tree.topics["orders"]
    assert (orders.topic_id, orders.partition_znodes) == (TOPIC_ID, (0, 1))
    assert [state.leader for state in orders.states.values() if state is not None] == [1, 2]
    assert [broker.id for broker in tree.brokers] == [1, 2]
    assert tree.controller is not None
    assert tree.controller.broker_id == 1
    assert (survey.is_complete, survey.in_motion, leftovers(survey)) == (True, (), ())


async def test_malformed_znodes_are_problems_and_the_rest_is_seen(session: FakeSession) -> None:
    await apply(session, SetData(paths.partition_state("orders", 0), b"{", ANY_VERSION))
    await apply(session, Create(paths.topic("broken"), b"nonsense"))
    await apply(session, SetData(paths.broker_id(2), b"[]", ANY_VERSION))
    await apply(session, Create(f"{paths.topic_partitions('orders')}/x", None))
    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: knows_orders)
    assert {problem.where for problem in survey.problems} == {
        paths.partition_state("orders", 0),
        paths.topic("broken"),
        paths.broker_id(2),
        f"{paths.topic_partitions('orders')}/x",
    }
    assert sorted(survey.zookeeper.topics) == ["broken", "orders"]
    assert survey.zookeeper.topics["orders"].states[0] is None
    assert [answer.broker for answer in survey.answers] == [1]
    assert leftovers(survey) == ()


async def test_without_the_list_of_topics_nothing_is_left_over_and_a_named_topic_is_found(
    session: FakeSession, tmp_path: Path
) -> None:
    (tmp_path / "orders-0").mkdir()
    blind = forbidding(session, paths.BROKER_TOPICS)
    survey = await take_survey(blind, PLAINTEXT_REACH, ask=lambda _: knows_orders, log_dirs={1: [tmp_path]})
    assert [problem.where for problem in survey.problems] == [paths.BROKER_TOPICS]
    assert leftovers(survey) == ()
    tree, _ = await read_tree(blind, ["orders", "unknown"])
    assert list(tree.topics) == ["orders"]


async def test_a_topic_that_changes_after_it_was_read_is_in_motion(session: FakeSession, tmp_path: Path) -> None:
    """A replica that is moved to broker 1 and a partition that is added, before its disk is looked at."""
    await apply(session, *creation_operations(TopicPlan("still", TOPIC_ID, ((2,),)), config_exists=False))
    await bring_online(session, "still", {0: (2,)})
    for name in ("orders-0", "orders-1", "orders-2", "still-0"):
        (tmp_path / name).mkdir()

    async def meanwhile(broker: Broker) -> BrokerAnswers:
        if broker.id == 1:
            grown = TopicPlan("orders", TOPIC_ID, ((1, 2), (2, 1), (1,)))
            made = creation_operations(grown, config_exists=True)
            data = next(one.data for one in made if isinstance(one, Create) and one.path == paths.topic("orders"))
            await apply(session, SetData(paths.topic("orders"), data or b"", ANY_VERSION))
        return BrokerAnswers(broker.id)

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: meanwhile, log_dirs={1: [tmp_path]}, settle_s=0)
    assert survey.in_motion == ("orders",)
    assert [(found.reason, found.topic) for found in leftovers(survey)] == [(Reason.DIRECTORY_NOT_ASSIGNED, "still")]


async def test_a_survey_is_named_by_its_machine_too(session: FakeSession) -> None:
    """Two that are taken in one millisecond on two machines are two."""
    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: knows_orders)
    assert survey.host == socket.gethostname()
    rows = [next(iter(rows_of(ZNODES, replace(survey, host=host))))["survey_id"] for host in ("kafka-1", "kafka-2")]
    assert rows == [survey_id(survey.taken_at_ms, host) for host in ("kafka-1", "kafka-2")]
    assert len(set(rows)) == 2


async def test_a_chroot_without_cluster_is_a_problem() -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as empty:
        survey = await take_survey(empty, PLAINTEXT_REACH, ask=lambda _: knows_orders)
    assert not survey.is_complete
    assert "no Kafka cluster here" in survey.problems[0].what
    assert {problem.where for problem in survey.problems} == {paths.BROKER_TOPICS, paths.BROKER_IDS}


async def test_topics_that_come_and_go_meanwhile_are_in_motion(session: FakeSession) -> None:
    plan = TopicPlan("late", TOPIC_ID, ((1,),))
    asked: list[BrokerId] = []

    async def meanwhile(broker: Broker) -> BrokerAnswers:
        asked.append(broker.id)
        if asked == [1]:
            await apply(session, *creation_operations(plan, config_exists=False))
            await apply(session, deletion_operation("orders"))
            await delete_tree(session, paths.topic("orders"))
            await apply(session, Delete(paths.config_topic("orders")), Delete(paths.delete_topic("orders")))
        return BrokerAnswers(broker.id, {"late": CachedTopic(TOPIC_ID, (0,)), "ghost": CachedTopic(None, (0,))})

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: meanwhile, settle_s=0)
    assert survey.in_motion == ("late", "orders")
    assert {(found.reason, found.topic) for found in leftovers(survey)} == {(Reason.CACHED_WITHOUT_TOPIC, "ghost")}


async def test_local_directories_come_before_the_brokers_word(session: FakeSession, tmp_path: Path) -> None:
    (tmp_path / "ghost-0").mkdir()

    async def tells_disks(broker: Broker) -> BrokerAnswers:
        views = tuple(LogDirView(broker.id, path, LogDirSource.BROKER) for path in (str(tmp_path), "/remote"))
        unseen = (UnansweredQuestion(BrokerFailure.ERROR, "it is tired"),) if broker.id == 2 else ()
        return BrokerAnswers(broker.id, log_dirs=views, unseen=unseen)

    survey = await take_survey(
        session,
        PLAINTEXT_REACH,
        ask=lambda _: tells_disks,
        log_dirs={1: [tmp_path], 9: [tmp_path / "gone"]},
        settle_s=0,
    )
    assert [(view.broker, view.path, view.source) for view in survey.log_dirs] == [
        (1, "/remote", LogDirSource.BROKER),
        (1, str(tmp_path), LogDirSource.LOCAL),
        (2, "/remote", LogDirSource.BROKER),
        (2, str(tmp_path), LogDirSource.BROKER),
        (9, str(tmp_path / "gone"), LogDirSource.LOCAL),
    ]
    assert {problem.where for problem in survey.problems} == {"broker 2", f"broker 9, {tmp_path / 'gone'}"}
    ghosts = [found for found in leftovers(survey) if found.topic == "ghost"]
    assert [(found.reason, found.broker) for found in ghosts] == [(Reason.DIRECTORY_WITHOUT_TOPIC, 1)]


async def test_a_named_directory_that_its_broker_calls_failed_is_a_problem(
    session: FakeSession, tmp_path: Path
) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-1").mkdir()
    why = "the broker says KAFKA_STORAGE_ERROR"

    async def failed(broker: Broker) -> BrokerAnswers:
        view = LogDirView(broker.id, str(tmp_path), LogDirSource.BROKER, problem=why, has_failed=True)
        answer = await knows_orders(broker)
        return replace(answer, log_dirs=(view,) if broker.id == 1 else None)

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: failed, log_dirs={1: [tmp_path]}, settle_s=0)
    (view,) = survey.log_dirs
    assert (view.source, view.has_failed, view.problem) == (LogDirSource.LOCAL, True, why)
    assert [directory.name for directory in view.directories] == ["orders-0", "orders-1"]
    assert survey.problems == ((f"broker 1, {tmp_path}", why),)


async def test_directories_that_are_provably_here_are_read_without_being_named(
    session: FakeSession, tmp_path: Path
) -> None:
    """By name alone a path could be another machine's: `meta.properties` has to name this broker of this cluster."""
    await session.ensure_path(paths.CLUSTER_ID)
    await apply(session, SetData(paths.CLUSTER_ID, encode_cluster_id("cluster-1"), ANY_VERSION))
    owners = {"mine": (1, "cluster-1"), "another-brokers": (2, "cluster-1"), "another-clusters": (1, "cluster-2")}
    for name, (owner, cluster) in owners.items():
        (tmp_path / name / f"old-0.{'0' * 32}-stray").mkdir(parents=True)
        meta = f"version=0\nbroker.id={owner}\ncluster.id={cluster}\n"
        (tmp_path / name / "meta.properties").write_text(meta)
    (tmp_path / "unmarked").mkdir()

    async def tells_disks(broker: Broker) -> BrokerAnswers:
        views = [
            LogDirView(broker.id, str(tmp_path / name), LogDirSource.BROKER) for name in (*owners, "unmarked", "gone")
        ]
        return BrokerAnswers(broker.id, log_dirs=tuple(views) if broker.id == 1 else ())

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: tells_disks, read_local_disks=True, settle_s=0)
    assert [Path(view.path).name for view in survey.log_dirs if view.source is LogDirSource.LOCAL] == ["mine"]
    assert [found.what for found in leftovers(survey) if found.reason is Reason.STRAY_DIRECTORY] == [
        str(tmp_path / "mine" / f"old-0.{'0' * 32}-stray")
    ]
    assert survey.problems == ()
    told = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: tells_disks, settle_s=0)
    assert {view.source for view in told.log_dirs} == {LogDirSource.BROKER}


async def test_what_a_broker_has_not_done_yet_is_in_motion(session: FakeSession, tmp_path: Path) -> None:
    """A topic that has just been brought up is in no cache, and a replica that was moved away is still on its disk,
    until the brokers have done what their controller tells them. What stays so is a finding."""
    for topic in ("fresh", "lost"):
        await apply(session, *creation_operations(TopicPlan(topic, TOPIC_ID, ((1,),)), config_exists=False))
        await bring_online(session, topic, {0: (1,)})
    for name in ("orders-0", "orders-1", "orders-5", "lost-5"):
        (tmp_path / name).mkdir()
    looks = {1: 0, 2: 0}

    async def catches_up(broker: Broker) -> BrokerAnswers:
        looks[int(broker.id)] += 1
        cache = {"orders": CachedTopic(TOPIC_ID, (0, 1)), "ghost": CachedTopic(None, (0,))}
        if looks[int(broker.id)] == 2:
            cache |= {"fresh": CachedTopic(TOPIC_ID, (0,))}
            if broker.id == 1:
                (tmp_path / "orders-5").rmdir()
        return BrokerAnswers(broker.id, cache)

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: catches_up, log_dirs={2: [tmp_path]}, settle_s=0)
    assert survey.in_motion == ("fresh", "orders")
    assert {(found.reason, found.topic, found.broker) for found in leftovers(survey)} == {
        (Reason.IN_NO_CACHE, "lost", None),
        (Reason.DIRECTORY_NOT_ASSIGNED, "lost", 2),
        (Reason.CACHED_WITHOUT_TOPIC, "ghost", 1),
        (Reason.CACHED_WITHOUT_TOPIC, "ghost", 2),
    }
    assert set(looks.values()) == {2}


async def test_where_nothing_may_pass_brokers_are_asked_once(session: FakeSession, tmp_path: Path) -> None:
    asked = []

    async def knows(broker: Broker) -> BrokerAnswers:
        asked.append(broker.id)
        return await knows_orders(broker)

    (tmp_path / "gone-0").mkdir()
    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: knows, log_dirs={1: [tmp_path]})
    assert [found.reason for found in leftovers(survey)] == [Reason.DIRECTORY_WITHOUT_TOPIC]
    assert asked == [1, 2]


async def test_where_a_broker_does_not_tell_of_a_topic_nothing_is_said_and_that_is_a_problem(
    session: FakeSession,
) -> None:
    """With an authorizer a broker leaves out of its list what the asking one may not know, without a word; only who
    asks by the name learns that."""
    asked: list[BrokerId] = []

    async def hides(broker: Broker) -> BrokerAnswers:
        asked.append(broker.id)
        if len(asked) <= 2:
            return BrokerAnswers(broker.id, {})
        return BrokerAnswers(broker.id, unseen=(UnansweredQuestion(BrokerFailure.REFUSED, "nobody may ask it"),))

    survey = await take_survey(session, PLAINTEXT_REACH, ask=lambda _: hides, settle_s=0)
    assert (leftovers(survey), survey.in_motion) == ((), ("orders",))
    assert [problem.where for problem in survey.problems] == ["broker 1", "broker 2"]


async def test_only_the_entry_of_a_topic_that_is_in_the_trash_keeps_anything(session: FakeSession) -> None:
    """In every other phase the topic itself is there. Kafka's controller has deleted these: one that was still to go
    into the trash, and two that were back, one of them with offsets still to be restored."""
    entries = {phase.value: ENTRY.entering(phase, 1) for phase in TrashPhase}
    await in_trash(session, **entries, orders=ENTRY)
    await apply(session, Create(paths.trashed("unclear"), b"?"))
    tree, _ = await read_tree(session)
    kept = {"trashed": ENTRY.topic_id, "orders": ENTRY.topic_id}
    assert tree.trashed == kept, "also where another topic has the name"
    assert [*tree.unreadable_trash] == ["unclear"]
    assert [name for name in (*entries, "orders", "unclear") if tree.is_in_trash(name)] == ["trashed", "unclear"]
    blind, _ = await read_tree(forbidding(session, paths.BROKER_TOPICS))
    assert blind.trashed == kept


async def test_an_entry_of_the_trash_that_cannot_be_read_or_understood_is_a_problem(session: FakeSession) -> None:
    await in_trash(session, hidden=ENTRY)
    await apply(session, Create(paths.trashed("unclear"), b"?"))
    shut = forbidding(session, paths.trashed("hidden"))
    survey = await take_survey(shut, PLAINTEXT_REACH, ask=lambda _: knows_orders)
    assert [where for where, _ in survey.problems] == [paths.trashed("hidden"), paths.trashed("unclear")]
    assert survey.problems[0].what == NO_AUTH
    about_one, _ = await read_tree(shut, ["unclear"])
    assert [where for where, _ in about_one.problems] == [paths.trashed("unclear")], "nothing else is asked about"
    assert [*about_one.unreadable_trash] == ["hidden", "unclear"]


async def test_a_topic_that_comes_back_while_the_trash_is_read_is_in_motion(
    session: FakeSession, tmp_path: Path
) -> None:
    """Its entry keeps nothing any more, and the list of topics does not have it yet."""
    (tmp_path / "back-0").mkdir()
    await in_trash(session, back=ENTRY)
    returning = Returning(session, "back")
    survey = await take_survey(
        cast(ZooKeeperSession, returning), PLAINTEXT_REACH, ask=lambda _: knows_orders, log_dirs={1: [tmp_path]}
    )
    assert (survey.zookeeper.trashed, "back" in survey.zookeeper.topics) == ({}, False)
    assert (leftovers(survey), survey.in_motion) == ((), ("back",))


class Returning:
    """A session on which a topic comes back from the trash once the lists have been read."""

    def __init__(self, session: FakeSession, name: str) -> None:
        self._session, self._name, self._is_back = session, name, False

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        found = await self._session.read(reads)
        if not self._is_back:
            self._is_back = True
            plan = TopicPlan(self._name, ENTRY.topic_id, ((1,),))
            entry = encode_trash(ENTRY.entering(TrashPhase.RESTORING, 2))
            made = creation_operations(plan, config_exists=False)
            await apply(self._session, *made, SetData(paths.trashed(self._name), entry, ANY_VERSION))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
