"""Clients delete topics through the controller: what they are answered, and what is there then."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lethe.controller.core.config import DynamicConfig
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.deletion_grace import GraceRule
from lethe.protocol.kafka.admin import DeletableTopic, DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Delete
from tests.fakes.one_controller import ANYONE, Loss, OneController
from tests.scenarios import clients
from tests.scenarios.plot import another_is_elected, another_is_elected_meanwhile, cluster, is_gone, with_topic
from tests.scenarios.test_pause import pause, resume

VERSION = 6
UNKNOWN = TopicId(uuid.UUID(int=7))
_STATE = paths.partition_state("t", 0)
REMOVED_BY_HAND = tuple(Delete(path) for path in (_STATE, *reversed(paths.ancestors_of(_STATE)[-3:])))
"""Removes topic t with its partition 0."""


def deletion(*names: str | TopicId, timeout_ms: int = 30_000) -> DeleteTopicsRequest:
    topics = (DeletableTopic(each) if isinstance(each, str) else DeletableTopic(None, each) for each in names)
    return DeleteTopicsRequest(tuple(topics), timeout_ms)


def rows_of(answer: object) -> tuple[DeletedTopic, ...]:
    assert isinstance(answer, DeleteTopicsResponse)
    return answer.topics


def errors(world: OneController, request: DeleteTopicsRequest, version: int = VERSION) -> list[str]:
    return [ErrorCode(row.error).name for row in rows_of(world.ask(request, version))]


def topic_id(world: OneController, name: str) -> TopicId:
    found = world.context.cluster.topics[name].id
    assert found is not None
    return found


def test_no_broker_shows_the_topic_when_its_client_is_answered() -> None:
    world = with_topic(cluster(), "t", (1, 2), (2, 3))
    assert errors(world, deletion("t")) == ["NONE"]
    assert not any("t" in world.cache(broker).partitions for broker in (1, 2, 3))
    assert is_gone(world, "t")


def test_a_topic_is_deleted_by_its_id_and_the_marker_names_it() -> None:
    world = with_topic(cluster(), "t", (3, 1))
    world.stop_broker(3)
    world.run()
    wanted, created_zxid = topic_id(world, "t"), world.context.cluster.topics["t"].created_zxid
    assert rows_of(world.ask(deletion(wanted), VERSION)) == (DeletedTopic("t", wanted, 0),)
    marker = world.read(paths.delete_topic("t"))
    assert marker is not None
    assert znodes.decode_deletion_marker(marker.data).topic_czxid == created_zxid


def test_each_row_is_answered_by_itself() -> None:
    world = with_topic(with_topic(cluster(), "a", (1, 2)), "__consumer_offsets", (1, 2))
    world.context.config = replace(world.context.config, protected_topics=("kept*",))
    with_topic(world, "kept-1", (1, 2))
    rows = rows_of(world.ask(deletion("none", "a", UNKNOWN, "kept-1", "__consumer_offsets", "a"), VERSION))
    assert [(row.name, ErrorCode(row.error).name, row.message) for row in rows] == [
        ("none", "UNKNOWN_TOPIC_OR_PARTITION", None),
        ("a", "NONE", None),
        (None, "UNKNOWN_TOPIC_ID", None),
        ("kept-1", "POLICY_VIOLATION", "Topic 'kept-1' is protected by the pattern kept* of lethe.protected.topics."),
        (
            "__consumer_offsets",
            "POLICY_VIOLATION",
            "Topic '__consumer_offsets' is internal to Kafka, and is never deleted.",
        ),
        ("a", "NONE", None),
    ]
    assert set(world.context.cluster.topics) == {"kept-1", "__consumer_offsets"}


@pytest.mark.parametrize("version,error", [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")])
def test_where_deletion_is_disabled_nothing_is_marked(version: int, error: str) -> None:
    world = with_topic(cluster(world=OneController(delete_topic_enable=False)), "t", (1, 2))
    assert errors(world, deletion("t", "none"), version) == [error, error]
    assert not world.exists(paths.delete_topic("t"))


def test_a_name_and_an_id_together_spoil_the_whole_request() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    both = DeleteTopicsRequest((DeletableTopic("t"), DeletableTopic("t", topic_id(world, "t"))), 30_000)
    assert errors(world, both) == ["INVALID_REQUEST", "INVALID_REQUEST"]
    assert "t" in world.context.cluster.topics


def test_neither_a_name_nor_an_id_is_what_nobody_may_delete() -> None:
    assert errors(cluster(), DeleteTopicsRequest((DeletableTopic(None),), 0)) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_topics_on_a_dead_broker_are_gone_for_clients_and_for_good_when_it_is_back() -> None:
    world = with_topic(with_topic(cluster(), "alive", (1, 2)), "dead", (3,))
    world.stop_broker(3)
    world.run()
    assert errors(world, deletion("alive", "dead")) == ["NONE", "NONE"]
    assert is_gone(world, "alive")
    assert not any("dead" in world.cache(broker).partitions for broker in (1, 2))
    world.start_broker(3)
    world.run()
    assert is_gone(world, "dead")
    assert "dead" not in world.cache(3).partitions


# --- waiting --------------------------------------------------------------------------------------------------------


def test_a_broker_that_never_acknowledges() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[3] = None
    key = clients.waiting(world, deletion("t", "none", timeout_ms=5_000), VERSION)
    world.advance(5_000)
    late, unknown = rows_of(clients.answer_to(world, key))
    assert (late.error, unknown.error) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_without_a_timeout_the_topic_is_deleted_and_the_answer_does_not_wait() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    assert errors(world, deletion("t", timeout_ms=0)) == ["REQUEST_TIMED_OUT"]
    assert is_gone(world, "t")


def test_a_topic_that_is_marked_and_held_is_waited_for() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    pause(world)
    world.mark("t")
    world.run()
    key = clients.waiting(world, deletion("t"), VERSION)
    resume(world)
    assert [row.error for row in rows_of(clients.answer_to(world, key))] == [0]
    assert is_gone(world, "t")


def test_a_deletion_under_way_has_no_topic_any_more_as_in_kafka() -> None:
    world = with_topic(cluster(), "t", (3, 1))
    world.stop_broker(3)
    world.mark("t")
    world.run()
    assert errors(world, deletion("t")) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_topic_that_is_kept_in_the_trash_is_gone_for_clients() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.context.cluster.dynamic = DynamicConfig(grace=(GraceRule("t", 3_600_000),))
    key = clients.waiting(world, deletion("t"), VERSION)
    world.advance(world.context.config.trash_freeze_ms)
    assert [row.error for row in rows_of(clients.answer_to(world, key))] == [0]
    assert not any("t" in world.cache(broker).partitions for broker in (1, 2, 3))
    assert world.exists(paths.trashed("t"))
    assert errors(world, deletion("t")) == ["UNKNOWN_TOPIC_OR_PARTITION"]


# --- others ---------------------------------------------------------------------------------------------------------


def test_another_process_replaces_the_topic_in_between_and_the_new_one_stays() -> None:
    world = with_topic(cluster(), "t", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        world.meanwhile = lambda _: None
        world.write(Delete(paths.config_topic("t")), *REMOVED_BY_HAND)
        world.create_topic("t", (2, 3))

    world.meanwhile = meanwhile
    key = world.request(deletion("t", timeout_ms=5_000), VERSION)
    world.run()
    world.advance(5_000)
    assert "t" in world.context.cluster.topics
    assert world.context.cluster.topics["t"].partitions[0].assignment.replicas == (2, 3)
    assert not world.exists(paths.delete_topic("t"))
    assert len(world.replies[key]) == 1


def test_another_process_removes_the_topic_in_between() -> None:
    world = with_topic(cluster(), "t", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        world.meanwhile = lambda _: None
        world.write(*REMOVED_BY_HAND)

    world.meanwhile = meanwhile
    assert errors(world, deletion("t")) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert not world.exists(paths.delete_topic("t"))


def test_a_topic_that_is_removed_by_hand_is_gone_when_no_live_broker_shows_it() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    pause(world)
    key = clients.waiting(world, deletion("t"), VERSION)
    world.silent[3] = None
    world.write(*REMOVED_BY_HAND)
    world.run()
    assert "t" in world.cache(3).partitions
    assert world.replies[key] == []
    world.stop_broker(3)
    world.run()
    assert [row.error for row in rows_of(clients.answer_to(world, key))] == [0]


@pytest.mark.parametrize("names", [("t",), ("none",)], ids=["good", "refused"])
def test_who_has_lost_control_answers_so_and_marks_nothing(names: tuple[str, ...]) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    another_is_elected_meanwhile(world)
    assert errors(world, deletion(*names)) == ["NOT_CONTROLLER"]
    assert not world.exists(paths.delete_topic("t"))


def test_control_is_lost_between_the_request_and_its_answer() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[3] = None
    key = clients.waiting(world, deletion("t"), VERSION)
    another_is_elected(world)
    world.run()
    assert [row.error for row in rows_of(clients.answer_to(world, key))] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("loss", list(Loss))
def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(loss: Loss) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.losing = lambda effect: loss if paths.delete_topic("t") in str(effect.groups) else None
    assert errors(world, deletion("t")) == ["NOT_CONTROLLER"]


# --- rights ---------------------------------------------------------------------------------------------------------


def test_what_the_client_may_not_delete() -> None:
    world = with_topic(with_topic(cluster(), "mine", (1, 2)), "yours", (1, 2))
    hers, his = topic_id(world, "mine"), topic_id(world, "yours")
    sender = clients.ann((Operation.DELETE, ResourceType.TOPIC, "mine"))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert rows_of(world.ask(deletion("yours", his, "none"), VERSION, sender)) == (
        DeletedTopic("yours", None, refused),
        DeletedTopic(None, his, refused),
        DeletedTopic("none", None, refused),
    )
    assert rows_of(world.ask(deletion(hers), VERSION, sender)) == (DeletedTopic("mine", hers, 0),)
    assert set(world.context.cluster.topics) == {"yours"}
    assert rows_of(world.ask(deletion("yours"), VERSION, ANYONE)) == (DeletedTopic("yours", None, 0),)
