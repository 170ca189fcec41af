"""Kafka's DeleteTopicTest, as far as the controller decides it: brokers and disks have tests of their own."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from lethe.controller.core.deletion_memory import DELETING, DISABLED, NO_SUCH_TOPIC
from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.scenarios.plot import causes, cluster, is_gone, led, with_topic


def test_resume_delete_topic_on_controller_failover() -> None:
    """A follower is down, the topic is marked, the controller dies; both come back."""
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.stop_broker(3)
    world.run()
    world.crash()
    world.mark("test")
    world.elect()
    assert world.exists(paths.delete_topic("test"))
    assert causes(world, "test") == [(0, 3, "BROKER_TO_RETURN")]
    world.crash()
    world.start_broker(3)
    world.elect()
    assert is_gone(world, "test")


@pytest.mark.parametrize("why", [DISABLED, NO_SUCH_TOPIC])
def test_what_is_written_of_a_deletion_that_the_next_controller_refuses(why: str) -> None:
    """It knows nothing of what had begun, so that the refusal is all that tells of the end."""
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.stop_broker(3)
    world.mark("test")
    world.run()
    world.crash()
    told = world.recorded(EventRecordType.DELETION_PHASE)
    assert [record.data["phase"] for record in told] == ["queued", "started", "tombstoned"]
    if why == DISABLED:
        config = b'{"version":1,"config":{"delete.topic.enable":"false"}}'
        world.write(Create(paths.config_broker_default(), config))
    else:
        state = paths.partition_state("test", 0)
        tree = (state, paths.topic_partition("test", 0), paths.topic_partitions("test"), paths.topic("test"))
        world.write(*(Delete(path) for path in tree))
    world.elect()
    assert not world.exists(paths.delete_topic("test"))
    assert world.recorded(EventRecordType.DELETION_PHASE) == told
    assert [record.data for record in world.recorded(EventRecordType.REFUSAL)] == [{"what": DELETING, "why": why}]


@pytest.mark.parametrize("config", [None, b'{"version":1,"config":{"delete.topic.enable":"false"}}'])
def test_what_becomes_of_marked_topics_when_the_configuration_can_be_read_again(config: bytes | None) -> None:
    """Removed, the znode forbids nothing any more; repaired, it may say that topics stay."""
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.crash()
    path = paths.config_broker_default()
    world.write(Create(path, b"{"))
    world.mark("test")
    world.elect()
    assert causes(world, "test") == [(None, None, "CONFIGURATION")]
    world.crash()
    world.write(Delete(path) if config is None else SetData(path, config, ANY_VERSION))
    world.elect()
    assert is_gone(world, "test") is (config is None)
    assert not world.exists(paths.delete_topic("test"))
    assert world.exists(paths.topic("test")) is (config is not None)


def test_partitions_added_by_hand_to_a_topic_that_is_being_deleted_never_come_to_life() -> None:
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.stop_broker(3)
    world.run()
    world.mark("test")
    world.run()
    found = world.read(paths.topic("test"))
    assert found is not None
    assert found.data is not None
    document = json.loads(found.data)
    document["partitions"]["1"] = [1, 2, 3]
    world.write(SetData(paths.topic("test"), json.dumps(document).encode(), ANY_VERSION))
    world.take_story()
    world.run()
    world.start_broker(3)
    world.run()
    assert "test-1" not in world.take_story()
    assert is_gone(world, "test")


def test_partitions_added_by_hand_and_found_at_failover_are_deleted_with_the_topic() -> None:
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.crash()
    found = world.read(paths.topic("test"))
    assert found is not None
    assert found.data is not None
    document = json.loads(found.data)
    document["partitions"]["1"] = [1, 2, 3]
    world.write(SetData(paths.topic("test"), json.dumps(document).encode(), ANY_VERSION))
    world.mark("test")
    world.elect()
    story = world.take_story()
    assert "test-1 leader -1 epoch 0 isr 1,2,3 new" not in story
    assert "create /brokers/topics/test/partitions/1" not in story
    assert is_gone(world, "test")


def test_delete_of_a_topic_that_does_not_exist_leaves_the_others_alone() -> None:
    world = with_topic(cluster(), "test", (1, 2, 3))
    world.mark("test2")
    world.run()
    assert not world.exists(paths.delete_topic("test2"))
    assert led(world, "test") == (1, 0, (1, 2, 3))
    assert world.context.cluster.deletions == {}


def test_one_partition_subtree_removed_by_hand_while_all_were_down() -> None:
    """testDeletingPartiallyDeletedTopic: two partitions, the first one's znodes removed, the marker set by hand."""
    world = with_topic(cluster(1, 2, 3, 4), "test", (1, 2, 3), (2, 3, 4))
    world.crash()
    for broker in (1, 2, 3, 4):
        world.stop_broker(broker)
    world.write(Delete(paths.partition_state("test", 0)), Delete(paths.topic_partition("test", 0)))
    world.mark("test")
    world.elect()
    for broker in (1, 2, 3, 4):
        world.start_broker(broker)
        world.run()
    assert is_gone(world, "test")


def test_facts_of_a_deletion_name_the_incarnation_they_are_about() -> None:
    world = with_topic(cluster(), "test", (1, 2, 3))
    ids = []
    for _ in range(2):
        topic_id = world.context.cluster.topics["test"].id
        assert topic_id is not None
        ids.append(topic_id_to_text(topic_id))
        world.mark("test")
        world.run()
        assert is_gone(world, "test")
        with_topic(world, "test", (1, 2, 3))
    for kind in (EventRecordType.ACK, EventRecordType.TRANSITION, EventRecordType.DELETION_PHASE):
        told = [record.data["topic_id"] for record in world.recorded(kind) if record.subject == "topic/test"]
        last = world.context.cluster.topics["test"].id
        assert last is not None
        assert (
            list(dict.fromkeys(told))
            == [*ids, topic_id_to_text(last)][: 3 if kind is EventRecordType.TRANSITION else 2]
        )


def test_a_state_change_of_all_replicas_is_one_line_and_an_answer_is_its_own() -> None:
    world = with_topic(cluster(1, 2, 3), "test", (1, 2, 3), (2, 3), (3, 1))
    world.mark("test")
    world.run()
    assert is_gone(world, "test")
    lines = [record.data for record in world.recorded(EventRecordType.TRANSITION) if record.subject == "topic/test"]
    moved = [line for line in lines if line["machine"] == "replica" and line["before"] != "NON_EXISTENT"]
    on: dict[str, JsonValue] = {"1": "0,2", "2": "0-1", "3": "0-2"}
    path = ("NEW", "ONLINE", "OFFLINE", "DELETION_STARTED")
    assert [(line["before"], line["after"]) for line in moved] == list(pairwise(path))
    assert all(line["replicas"] == on for line in moved)
    answers = [record.data for record in world.recorded(EventRecordType.ACK)]
    assert sorted((line["broker"], line["partitions"]) for line in answers) == [(1, "0,2"), (2, "0-1"), (3, "0-2")]
    assert {(line["before"], line["after"]) for line in answers} == {("DELETION_STARTED", "DELETION_SUCCESSFUL")}
