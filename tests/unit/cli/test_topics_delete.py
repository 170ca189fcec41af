"""`lethe topics delete`: what an expression may delete, what is asked first, and waiting until nothing is left."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

import pytest

from lethe.admin import topic_znodes
from lethe.admin.deletion_look import look, targets
from lethe.admin.deletion_wait import wait_until_gone
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.deletion_show import Detail, waiting_answer
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete import deletion
from lethe.cli.topics_delete_selection import selected
from lethe.protocol.causes import CauseKind, remedy, sentence
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
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
from lethe.survey.znodes import ZnodeUnreadable
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, complete_deletion, elect

AWAY = f"{sentence(CauseKind.BROKER_TO_RETURN, '', broker=2)}: {remedy(CauseKind.BROKER_TO_RETURN, '', broker=2)}"


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    for name in ("orders", "orders.eu", "bills", "__consumer_offsets"):
        await creation(session, TopicCreationRequest(name, assignment=((1, 2),)))
    await elect(session, 1)
    return session


class Asked:
    """Somebody who is asked, and says what the test says."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def __call__(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer


async def test_an_exact_name_means_itself_and_is_not_asked_about(cluster: FakeSession) -> None:
    asked = Asked(False)
    assert await selected(cluster, ["orders.eu", "orders"], if_exists=False, confirm=asked) == ("orders", "orders.eu")
    assert asked.questions == []


async def test_what_a_pattern_hits_is_shown_first(cluster: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked(True)
    assert await selected(cluster, [".*"], if_exists=False, confirm=asked) == ("bills", "orders", "orders.eu")
    assert asked.questions == ["Delete these 3 topics?"]
    assert capsys.readouterr().err == "  bills\n  orders\n  orders.eu\n"
    with pytest.raises(Refusal, match="nothing was done"):
        await selected(cluster, ["orders.*"], if_exists=False, confirm=Asked(False))


@pytest.mark.parametrize(
    "expression,words",
    [("nothing", "topic 'nothing' does not exist"), ("__consumer_offsets", "internal"), ("x.*", "does not exist")],
)
async def test_one_that_cannot_be_deleted_keeps_the_others_too(
    cluster: FakeSession, expression: str, words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        await selected(cluster, ["orders", expression], if_exists=False, confirm=None)
    assert (await topic_znodes.list_topics(cluster)).marked == ()


async def test_a_typo_is_told_what_may_have_been_meant(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="topic 'ordes' does not exist; did you mean orders"):
        await selected(cluster, ["ordes"], if_exists=False, confirm=None)


async def test_if_exists(cluster: FakeSession) -> None:
    assert await selected(cluster, ["nothing", "bills"], if_exists=True, confirm=None) == ("bills",)


async def test_a_mark_without_a_topic_can_be_waited_for(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.delete_topic("ghost"), None))
    assert await selected(cluster, ["ghost"], if_exists=False, confirm=None) == ("ghost",)


async def test_a_mark_without_a_topic_is_said(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.delete_topic("ghost"), None))
    words = "at most its marker is left, which a controller drops. `lethe explain` says what brokers may still have."
    answer = await deletion(cluster, ["ghost", "orders"])
    assert answer.lines == (
        "Topic orders is marked for deletion.",
        f"Topic ghost has no znode: {words}",
    )
    assert answer.data == [
        {"topic": "orders", "marked": True, "was_marked": False, "problem": None, "znode": True},
        {"topic": "ghost", "marked": None, "was_marked": None, "problem": None, "znode": False},
    ]
    assert (await deletion(cluster, ["ghost"], detail=Detail.QUIET)).lines == ()


async def test_a_mark_without_a_topic_is_not_deleted_while_a_broker_is_away(cluster: FakeSession) -> None:
    """It may have the topic's replicas: nothing in ZooKeeper says where they were."""
    await apply(cluster, Create(paths.delete_topic("ghost"), None), Delete(paths.broker_id(2)))
    stage = Stage(cluster, topic="ghost", completes={1: "ghost"})
    answer = await deletion(cluster, ["ghost"], ask=stage, timeout_ms=600)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].startswith("0 of 1 topic deleted")
    assert "a look at the log directories of broker 2 (it is not registered)" in str(answer.tables[1].rows)


