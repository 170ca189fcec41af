"""Nothing of a living topic is ever called left over or missing, whatever could not be seen.

A healthy cluster is drawn first: topics in every state that a healthy one may be in, replicas where they belong, caches
as brokers have them. Then what a survey sees of it gets holes. What is true is known without asking the survey, so that
this judges by other means than the rules that it judges.
"""

from __future__ import annotations

import os
import random
import uuid
from dataclasses import replace
from typing import Final

import pytest

from lethe.protocol.findings import Standing
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper import paths
from lethe.survey.leftovers import leftovers
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Directory,
    LogDirSource,
    LogDirView,
    Problem,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

CLUSTERS: Final = int(os.environ.get("LETHE_CLUSTERS", "1500"))
BROKERS: Final = (1, 2, 3)
NAMES: Final = ("a", "orders", "orders-eu", "b-1", "doomed", "young")
WRONG: Final = (Standing.LEFT_OVER, Standing.MISSING)


def healthy(source: random.Random) -> Survey:
    """All that a survey could see. Of `doomed` a deletion is under way, `young` is being made, where they are there."""
    names = sorted(name for name in NAMES if source.random() < 0.7)
    topics = {name: _topic(source, name) for name in names}
    marked = tuple(name for name in names if name == "doomed")
    moving: dict[TopicPartition, tuple[int, ...]] = {}
    if "orders" in topics and source.random() < 0.4:
        topics["orders"], moving = _being_moved(source, topics["orders"])
    fresh = source.choice((None, None, *BROKERS))
    caches = {
        broker: {name: CachedTopic(topics[name].topic_id, (0,)) for name in names if name != "young"}
        for broker in BROKERS
    }
    if fresh is not None:
        caches[fresh] = {}
    views = [view for broker in BROKERS for view in _log_dirs(source, broker, topics)]
    brokers = tuple(Broker(BrokerId(n), BrokerEpoch(n), (Endpoint("PLAINTEXT", "h", 1),)) for n in BROKERS)
    answers = tuple(
        BrokerAnswers(BrokerId(n), caches[n], BrokerId(1), tuple(view for view in views if view.broker == n))
        for n in BROKERS
    )
    tree = ZooKeeperTree(topics, marked, {}, tuple(names), moving, brokers, cluster_id="c")
    return Survey(0, 1, tree, answers, tuple(views))


def _topic(source: random.Random, name: str) -> TopicTree:
    numbers = range(source.choice((1, 2, 3)))
    assignments = {n: ReplicaAssignment(tuple(source.sample(BROKERS, 2))) for n in numbers}
    states: dict[int, LeaderAndIsr | None] = {
        n: LeaderAndIsr(a.replicas[0], 1, a.replicas, 2) for n, a in assignments.items()
    }
    znodes: tuple[int, ...] | None = tuple(numbers)
    if name == "young":
        # Brokers are told when every partition has a state: until then some of them may be there.
        made = source.choice((None, *numbers))
        znodes = None if made is None else tuple(numbers)[: made + 1]
        states = {n: state for n, state in states.items() if made is not None and n < made}
    return TopicTree(name, TopicId(uuid.UUID(int=source.randrange(1, 2**100))), assignments, znodes, states)


def _being_moved(source: random.Random, topic: TopicTree) -> tuple[TopicTree, dict[TopicPartition, tuple[int, ...]]]:
    """Replicas that come have a directory or none yet, as have those that go. Before Kafka 2.4 only
    /admin/reassign_partitions says that they move."""
    assert topic.assignments is not None
    old = topic.assignments[0]
    new = next(broker for broker in BROKERS if broker not in old.replicas)
    both = (*old.replicas, new)
    if source.random() < 0.5:
        assignment = ReplicaAssignment(both, adding=(new,), removing=old.replicas[:1])
    else:
        assignment = ReplicaAssignment(both)
    moving = {TopicPartition(topic.name, 0): (*old.replicas[1:], new)}
    return replace(topic, assignments={**topic.assignments, 0: assignment}), moving


def _log_dirs(source: random.Random, broker: int, topics: dict[str, TopicTree]) -> list[LogDirView]:
    found: dict[str, list[Directory]] = {"/d1": [], "/d2": []}
    for topic in topics.values():
        for number, assignment in (topic.assignments or {}).items():
            is_there = topic.name not in ("young", "doomed") or source.random() < 0.5
            if len(assignment.replicas) > 2:
                is_there = source.random() < 0.5
            if broker in assignment.replicas and is_there:
                name = f"{topic.name}-{number}"
                where = found[source.choice(("/d1", "/d2"))]
                replica = TopicPartition(topic.name, number)
                where.append(Directory(name, DirectoryKind.REPLICA, replica, 9, topic.topic_id))
                if source.random() < 0.1:
                    where.append(Directory(f"{name}.{'0' * 32}-future", DirectoryKind.FUTURE, replica, 9))
    return [LogDirView(BrokerId(broker), path, LogDirSource.BROKER, tuple(each)) for path, each in found.items()]


