"""Debts added up by broker, and their words."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import ControllerZnode, Debt
from lethe.survey.debts import OwedDirectories, by_broker, debt_json, debts_lines
from lethe.survey.views import Directory, Problem, TopicTree, ZooKeeperTree

OLD, NEW = TopicId(UUID(int=7)), TopicId(UUID(int=8))


def owed(
    broker: int, topic: str, czxid: int, *, since_ms: int = 2_000, size: int | None = None, partitions: int = 2
) -> OpenDebt:
    debt = Debt(TopicId(UUID(int=7)), tuple(range(partitions)), 0, since_ms, size)
    return OpenDebt(BrokerId(broker), topic, czxid, debt, 0)


def test_by_broker_and_by_name() -> None:
    first, second, third = owed(3, "b", 2), owed(3, "a", 1), owed(12, "a", 1)
    assert [(each.broker, each.debts) for each in by_broker([third, first, second])] == [
        (3, (second, first)),
        (12, (third,)),
    ]
    assert by_broker([]) == ()


def test_a_size_that_is_not_known_is_said() -> None:
    (known,) = by_broker([owed(3, "a", 1, size=1_000), owed(3, "b", 2, size=500, since_ms=1_000)])
    assert known.text == "4 partitions of 2 deleted topics, 1,500 bytes, since 1970-01-01T00:00:01.000Z"
    (partly,) = by_broker([owed(3, "a", 1, size=1_000), owed(3, "b", 2)])
    assert partly.size_text == "at least 1,000 bytes"
    (unknown,) = by_broker([owed(3, "a", 1, partitions=1)])
    assert unknown.text == "1 partition of 1 deleted topic, of unknown size, since 1970-01-01T00:00:02.000Z"


def test_as_data() -> None:
    assert debt_json(owed(3, "a", 17, size=5)) == {
        "broker": 3,
        "topic": "a",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABw",
        "partitions": "0-1",
        "since_ms": 2_000,
        "size_bytes": 5,
        "path": "/lethe/debts/3/a@17",
    }


def survey_tree(*debts: OpenDebt, registered: tuple[int, ...] = (), topic: str | None = None) -> ZooKeeperTree:
    brokers = tuple(Broker(BrokerId(n), BrokerEpoch(n), ()) for n in registered)
    topics = {} if topic is None else {topic: TopicTree(topic, NEW)}
    return ZooKeeperTree(topics, brokers=brokers, debts=debts)


def replica(name: str, topic_id: TopicId | None, kind: DirectoryKind = DirectoryKind.REPLICA) -> Directory:
    topic, _, partition = name.rpartition("-")
    return Directory(name, kind, TopicPartition(topic, int(partition)), 100, topic_id)


@pytest.mark.parametrize(
    "found, debt_id, exists, is_owed",
    [
        (OLD, OLD, False, True),
        (OLD, OLD, True, True),
        (NEW, OLD, True, False),
        (OLD, None, False, False),
        (None, OLD, False, True),
        (None, OLD, True, False),
        (None, None, False, True),
        (None, None, True, False),
    ],
)
def test_which_directories_are_owed(
    found: TopicId | None, debt_id: TopicId | None, exists: bool, is_owed: bool
) -> None:
    debt = OpenDebt(BrokerId(3), "a", 17, Debt(debt_id, (0, 1), 0, 1), 0)
    owed = OwedDirectories(survey_tree(debt, topic="a" if exists else None))
    assert (owed.debt_of(BrokerId(3), replica("a-1", found)) == debt) is is_owed


def test_a_topic_that_exists_is_not_owed() -> None:
    """Its deletion was called off: no controller has its replicas deleted, although the debt is open still."""
    debt = OpenDebt(BrokerId(3), "a", 17, Debt(NEW, (0, 1), 0, 1), 0)
    owed = OwedDirectories(survey_tree(debt, topic="a"))
    assert owed.debt_of(BrokerId(3), replica("a-1", NEW)) is None


def test_another_broker_partition_or_kind_is_not_owed() -> None:
    debt = OpenDebt(BrokerId(3), "a", 17, Debt(OLD, (0, 1), 0, 1), 0)
    owed = OwedDirectories(survey_tree(debt))
    assert owed.debt_of(BrokerId(2), replica("a-1", OLD)) is None
    assert owed.debt_of(BrokerId(3), replica("a-2", OLD)) is None
    assert owed.debt_of(BrokerId(3), replica("a-1", OLD, DirectoryKind.STRAY)) is None


def test_where_topics_could_not_be_read_only_the_id_counts() -> None:
    debt = OpenDebt(BrokerId(3), "a", 17, Debt(OLD, (0,), 0, 1), 0)
    tree = replace(survey_tree(debt), problems=(Problem(paths.BROKER_TOPICS, "NO_AUTH"),))
    owed = OwedDirectories(tree)
    assert owed.debt_of(BrokerId(3), replica("a-0", OLD)) == debt
    assert owed.debt_of(BrokerId(3), replica("a-0", None)) is None


UNSETTLED = (
    "it is registered, and no controller of Lethe's is seen that settles them: lethe brokers settle 3 has them deleted"
)
LETHE, KAFKA = ControllerZnode(BrokerId(1), admin="http://localhost:1"), ControllerZnode(BrokerId(1))


@pytest.mark.parametrize(
    "registered, controller, unread, words",
    [
        ((), LETHE, None, "they are deleted when it is back"),
        (
            (),
            KAFKA,
            None,
            "Kafka's controllers leave them when it is back: then lethe brokers settle 3 has them deleted",
        ),
        ((3,), LETHE, None, "it is registered, and Lethe's controller settles them unless deletions are paused"),
        (
            (3,),
            KAFKA,
            None,
            UNSETTLED,
        ),
        (
            (3,),
            None,
            None,
            UNSETTLED,
        ),
        (
            (3,),
            None,
            paths.CONTROLLER,
            "it is registered, and whether a controller of Lethe's is active is not known",
        ),
        ((), LETHE, paths.BROKER_IDS, "whether it is registered is not known"),
    ],
)
def test_what_becomes_of_them(
    registered: tuple[int, ...], controller: ControllerZnode | None, unread: str | None, words: str
) -> None:
    problems = () if unread is None else (Problem(unread, "NO_AUTH"),)
    tree = survey_tree(owed(3, "a", 1, size=7), registered=registered)
    (line,) = debts_lines(replace(tree, controller=controller, problems=problems))
    assert line == f"broker 3 owes 2 partitions of 1 deleted topic, 7 bytes, since 1970-01-01T00:00:02.000Z; {words}"