async def test_marking(cluster: FakeSession) -> None:
    first = await deletion(cluster, ["orders"])
    assert first.lines == ("Topic orders is marked for deletion.",)
    assert first.exit is Exit.OK
    again = await deletion(cluster, ["orders", "bills"])
    assert again.lines == ("Topic orders is already marked for deletion.", "Topic bills is marked for deletion.")
    assert (await topic_znodes.list_topics(cluster)).marked == ("bills", "orders")


async def test_a_topic_that_may_not_be_read_is_marked(cluster: FakeSession) -> None:
    answer = await deletion(forbidding(cluster, paths.topic("orders")), ["orders"])
    assert (answer.exit, answer.lines) == (Exit.OK, ("Topic orders is marked for deletion.",))
    assert (await topic_znodes.list_topics(cluster)).marked == ("orders",)


async def test_a_topic_of_which_nothing_may_be_read_is_not_passed_over(cluster: FakeSession) -> None:
    blind = forbidding(cluster, paths.topic("orders"), tells_existence=False)
    with pytest.raises(ZnodeUnreadable, match="/brokers/topics/orders: NO_AUTH"):
        await deletion(blind, ["orders", "bills"])
    assert (await topic_znodes.list_topics(cluster)).marked == ()


async def test_an_unknown_outcome_is_no_success(cluster: FakeSession) -> None:
    await deletion(cluster, ["bills"])
    cluster.lose_next_reply(applied=True)
    assert (await deletion(cluster, ["orders"])).exit is Exit.UNREACHABLE


async def test_without_a_controller_it_is_said(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    await deletion(session, ["orders"])
    assert "note: every marked topic waits for a controller: none is active: start one" in capsys.readouterr().err


@dataclass
class Stage:
    """Brokers whose answers, and a ZooKeeper whose contents, change from one look to the next."""

    session: FakeSession
    topic: str = "orders"
    looks: int = 0
    cached: tuple[frozenset[int], ...] = ()
    stored: tuple[frozenset[int], ...] = ()
    completes: dict[int, str] = field(default_factory=dict)
    """Number of a look → the topic whose deletion is completed during it."""
    failed_log_dirs: dict[int, tuple[str, ...]] = field(default_factory=dict)
    refuses: dict[int, str] = field(default_factory=dict)
    """Brokers that do not tell their log directories, and what they answer."""
    log: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, scope: QueryScope) -> AskBroker:
        return lambda broker: self._answer(broker, len(scope.topics or ()))

    async def _answer(self, broker: Broker, topics: int) -> BrokerAnswers:
        if broker.id == 1:
            self.looks += 1
            if self.looks in self.completes:
                await complete_deletion(self.session, self.completes[self.looks])
        self.log.append((self.looks, topics))
        cache = {self.topic: CachedTopic(None, (0,))} if self._has(self.cached, broker) else {}
        replica = Directory(f"{self.topic}-0", DirectoryKind.REPLICA, TopicPartition(self.topic, 0))
        replicas = (replica,) if self._has(self.stored, broker) else ()
        failed = [
            LogDirView(broker.id, path, LogDirSource.BROKER, (), "it has failed", has_failed=True)
            for path in self.failed_log_dirs.get(broker.id, ())
        ]
        log_dirs = (LogDirView(broker.id, "/data/a", LogDirSource.BROKER, replicas), *failed)
        refusal = self.refuses.get(broker.id)
        if refusal is not None:
            return BrokerAnswers(
                broker.id, cache, unseen=(UnansweredQuestion(BrokerFailure.REFUSED, refusal, BrokerPlace.LOGS),)
            )
        return BrokerAnswers(broker.id, cache, BrokerId(1), log_dirs)

    def _has(self, places: tuple[frozenset[int], ...], broker: Broker) -> bool:
        return self.looks <= len(places) and broker.id in places[self.looks - 1]


