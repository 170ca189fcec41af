"""The document that says why topics are not gone yet: what it holds for each cause, and how large it may become."""

from __future__ import annotations

import json
from collections.abc import ItemsView, ValuesView
from typing import Any

import orjson
import pytest

from lethe.controller.core import mutation
from lethe.controller.core.deletion_memory import HeldTopic, RefusedMark
from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, UpdateMetadataResponseReceived
from lethe.controller.core.topic import Partition
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.controller.runtime.explanation import MAX_ROWS, explain_all, explain_topic, not_marked
from lethe.protocol.causes import CauseKind, remedy
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.remedies import BRING_BACK
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, ZkError, error_words
from tests.fakes.one_controller import OneController, Refusing, consent
from tests.scenarios.plot import cluster, with_topic
from tests.unit.controller.core.stage import add_topic, leading


def doomed(*partitions: tuple[int, ...]) -> OneController:
    return with_topic(cluster(), "t", *(partitions or ((1, 2),)))


def explained(world: OneController, problems: dict[BrokerId, ChannelProblem] | None = None) -> dict[str, Any]:
    """The one topic of the document, as a reader of the JSON has it."""
    document = explain_topic(world.context, "t", problems or {}, world.now_ms)
    assert document is not None
    read = json.loads(orjson.dumps(document))
    assert read["version"] == 1
    (topic,) = read["topics"]
    assert isinstance(topic, dict)
    return topic


def marked(world: OneController) -> OneController:
    world.mark("t")
    world.run()
    return world


def test_broker_that_is_away_and_replicas_that_are_done() -> None:
    world = doomed((1, 2), (2, 1))
    world.stop_broker(2)
    world.run()
    began_ms = world.now_ms
    marked(world)
    world.now_ms += 7_000
    topic = explained(world)
    assert (topic["marked_since_ms"], topic["phase"], topic["held_by"]) == (began_ms, "started", None)
    assert [(r["partition"], r["broker"], r["state"], r["waiting_for"]) for r in topic["replicas"]] == [
        (0, 2, "OFFLINE", "BROKER_TO_RETURN"),
        (1, 2, "OFFLINE", "BROKER_TO_RETURN"),
        (0, 1, "DELETION_SUCCESSFUL", "DONE"),
        (1, 1, "DELETION_SUCCESSFUL", "DONE"),
    ]
    (cause,) = topic["causes"]
    assert cause == {
        "cause": "BROKER_TO_RETURN",
        "meaning": "waits for broker 2, which is not registered in ZooKeeper",
        "broker": 2,
        "partitions": "0-1",
        "replicas": 2,
        "since_ms": began_ms,
        "attempts": 1,
        "last_error": None,
        "next_try_ms": None,
        "unblock": BRING_BACK.format(broker=2),
    }


def test_silent_broker_is_told_by_how_long_it_has_not_answered_and_by_what_its_channel_met() -> None:
    world = doomed()
    world.silent = {2: None}
    marked(world)
    world.now_ms += 12_345
    (row,) = [r for r in explained(world)["replicas"] if r["waiting_for"] != "DONE"]
    assert (row["waiting_for"], row["last_error"]) == ("ANSWER", "the broker has not answered for 12 s")
    refused = ChannelProblem("unreachable", "connection refused", 4, 9_000)
    (row,) = [r for r in explained(world, {BrokerId(2): refused})["replicas"] if r["waiting_for"] != "DONE"]
    assert row["last_error"] == "connection refused (unreachable; 4 attempts in 9 s)"


@pytest.mark.parametrize("reason", ["login", "tls"])
def test_no_answer_can_come_from_a_broker_where_tls_or_the_login_fails(reason: str) -> None:
    """The broker may be healthy, so nobody is told to look at its process."""
    world = doomed()
    world.silent = {2: None}
    marked(world)
    problems = {BrokerId(2): ChannelProblem(reason, "b:9092 refuses user lethe", 4, 9_000)}
    topic = explained(world, problems)
    (row,) = [r for r in topic["replicas"] if r["waiting_for"] != "DONE"]
    (cause,) = topic["causes"]
    assert row["waiting_for"] == cause["cause"] == "BROKER_NO_ACCESS"
    assert row["last_error"] == cause["last_error"] == f"b:9092 refuses user lethe ({reason}; 4 attempts in 9 s)"
    assert row["unblock"] == cause["unblock"] == remedy(CauseKind.BROKER_NO_ACCESS, "t", broker=2)
    assert cause["meaning"] == "waits for broker 2, where TLS or the login of the controller fails"