def with_holes(source: random.Random, seen: Survey) -> Survey:
    """The same, less what could not be seen."""
    many = source.choice((0.05, 0.3, 0.7))
    tree = _tree_with_holes(source, seen.zookeeper, many)
    answers: list[BrokerAnswers] = []
    views: list[LogDirView] = []
    for broker in tree.brokers:
        answer = next(each for each in seen.answers if each.broker == broker.id)
        if source.random() < many / 2:
            answer = BrokerAnswers(broker.id, unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent"),))
        elif source.random() < many / 2:
            answer = replace(
                answer, log_dirs=None, unseen=(UnansweredQuestion(BrokerFailure.ERROR, "silent", BrokerPlace.LOGS),)
            )
        answers.append(answer)
        views += answer.log_dirs or ()
    # Some directories were named, of brokers that told of them and of others; one is shown in part.
    for view in seen.log_dirs:
        if source.random() < 0.3:
            views = [each for each in views if (each.broker, each.path) != (view.broker, view.path)]
            views.append(replace(view, source=LogDirSource.LOCAL))
    views = [
        replace(view, directories=view.directories[:1], problem="some of it cannot be read")
        if source.random() < many / 4
        else view
        for view in views
    ]
    return replace(seen, zookeeper=tree, answers=tuple(answers), log_dirs=tuple(views))


def _tree_with_holes(source: random.Random, tree: ZooKeeperTree, many: float) -> ZooKeeperTree:
    problems: list[Problem] = []

    def is_unread(path: str, chance: float = many) -> bool:
        unread = source.random() < chance
        if unread:
            problems.append(Problem(path, source.choice(("NO_AUTH", "it is no JSON"))))
        return unread

    topics = {}
    for name, topic in tree.topics.items():
        if is_unread(paths.topic(name), many / 2):
            topic = replace(topic, topic_id=None, assignments=None)
        if is_unread(paths.topic_partitions(name), many / 2):
            topic = replace(topic, partition_znodes=None, states={})
        states = {
            number: None if is_unread(paths.partition_state(name, number), many / 2) else state
            for number, state in topic.states.items()
        }
        topics[name] = replace(topic, states=states)
    brokers = tuple(broker for broker in tree.brokers if not is_unread(paths.broker_id(broker.id), many / 4))
    return replace(
        tree,
        topics={} if is_unread(paths.BROKER_TOPICS, many / 4) else topics,
        marked=() if is_unread(paths.DELETE_TOPICS, many / 4) else tree.marked,
        configured=() if is_unread(paths.config_topics(), many / 4) else tree.configured,
        reassigning={} if is_unread(paths.REASSIGN_PARTITIONS, many / 4) else tree.reassigning,
        brokers=() if is_unread(paths.BROKER_IDS, many / 4) else brokers,
        problems=tuple(problems),
    )


def test_nothing_of_a_living_topic_is_called_left_over_or_missing() -> None:
    whole = blind = 0
    for seed in range(CLUSTERS):
        source = random.Random(seed)
        truth = healthy(source)
        seen = truth if seed % 5 == 0 else with_holes(source, truth)
        living = truth.zookeeper.topics.keys() - {"doomed"}
        wrong = [found for found in leftovers(seen) if found.standing in WRONG and found.topic in living]
        assert wrong == [], f"seed {seed}"
        whole += seen.is_complete and not leftovers(seen)
        blind += not seen.is_complete
    assert whole > CLUSTERS // 50, "some are seen whole and are clean"
    assert blind > CLUSTERS // 2


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_over_is_found_in_the_same_clusters(seed: int) -> None:
    """So that saying nothing at all does not pass."""
    source = random.Random(seed)
    truth = healthy(source)
    ghost = Directory("ghost-0", DirectoryKind.REPLICA, TopicPartition("ghost", 0), 9)
    first, *rest = truth.log_dirs
    planted = replace(truth, log_dirs=(replace(first, directories=(*first.directories, ghost)), *rest))
    assert [found.what for found in leftovers(planted) if found.standing in WRONG and found.topic == "ghost"] == [
        "/d1/ghost-0"
    ]
