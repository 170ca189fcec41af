"""A survey as rows: every file's rows have its form, and say what was seen."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.survey_records import (
    DIRECTORIES,
    KINDS,
    LEFTOVERS,
    MANIFEST,
    METADATA,
    ROW_FILES,
    ZNODES,
    SurveyFile,
    row_problems,
)
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
    topic_id_to_text,
)
from lethe.protocol.zookeeper.znodes import ControllerZnode, Debt
from lethe.survey.records import Row, manifest, rows_of
from lethe.survey.views import (
    NOT_SEEN,
    BrokerAnswers,
    BrokerFailure,
    Directory,
    LogDirSource,
    LogDirView,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

ID = TopicId(uuid.UUID(int=7))
TAKEN_AT_MS = 1_767_323_045_678
ONE = BrokerId(1)

TREE = ZooKeeperTree(
    topics={
        "orders": TopicTree(
            "orders",
            ID,
            {0: ReplicaAssignment((1, 2, 3), adding=(3,), removing=(1,)), 2: ReplicaAssignment((2,))},
            (0, 1),
            {0: LeaderAndIsr(2, 5, (2, 1), 9), 1: None},
            created_at_ms=TAKEN_AT_MS - 1,
        ),
        "new": TopicTree("new", None, {0: ReplicaAssignment((1,))}),
        "broken": TopicTree("broken"),
    },
    marked=("ghost", "orders"),
    marked_at_ms={"orders": TAKEN_AT_MS},
    configured=("orders",),
    reassigning={TopicPartition("orders", 0): (2, 3)},
    brokers=(Broker(ONE, BrokerEpoch(77), ()),),
    controller=ControllerZnode(BrokerId(1001), 0),
    controller_epoch=4,
    cluster_id="cluster-1",
)
SEEN = Survey(
    TAKEN_AT_MS,
    12,
    TREE,
    (
        BrokerAnswers(ONE, {"orders": CachedTopic(ID, (0, 1)), "ghost": CachedTopic(None, ())}, BrokerId(-1), ()),
        BrokerAnswers(BrokerId(2), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent"),)),
    ),
    (
        LogDirView(
            ONE,
            "/data/\udcff",
            LogDirSource.LOCAL,
            (
                Directory(
                    "orders-0",
                    DirectoryKind.REPLICA,
                    TopicPartition("orders", 0),
                    2048,
                    ID,
                    4,
                    TAKEN_AT_MS,
                    None,
                    1024,
                    TAKEN_AT_MS - 5,
                ),
                Directory("h\udce9", DirectoryKind.UNKNOWN, newest_mtime_ms=10**18, problem="Permission denied"),
            ),
            "h: Permission denied",
        ),
        LogDirView(
            BrokerId(2), "/data", LogDirSource.BROKER, (), "the broker says KAFKA_STORAGE_ERROR", has_failed=True
        ),
    ),
    ("late",),
)


def rows(file: SurveyFile, survey: Survey = SEEN) -> list[Row]:
    return list(rows_of(file, survey))


def told(file: SurveyFile, **wanted: str | int) -> list[Row]:
    """The rows with these values, without what is null and what all rows have."""
    found = [row for row in rows(file) if all(row[name] == value for name, value in wanted.items())]
    common = {"survey_id", "taken_at", *wanted}
    return [{name: value for name, value in row.items() if value is not None and name not in common} for row in found]


@pytest.mark.parametrize("file", ROW_FILES, ids=lambda file: file.name)
def test_every_row_has_every_column_in_order_and_stands_alone(file: SurveyFile) -> None:
    for row in rows(file):
        assert tuple(row) == file.column_names
        assert row_problems(file, row) == []
        assert file is LEFTOVERS or row["kind"] in KINDS[file.name]
        assert (row["survey_id"], row["taken_at"]) == ("20260102T030405.678Z", "2026-01-02T03:04:05.678Z")
    assert rows(file, Survey(0, 0, ZooKeeperTree())) == []


def test_the_manifest_says_what_could_not_be_seen() -> None:
    found = manifest(SEEN, {"znodes.jsonl": 1}, {"znodes.jsonl": 2**40})
    assert row_problems(MANIFEST, found) == []
    assert (found["version"], found["complete"], found["cluster_id"], found["in_motion"]) == (
        1,
        False,
        "cluster-1",
        ["late"],
    )
    assert found["problems"] == [
        {"where": "broker 2", "what": "silent"},
        {"where": "broker 3", "what": NOT_SEEN},
        {"where": r"broker 1, /data/\xff", "what": "h: Permission denied"},
        {"where": "broker 2, /data", "what": "the broker says KAFKA_STORAGE_ERROR"},
    ]


def test_topics_say_what_of_them_is_there() -> None:
    orders, new, broken = told(ZNODES, kind="topic")
    assert orders == {
        "path": "/brokers/topics/orders",
        "topic": "orders",
        "topic_id": topic_id_to_text(ID),
        "has_znode": True,
        "is_readable": True,
        "created_at": "2026-01-02T03:04:05.677Z",
    }
    assert (new["has_znode"], new["is_readable"]) == (False, True)
    assert (broken["has_znode"], broken["is_readable"]) == (False, False)


def test_partitions_are_those_of_the_assignment_and_those_that_have_znodes() -> None:
    zero, one, two = told(ZNODES, kind="partition", topic="orders")
    assert zero == {
        "path": "/brokers/topics/orders/partitions/0",
        "topic_id": topic_id_to_text(ID),
        "partition": 0,
        "replicas": [1, 2, 3],
        "adding": [3],
        "removing": [1],
        "leader": 2,
        "leader_epoch": 5,
        "isr": [2, 1],
        "has_znode": True,
        "has_state_znode": True,
    }
    assert (one["has_znode"], one["has_state_znode"], "replicas" in one, "leader" in one) == (True, True, False, False)
    assert (two["has_znode"], two["has_state_znode"], two["replicas"]) == (False, False, [2])
    (new,) = told(ZNODES, kind="partition", topic="new")
    assert "has_znode" not in new


def test_the_rest_of_the_tree() -> None:
    ghost, orders = told(ZNODES, kind="marker")
    assert ghost == {"path": "/admin/delete_topics/ghost", "topic": "ghost"}
    assert orders["created_at"] == "2026-01-02T03:04:05.678Z"
    assert told(ZNODES, kind="config") == [{"path": "/config/topics/orders", "topic": "orders"}]
    assert told(ZNODES, kind="reassignment") == [
        {"path": "/admin/reassign_partitions", "topic": "orders", "partition": 0, "replicas": [2, 3]}
    ]
    assert told(ZNODES, kind="broker") == [{"path": "/brokers/ids/1", "broker": 1, "broker_epoch": 77}]
    assert told(ZNODES, kind="controller") == [{"path": "/controller", "broker": 1001, "controller_epoch": 4}]


def test_an_epoch_without_a_controller_is_told() -> None:
    (row,) = rows(ZNODES, Survey(0, 0, ZooKeeperTree(controller_epoch=4)))
    assert (row["kind"], row["broker"], row["controller_epoch"]) == ("controller", None, 4)


def test_brokers_tell_their_caches_or_why_not() -> None:
    assert told(METADATA, broker=1) == [
        {"kind": "broker", "answered": True, "told_log_dirs": True, "controller": -1},
        {"kind": "topic", "topic": "orders", "topic_id": topic_id_to_text(ID), "partitions": [0, 1]},
        {"kind": "topic", "topic": "ghost", "partitions": []},
    ]
    assert told(METADATA, broker=2) == [
        {"kind": "broker", "answered": False, "told_log_dirs": False, "failure": "silent"}
    ]


def test_directories_and_the_log_directories_they_lie_in() -> None:
    log_dir, orders, strange = told(DIRECTORIES, broker=1)
    where = {"log_dir": r"/data/\xff", "source": "local"}
    assert log_dir == {**where, "kind": "log-dir", "has_failed": False, "problem": "h: Permission denied"}
    assert orders == {
        **where,
        "kind": "replica",
        "directory": "orders-0",
        "topic": "orders",
        "partition": 0,
        "topic_id": topic_id_to_text(ID),
        "size_bytes": 2048,
        "segment_bytes": 1024,
        "files": 4,
        "is_owed": False,
        "is_kept": False,
        "newest_write": "2026-01-02T03:04:05.678Z",
        "newest_segment_write": "2026-01-02T03:04:05.673Z",
    }
    assert strange == {
        **where,
        "kind": "unknown",
        "directory": r"h\xe9",
        "is_owed": False,
        "is_kept": False,
        "size_bytes": 0,
        "problem": "Permission denied",
    }
    (failed,) = told(DIRECTORIES, broker=2)
    assert (failed["source"], failed["has_failed"]) == ("broker", True)


def test_findings_are_told_with_valid_text() -> None:
    ghost, *others = told(LEFTOVERS, place="zookeeper", topic="ghost")
    assert ghost == {
        "standing": "left_over",
        "reason": "marker_without_topic",
        "what": "/admin/delete_topics/ghost",
        "size_bytes": 0,
    }
    assert others == []
    found = replace(
        SEEN.log_dirs[0], directories=(Directory("gone-0", DirectoryKind.REPLICA, TopicPartition("gone", 0), 1),)
    )
    (gone,) = (row for row in rows(LEFTOVERS, replace(SEEN, log_dirs=(found,))) if row["topic"] == "gone")
    assert (gone["what"], gone["broker"], gone["partition"], gone["size_bytes"]) == (r"/data/\xff/gone-0", 1, 0, 1)


def test_what_is_in_the_trash_is_kept_and_not_owed() -> None:
    """Another topic has the name, and the broker owes the directories of a third one."""
    trashed = TopicId(uuid.UUID(int=8))
    debt = OpenDebt(ONE, "gone", 17, Debt(None, (0,), 0, 1_000), 0)
    tree = replace(TREE, trashed={"orders": trashed, "gone": trashed}, configured=("gone", "orders"), debts=(debt,))
    found = tuple(
        Directory(f"{name}-{number}", DirectoryKind.REPLICA, TopicPartition(name, number), 1, topic_id)
        for name, number, topic_id in (("orders", 0, ID), ("orders", 1, trashed), ("gone", 0, None))
    )
    survey = replace(SEEN, zookeeper=tree, log_dirs=(LogDirView(ONE, "/data", LogDirSource.LOCAL, found),))
    told = [(row["directory"], row["is_kept"], row["is_owed"]) for row in rows(DIRECTORIES, survey)[1:]]
    assert told == [("orders-0", False, False), ("orders-1", True, False), ("gone-0", True, False)]
    assert [row["topic"] for row in rows(ZNODES, survey) if row["kind"] == "config"] == ["orders"]