def test_broker_that_answers_errors_with_the_next_try() -> None:
    world = doomed()
    world.answer = Refusing(2, ErrorCode.UNKNOWN_SERVER_ERROR)
    marked(world)
    (cause,) = explained(world)["causes"]
    assert (cause["cause"], cause["broker"], cause["last_error"]) == ("BROKER_ERROR", 2, "UNKNOWN_SERVER_ERROR")
    assert cause["next_try_ms"] == world.now_ms + 500


def test_failed_log_directory_and_shutdown() -> None:
    world = doomed((1, 2), (3, 1))
    world.context.cluster.offline_dirs[BrokerId(2)] = {TopicPartition("t", 0): None}
    world.context.cluster.shutting_down[BrokerId(3)] = None
    world.silent = {3: None}
    marked(world)
    found = {(c["broker"], c["cause"]) for c in explained(world)["causes"]}
    assert found == {(2, "LOG_DIRECTORY"), (3, "BROKER_TO_FINISH_SHUTDOWN")}


def test_tombstone_then_znodes() -> None:
    world = doomed()
    world.silent = {3: None}
    world.refusals[paths.config_topic("t")] = ZkError.NO_AUTH
    marked(world)
    topic = explained(world)
    assert topic["phase"] == "acknowledged"
    assert [(c["cause"], c["broker"], c["partitions"]) for c in topic["causes"]] == [("TOMBSTONE_ANSWER", 3, None)]
    assert topic["replicas"][0]["state"] is None
    world.stop_broker(3)
    world.run()
    (cause,) = explained(world)["causes"]
    assert (cause["cause"], cause["last_error"]) == ("ZNODES", f"/config/topics/t: {error_words(ZkError.NO_AUTH)}")


