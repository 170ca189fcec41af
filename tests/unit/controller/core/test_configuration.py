"""What is configured while the cluster runs: who says what, and what follows."""

from __future__ import annotations

import pytest

from lethe.controller.core.configuration import unseen
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.topic_defaults import BrokerSetting, ConfigSource
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, SetData, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import CONTROLLER_ID, OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, with_topic
from tests.unit.controller.core.stage import leading

DEFAULT = f"brokers/{paths.DEFAULT_ENTITY}"
OWN = f"brokers/{CONTROLLER_ID}"
UNCLEAN = {"unclean.leader.election.enable": "true"}


def put(world: OneController, entity: str, data: bytes | None) -> None:
    path = f"/config/{entity}"
    world.write(SetData(path, data, -1) if world.exists(path) else Create(path, data))


def announce(world: OneController, data: bytes | None) -> None:
    world.write(Create(paths.config_change(), data, sequential=True))
    world.run()


def configure(world: OneController, entity: str, **config: str) -> None:
    """As Kafka's tools do it: the entity, then the notification."""
    put(world, entity, znodes.encode_config({name.replace("_", "."): value for name, value in config.items()}))
    announce(world, znodes.encode_config_change(znodes.ConfigChange(entity)))


def leaderless() -> OneController:
    """Topic t has lost its ISR, a replica outside it is live; so has u."""
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "u", (1, 2))
    for broker in (2, 1):
        world.stop_broker(broker)
        world.run()
    world.start_broker(2)
    world.run()
    assert (led(world, "t"), led(world, "u")) == ((-1, 2, (1,)), (-1, 2, (1,)))
    return world


def leaders(world: OneController) -> list[int]:
    found = (led(world, name) for name in ("t", "u"))
    return [leader_and_isr[0] for leader_and_isr in found if leader_and_isr is not None]


@pytest.mark.parametrize("entity", [DEFAULT, OWN])
def test_unclean_election_switched_on_by_default_elects_wherever_it_helps(entity: str) -> None:
    world = leaderless()
    configure(world, entity, unclean_leader_election_enable="true")
    assert leaders(world) == [2, 2]
    assert world.context.unclean_elections == 2


def test_unclean_election_switched_on_for_a_topic_elects_for_that_topic() -> None:
    world = leaderless()
    configure(world, "topics/u", unclean_leader_election_enable="true")
    assert leaders(world) == [-1, 2]


def test_notification_of_version_1_counts_too() -> None:
    world = leaderless()
    put(world, "topics/u", znodes.encode_config(UNCLEAN))
    announce(world, b'{"version":1,"entity_type":"topics","entity_name":"u"}')
    assert leaders(world) == [-1, 2]


def test_own_configuration_comes_before_that_of_all_brokers_and_both_before_the_file() -> None:
    world = cluster()
    for entity, config in ((DEFAULT, "false"), (OWN, "true")):
        configure(world, entity, delete_topic_enable=config)
    configure(world, OWN)
    configure(world, DEFAULT)
    assert world.context.delete_topic_enable
    assert [
        f.data["delete_topic_enable"] for f in world.recorded(EventRecordType.EVENT) if "delete_topic_enable" in f.data
    ] == [
        False,
        True,
        False,
        True,
    ]


def test_configuration_of_others_is_none_of_ours() -> None:
    world = leaderless()
    for entity in ("brokers/1", "clients/c", "users/u", "topics/none"):
        configure(world, entity, unclean_leader_election_enable="true", delete_topic_enable="false")
    assert leaders(world) == [-1, -1]
    assert world.context.delete_topic_enable


def test_configuration_is_read_when_taking_over_before_anything_is_decided() -> None:
    world = leaderless()
    world.crash()
    put(world, DEFAULT, znodes.encode_config({**UNCLEAN, "delete.topic.enable": "false"}))
    world.mark("t")
    world.elect()
    assert leaders(world) == [2, 2]
    assert not world.exists(paths.delete_topic("t"))


def test_deletion_switched_off_removes_marks_of_what_has_not_begun_and_what_has_begun_ends() -> None:
    world = with_topic(with_topic(cluster(), "begun", (1, 2)), "later", (1, 2))
    world.stop_broker(2)
    world.run()
    world.mark("begun")
    world.run()
    configure(world, DEFAULT, delete_topic_enable="false")
    world.mark("later")
    world.run()
    assert not world.exists(paths.delete_topic("later"))
    assert world.exists(paths.delete_topic("begun"))
    world.start_broker(2)
    world.run()
    assert is_gone(world, "begun")
    assert led(world, "later") is not None
    configure(world, DEFAULT, delete_topic_enable="true")
    world.mark("later")
    world.run()
    assert is_gone(world, "later")


@pytest.mark.parametrize("data", [b"{no json", b'{"version":1,"config":[]}'])
def test_configuration_that_cannot_be_understood_leaves_things_as_they_are(data: bytes) -> None:
    world = cluster()
    configure(world, DEFAULT, delete_topic_enable="false")
    put(world, DEFAULT, data)
    announce(world, znodes.encode_config_change(znodes.ConfigChange(DEFAULT)))
    assert not world.context.delete_topic_enable
    assert len(refusals(world, "cluster")) == 1


def test_configuration_that_may_not_be_read_leaves_things_as_they_are() -> None:
    world = cluster()
    world.refusals[paths.config_broker_default()] = ZkError.NO_AUTH
    configure(world, OWN, delete_topic_enable="false")
    assert world.context.delete_topic_enable
    assert refusals(world, "cluster") == [f"/config/brokers/<default>: reading it: {NO_AUTH}"]