async def test_waiting_ends_when_all_three_places_are_clean(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    both = frozenset({1, 2})
    stage = Stage(
        cluster, cached=(both, frozenset({2})), stored=(both, both, both, frozenset({2})), completes={4: "orders"}
    )
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=60_000)
    assert answer.exit is Exit.OK
    assert stage.looks == 5
    (row,) = answer.tables[0].rows
    assert row[:2] == ("orders", "deleted")
    assert all(row[2:])
    assert len(answer.tables) == 1
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert body["deleted"] is True
    caches, logs = body["caches_clean_after_ms"], body["logs_clean_after_ms"]
    assert isinstance(caches, int)
    assert isinstance(logs, int)
    assert caches <= logs
    shown = capsys.readouterr().err
    assert "clean: ZooKeeper 0/1, broker 1 cache 0/1, broker 1 logs 0/1" in shown
    assert "broker 1 cache 1/1, broker 1 logs 0/1, broker 2 cache 0/1" in shown


async def test_waiting_gives_up_and_says_what_for(cluster: FakeSession) -> None:
    await apply(cluster, Delete(paths.broker_id(2)))
    answer = await deletion(cluster, ["orders"], ask=Stage(cluster), timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert answer.tables[0].rows[0][1] == "waiting"
    assert ("1", AWAY, "orders") in answer.tables[1].rows
    assert answer.lines[0].startswith("0 of 1 topic deleted after ")


async def test_waiting_names_a_log_directory_that_has_failed(cluster: FakeSession) -> None:
    stage = Stage(cluster, failed_log_dirs={2: ("/data/b",), 3: ("/data/c",)})
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    shown = answer.tables[1].rows[0][1]
    assert shown.startswith("waits for broker 2, whose log directory /data/b has failed")
    assert "restart the broker" in shown
    assert "/data/c" not in shown  # broker 3 has no replica
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert body["failed_log_dirs"] == [{"broker": 2, "path": "/data/b"}]
    assert body["waits_for"] == shown


async def test_a_controller_that_drops_marks_is_noticed(cluster: FakeSession, zookeeper: FakeZooKeeper) -> None:
    async def drop_mark() -> None:
        while not (await topic_znodes.list_topics(cluster)).marked:
            await asyncio.sleep(0)
        await apply(cluster, Delete(paths.delete_topic("orders")))

    async def delete() -> Answer:
        return await deletion(cluster, ["orders"], ask=Stage(cluster), timeout_ms=60_000)

    answer, _ = await asyncio.gather(delete(), drop_mark())
    assert answer.exit is Exit.NO
    assert answer.tables[0].rows[0][1] == "refused"
    assert "delete.topic.enable" in answer.tables[1].rows[0][1]


async def test_topics_that_are_done_are_not_asked_about_again(cluster: FakeSession) -> None:
    stage = Stage(cluster, completes={2: "orders", 4: "bills"})
    await deletion(cluster, ["bills", "orders"])
    wanted = await targets(cluster, ["bills", "orders"])
    waited = await wait_until_gone(
        partial(look, cluster, stage), wanted, timeout_ms=60_000, display=lambda _: None, poll_ms=1
    )
    assert all(progress.is_done for progress in waited.progress)
    assert dict(stage.log) == {1: 2, 2: 2, 3: 2, 4: 1, 5: 1}, "topics asked about in each look"


async def test_a_look_that_is_under_way_when_the_time_is_over_is_given_up(cluster: FakeSession) -> None:
    stage = Stage(cluster)
    await deletion(cluster, ["orders"])

    def falls_silent(scope: QueryScope) -> AskBroker:
        async def ask(broker: Broker) -> BrokerAnswers:
            if stage.looks and broker.id == 1:
                await asyncio.Event().wait()
            return await stage(scope)(broker)

        return ask

    wanted = await targets(cluster, ["orders"])
    waiting = wait_until_gone(
        partial(look, cluster, falls_silent), wanted, timeout_ms=50, display=lambda _: None, poll_ms=1
    )
    waited = await asyncio.wait_for(waiting, 60)
    assert waited.progress[0].is_marked, "what the first look saw"


async def test_log_directories_that_a_broker_does_not_tell_are_not_clean(cluster: FakeSession) -> None:
    stage = Stage(cluster, completes={2: "orders"}, refuses={2: "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED"})
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=60_000)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines == (
        answer.lines[0],
        "1 topic is gone from ZooKeeper, but not every cache and log directory could be seen",
    )
    states, causes = answer.tables
    assert states.rows[0][:2] == ("orders", "gone, as far as could be seen")
    assert (states.rows[0][3] != "", states.rows[0][4]) == (True, "")
    cause = "a look at the log directories of broker 2 (DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED)"
    assert causes.rows == (("1", cause, "orders"),)


