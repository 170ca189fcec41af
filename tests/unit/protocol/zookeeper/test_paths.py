"""Paths, and what a watched path is about."""

import pytest

from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths


def test_every_path_is_the_one_that_kafka_uses() -> None:
    assert paths.controller() == "/controller"
    assert paths.controller_epoch() == "/controller_epoch"
    assert paths.broker_ids() == "/brokers/ids"
    assert paths.broker_id(7) == "/brokers/ids/7"
    assert paths.broker_topics() == "/brokers/topics"
    assert paths.topic("t") == "/brokers/topics/t"
    assert paths.topic_partitions("t") == "/brokers/topics/t/partitions"
    assert paths.topic_partition("t", 3) == "/brokers/topics/t/partitions/3"
    assert paths.partition_state("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert paths.delete_topics() == "/admin/delete_topics"
    assert paths.delete_topic("t") == "/admin/delete_topics/t"
    assert paths.reassign_partitions() == "/admin/reassign_partitions"
    assert paths.preferred_replica_election() == "/admin/preferred_replica_election"
    assert paths.isr_change_notifications() == "/isr_change_notification"
    assert paths.isr_change_notification("0000000001") == "/isr_change_notification/isr_change_0000000001"
    assert paths.log_dir_event_notifications() == "/log_dir_event_notification"
    assert paths.log_dir_event_notification() == "/log_dir_event_notification/log_dir_event_"
    assert paths.config_topics() == "/config/topics"
    assert paths.config_topic("t") == "/config/topics/t"
    assert paths.config_user("ann") == "/config/users/ann"
    assert paths.config_user("CN=a b,O=é*~") == "/config/users/CN%3Da%20b%2CO%3D%C3%A9%2A%7E"
    assert paths.config_broker(1) == "/config/brokers/1"
    assert paths.config_broker_default() == "/config/brokers/<default>"
    assert paths.config_changes() == "/config/changes"
    assert paths.config_change() == "/config/changes/config_change_"
    assert paths.producer_id_block() == "/latest_producer_id_block"
    assert paths.migration() == "/migration"
    assert paths.lethe() == "/lethe"
    assert paths.deletions_paused() == "/lethe/deletions_paused"
    assert len(paths.PERSISTENT_ROOTS) == len(set(paths.PERSISTENT_ROOTS)) == 14


def test_a_broker_is_recognised_only_by_a_canonical_number() -> None:
    assert paths.broker_of("/brokers/ids/12") == 12
    for foreign in ("012", "+1", "-1", "1 ", "x", "", "1/2", "99999999999", "²"):
        assert paths.broker_of(f"/brokers/ids/{foreign}") is None


def test_topics_are_recognised_by_their_own_znode_only() -> None:
    assert paths.topic_of("/brokers/topics/orders") == "orders"
    assert paths.topic_of("/brokers/topics/orders/partitions") is None
    assert paths.topic_of("/brokers/topics") is None
    assert paths.topic_of("/brokers/topicsx/orders") is None
    assert paths.deleted_topic_of("/admin/delete_topics/orders") == "orders"
    assert paths.deleted_topic_of("/admin/delete_topics") is None


def test_partitions_and_states_are_recognised() -> None:
    assert paths.partition_of(paths.topic_partition("t", 4)) == TopicPartition("t", 4)
    assert paths.partition_of(paths.partition_state("t", 4)) == TopicPartition("t", 4)
    assert paths.state_of(paths.partition_state("t", 4)) == TopicPartition("t", 4)
    assert paths.state_of(paths.topic_partition("t", 4)) is None
    for foreign in ("/brokers/topics/t/partitions/x", "/brokers/topics/t/parts/1", "/brokers/topics/t/partitions/1/x"):
        assert paths.partition_of(foreign) is None


def test_sequences_are_the_digits_after_the_prefix() -> None:
    assert paths.sequence_of("/config/changes/config_change_0000000007", paths.CONFIG_CHANGE_PREFIX) == "0000000007"
    assert paths.sequence_of("/config/changes/other_0000000007", paths.CONFIG_CHANGE_PREFIX) is None
    assert paths.sequence_of("/config/changes/config_change_x", paths.CONFIG_CHANGE_PREFIX) is None


def test_parents_and_ancestors() -> None:
    assert paths.parent_of("/a/b") == "/a"
    assert paths.parent_of("/a") == "/"
    assert paths.ancestors_of("/a/b/c") == ("/a", "/a/b")
    assert paths.ancestors_of("/a") == ()
    assert paths.child_of("/", "/a") == "a"


def test_secrets_are_kept_from_the_world() -> None:
    assert paths.is_sensitive("/config/users/u")
    assert paths.is_sensitive("/config/brokers")
    assert not paths.is_sensitive("/config/topics/t")


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/a/./b", "/a/..", "/a\x00", "/\x7f", "/\ufffe"])
def test_an_illegal_path_is_explained(path: str) -> None:
    assert paths.path_problem(path)


@pytest.mark.parametrize("path", ["/", "/a", "/config/users/<default>", "/ä.b", "/a/...b"])
def test_a_legal_path_has_no_problem(path: str) -> None:
    assert paths.path_problem(path) is None