def test_value_that_is_neither_true_nor_false_leaves_that_setting_as_it_is() -> None:
    world = cluster()
    configure(world, DEFAULT, delete_topic_enable="false")
    configure(world, DEFAULT, delete_topic_enable="perhaps", unclean_leader_election_enable=" TRUE ")
    assert not world.context.delete_topic_enable
    assert world.context.unclean_leader_election_enable
    assert refusals(world, "cluster") == ["'perhaps' is neither true nor false"]
    configure(world, DEFAULT)
    assert world.context.delete_topic_enable


# --- nobody knows whether topics may be deleted -------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"{no json", znodes.encode_config({"delete.topic.enable": "perhaps"})])
def test_who_takes_over_and_cannot_know_whether_topics_may_be_deleted_deletes_none(data: bytes) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    configure(world, DEFAULT, delete_topic_enable="false")
    world.crash()
    put(world, DEFAULT, data)
    world.mark("t")
    world.elect()
    assert world.exists(paths.delete_topic("t"))
    assert world.context.cluster.marks["t"].held_by is CauseKind.CONFIGURATION
    assert world.context.cluster.paused is not None
    assert world.context.cluster.paused.held_by is CauseKind.CONFIGURATION
    assert world.context.cluster.paused.path == paths.config_broker_default()
    assert led(world, "t") is not None
    configure(world, DEFAULT, delete_topic_enable="true")
    assert is_gone(world, "t")


def test_marker_held_back_for_not_knowing_is_removed_when_deletion_turns_out_to_be_disabled() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.crash()
    put(world, DEFAULT, b"{no json")
    world.mark("t")
    world.elect()
    configure(world, OWN, delete_topic_enable="false")
    assert world.context.cluster.marks["t"].held_by is CauseKind.CONFIGURATION
    configure(world, DEFAULT)
    assert world.context.cluster.paused is None
    assert not world.exists(paths.delete_topic("t"))
    assert led(world, "t") is not None


def test_where_the_file_forbids_deletions_a_marker_is_kept_until_that_is_known_to_hold() -> None:
    world = with_topic(cluster(world=OneController(delete_topic_enable=False)), "t", (1, 2))
    world.crash()
    put(world, DEFAULT, b"{no json")
    world.mark("t")
    world.elect()
    assert world.exists(paths.delete_topic("t"))
    configure(world, DEFAULT)
    assert not world.exists(paths.delete_topic("t"))
    assert led(world, "t") is not None


def test_pause_that_somebody_asked_for_outlasts_the_other_one() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.crash()
    put(world, DEFAULT, b"{no json")
    world.elect()
    world.write(Create(paths.LETHE, None), Create(paths.DELETIONS_PAUSED, None))
    world.mark("t")
    world.run()
    configure(world, DEFAULT)
    assert world.exists(paths.delete_topic("t"))
    world.write(Delete(paths.DELETIONS_PAUSED))
    world.run()
    assert is_gone(world, "t")


# --- notifications ------------------------------------------------------------------------------------------------


def test_notification_that_cannot_be_understood_is_recorded_once_and_left_to_the_brokers() -> None:
    world = cluster()
    announce(world, b"{no json")
    configure(world, DEFAULT, delete_topic_enable="false")
    assert not world.context.delete_topic_enable
    assert world.exists(f"{paths.config_changes()}/config_change_0000000000")
    assert len(refusals(world, "znode/config/changes")) == 1


# --- which notifications are new ----------------------------------------------------------------------------------


def test_each_notification_is_looked_at_once_oldest_first() -> None:
    context = leading(1)
    assert unseen(context, ("config_change_0000000002", "config_change_0000000001", "else")) == (
        "config_change_0000000001",
        "config_change_0000000002",
    )
    assert unseen(context, ("config_change_0000000002", "config_change_0000000003")) == ("config_change_0000000003",)
    assert unseen(context, ("config_change_0000000003",)) == ()
    assert unseen(context, ()) == ()


def test_numbers_that_begin_again_are_noticed() -> None:
    context = leading(1)
    unseen(context, ("config_change_0000000007",))
    assert unseen(context, ("config_change_0000000000",)) == ("config_change_0000000000",)


def test_parent_that_was_made_anew_is_followed() -> None:
    world = cluster()
    for value in ("false", "true", "false"):
        configure(world, DEFAULT, delete_topic_enable=value)
    under = [path for path in world.zookeeper.paths() if paths.parent_of(path) == paths.config_changes()]
    world.write(*(Delete(path) for path in under))
    world.run()
    configure(world, DEFAULT, delete_topic_enable="true")
    assert world.context.delete_topic_enable


def test_settings_that_topics_get_from_brokers_are_followed_with_their_places() -> None:
    world = cluster()
    configure(world, DEFAULT, log_retention_ms="5", log_segment_bytes="20", num_io_threads="3")
    configure(world, OWN, log_segment_bytes="30")
    assert world.context.broker_settings == {
        "log.retention.ms": BrokerSetting("5", ConfigSource.ALL_BROKERS),
        "log.segment.bytes": BrokerSetting("30", ConfigSource.BROKER),
    }
    configure(world, DEFAULT, log_retention_ms="long", log_roll_ms="0")
    assert world.context.broker_settings["log.retention.ms"].text == "5"
    assert "log.roll.ms" not in world.context.broker_settings
    assert [why.partition(":")[0] for why in refusals(world, "cluster")] == [
        "Invalid value long for configuration log.retention.ms",
        "Invalid value 0 for configuration log.roll.ms",
    ]