async def test_a_topic_whose_znode_is_refused_meanwhile_is_not_deleted(cluster: FakeSession) -> None:
    wanted = await targets(cluster, ["orders"])
    await deletion(cluster, ["orders"])
    await complete_deletion(cluster, "orders")
    blind = forbidding(cluster, paths.topic("orders"), tells_existence=False)
    waited = await wait_until_gone(
        partial(look, blind, Stage(cluster)), wanted, timeout_ms=60_000, display=lambda _: None
    )
    assert (waited.zookeeper_ms, waited.places) == ({}, {"ZooKeeper /brokers/topics/orders, unseen": None})
    answer = waiting_answer(waited, Detail.CAUSES)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[1] == (
        "1 topic is gone as far as could be seen, but not every znode, cache and log directory could be seen"
    )
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert body["unseen_znodes"] == [{"path": "/brokers/topics/orders", "why": NO_AUTH}]


async def many(session: FakeSession, number: int) -> list[str]:
    names = [f"topic-{index:03}" for index in range(number)]
    for name in names:
        await creation(session, TopicCreationRequest(name, assignment=((1, 2),)))
    return names


@pytest.mark.parametrize("detail, lines", [(Detail.CAUSES, 1), (Detail.TOPICS, 200), (Detail.QUIET, 0)])
async def test_many_topics_have_a_line_for_each_cause(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str], detail: Detail, lines: int
) -> None:
    names = await many(cluster, 200)
    capsys.readouterr()
    await apply(cluster, Delete(paths.broker_id(2)))
    answer = await deletion(cluster, names, ask=Stage(cluster), timeout_ms=1, detail=detail)
    assert answer.exit is Exit.TIMED_OUT
    assert capsys.readouterr().err.count("marked for deletion") == lines
    if detail is Detail.TOPICS:
        assert len(answer.tables[0].rows) == 200
    else:
        states, causes = answer.tables
        assert states.rows[0][:2] == ("200 topics", "waiting")
        assert causes.rows == (("200", AWAY, "topic-000, topic-001, topic-002 and 197 more"),)


async def test_quiet_says_nothing_where_everything_was_done(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    stage = Stage(cluster, completes={2: "orders"})
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=60_000, detail=Detail.QUIET)
    assert (answer.lines, answer.tables, answer.exit) == ((), (), Exit.OK)
    assert capsys.readouterr().err == ""


async def test_marking_many_topics_is_one_line(cluster: FakeSession) -> None:
    await deletion(cluster, ["orders"])
    answer = await deletion(cluster, ["bills", "orders", "orders.eu", "__consumer_offsets"])
    assert answer.lines == (
        "Topic orders is already marked for deletion.",
        "2 topics are marked for deletion: bills, orders.eu.",
        answer.lines[-1],
    )
    assert "internal" in answer.lines[-1]
    assert answer.exit is Exit.NO


def test_quiet_and_verbose_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="--quiet says less"):
        Detail.of(quiet=True, verbose=True)