def test_an_error_that_answers_the_tombstone_is_not_told_as_silence() -> None:
    world = doomed()

    def refuse(send: Send) -> Answer:
        if send.broker == 3 and isinstance(send.request, UpdateMetadataRequest):
            return UpdateMetadataResponseReceived(*send[:3], UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        return consent(send)

    world.answer = refuse
    marked(world)
    world.now_ms += 300
    (cause,) = explained(world)["causes"]
    assert (cause["cause"], cause["broker"]) == ("TOMBSTONE_ANSWER", 3)
    assert cause["last_error"] == "it answered 0 s ago: UNKNOWN_SERVER_ERROR"
    # Asked again, it is silent: both are told.
    world.silent = {3: None}
    world.advance(200)
    world.now_ms += 4_000
    lost = ChannelProblem("timeout", "no answer within 2000 ms", 2, 4_000)
    (cause,) = explained(world, {BrokerId(3): lost})["causes"]
    assert cause["last_error"] == (
        "it answered 4 s ago: UNKNOWN_SERVER_ERROR; since then: no answer within 2000 ms (timeout; 2 attempts in 4 s)"
    )


def test_paused_before_and_after_the_start() -> None:
    world = doomed()
    world.silent = {2: None}
    marked(world)
    world.write(Create(paths.lethe(), None), Create(paths.deletions_paused(), b'{"version":1,"reason":"disk"}'))
    world.run()
    with_topic(world, "later", (1,))
    world.mark("later")
    world.run()
    document = explain_all(world.context, {}, world.now_ms)
    assert document["paused"] == {
        "cause": "RESUMPTION",
        "meaning": "waits for deletions to be resumed: they are paused",
        "since_ms": world.now_ms,
        "reason": "disk",
        "path": paths.deletions_paused(),
        "unblock": "lethe topics resume-deletions",
    }
    assert document["pauses"] == [document["paused"]]
    read = json.loads(orjson.dumps(document))
    found = {topic["topic"]: [(c["cause"], c["broker"]) for c in topic["causes"]] for topic in read["topics"]}
    assert found == {"later": [("RESUMPTION", None)], "t": [("ANSWER", 2)]}
    world.stop_broker(2)
    world.silent = {}
    world.run()
    world.start_broker(2)
    world.run()
    assert [c["cause"] for c in explained(world)["causes"]] == ["RESUMPTION"]


@pytest.mark.parametrize(
    "held_by, cause",
    [
        (CauseKind.RESUMPTION, "RESUMPTION"),
        (CauseKind.REASSIGNMENT, "REASSIGNMENT"),
        (CauseKind.READABLE_ZNODE, "READABLE_ZNODE"),
        (CauseKind.DISABLED, "DISABLED"),
        (CauseKind.MARKER_WITHOUT_TOPIC, "MARKER_WITHOUT_TOPIC"),
    ],
)
def test_held_topic(held_by: CauseKind, cause: str) -> None:
    world = doomed()
    world.context.cluster.marks["t"] = HeldTopic(5, held_by, "why")
    topic = explained(world)
    assert (topic["phase"], topic["held_by"], topic["marked_since_ms"]) == ("held", held_by.held_code, 5)
    (row,) = topic["replicas"]
    assert (row["waiting_for"], row["partition"], row["broker"], row["last_error"]) == (cause, None, None, "why")


def test_partitions_without_state_are_told_beside_what_is_waited_for() -> None:
    world = doomed((1, 2), (1, 2))
    world.context.cluster.topics["t"].partitions[1].leader_and_isr = None
    world.context.cluster.partitions_with_leader_and_isr -= 1
    world.silent = {2: None}
    marked(world)
    found = {(c["cause"], c["broker"], c["partitions"]) for c in explained(world)["causes"]}
    assert found == {("ANSWER", 2, "0-1"), ("HALF_DELETED", None, "1")}


def test_topic_that_is_not_marked_says_whether_its_marker_was_refused() -> None:
    world = doomed()
    assert explain_topic(world.context, "t", {}, 1) is None
    assert not_marked(world.context, "t", {}, 1)["exists"] is True
    assert not_marked(world.context, "t", {}, 1)["refused"] is None
    world.context.refused_marks["x"] = RefusedMark(7, "delete.topic.enable is false")
    told = not_marked(world.context, "x", {}, 1)
    assert (told["marked"], told["exists"]) == (False, False)
    assert told["refused"] == {
        "at_ms": 7,
        "why": "delete.topic.enable is false",
        "cause": "REFUSED",
        "detail": None,
    }


class WatchedPartitions(dict[int, Partition]):
    """Partitions of one topic; the topic's name is added to `examined` when they are read."""

    def __init__(self, partitions: dict[int, Partition], name: str, examined: dict[str, None]) -> None:
        super().__init__(partitions)
        self._name, self._examined = name, examined

    def items(self) -> ItemsView[int, Partition]:  # type: ignore[override]
        self._examined[self._name] = None
        return super().items()

    def values(self) -> ValuesView[Partition]:  # type: ignore[override]
        self._examined[self._name] = None
        return super().values()


def test_document_is_bounded_and_says_what_it_leaves_out() -> None:
    context = leading(1, 2, 3)
    examined: dict[str, None] = {}
    for n in range(2_000):
        name = f"topic-{n}"
        add_topic(context, name, [(1, 2, 3)] * 50, led=True, replica_state=ReplicaState.DELETION_STARTED)
        mutation.queue_deletion(context.cluster, name, n)
        topic = context.cluster.topics[name]
        topic.partitions = WatchedPartitions(topic.partitions, name, examined)
    read = json.loads(orjson.dumps(explain_all(context, {}, 0, at_most=2_000)))
    assert [*examined] == [f"topic-{n}" for n in range(MAX_ROWS // 150)]
    assert len(read["topics"]) == MAX_ROWS // 150
    assert len(read["topics"]) + read["not_shown"] == 2_000
    assert [t["topic"] for t in read["topics"][:2]] == ["topic-0", "topic-1"]
    assert len(json.loads(orjson.dumps(explain_all(context, {}, 0, at_most=3)))["topics"]) == 3


def test_one_huge_topic_keeps_what_is_outstanding() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)] * MAX_ROWS, led=True, replica_state=ReplicaState.DELETION_STARTED)
    mutation.queue_deletion(context.cluster, "t", 0)
    for replica in [r for r in context.cluster.replicas_of("t") if r.broker == 1]:
        mutation.set_replica_state(context.cluster, replica, ReplicaState.DELETION_SUCCESSFUL)
    document = explain_topic(context, "t", {}, 0)
    (topic,) = json.loads(orjson.dumps(document))["topics"]
    assert len(topic["replicas"]) == MAX_ROWS
    assert topic["replicas_not_shown"] == MAX_ROWS
    assert {row["waiting_for"] for row in topic["replicas"]} == {"ANSWER"}
