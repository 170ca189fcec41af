"""Znodes that cannot be read, understood or written: what is concerned is quarantined and shown, all others go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.vocabulary import ZERO_TOPIC_ID, BrokerId, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, role, state, with_topic

BROKEN = [b"", b"{", b"[]", b'{"version":3}', b'{"version":3,"partitions":{"0":"1,2"}}', b"\xff\xfe"]


@pytest.mark.parametrize("data", BROKEN, ids=repr)
@pytest.mark.parametrize("when", ["while leading", "at failover"])
def test_unreadable_topic_is_set_aside_and_the_others_go_on_until_it_is_repaired(data: bytes, when: str) -> None:
    world = cluster()
    if when == "at failover":
        world.crash()
    world.write(Create(paths.topic("broken"), data))
    world.create_topic("sound", (1, 2))
    if when == "at failover":
        world.elect()
    world.run()
    assert list(world.context.cluster.quarantined_topics) == ["broken"]
    assert led(world, "sound") == (1, 0, (1, 2))

    for name in ("broken", "sound"):
        world.mark(name)
    world.run()
    assert is_gone(world, "sound")
    assert causes(world, "broken") == [(None, None, "READABLE_ZNODE")]
    assert world.exists(paths.delete_topic("broken"))

    repaired = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((2, 3))}))
    world.write(SetData(paths.topic("broken"), repaired, ANY_VERSION))
    world.run()
    assert is_gone(world, "broken")
    assert not world.context.cluster.quarantined_topics


@pytest.mark.parametrize("when", ["while leading", "at failover"])
def test_reassignment_of_an_unreadable_topic_waits_until_it_is_repaired(when: str) -> None:
    world = cluster()
    world.write(Create(paths.topic("broken"), b"{"))
    world.create_topic("sound", (1, 2))
    world.run()
    if when == "at failover":
        world.crash()
    broken, sound = TopicPartition("broken", 0), TopicPartition("sound", 0)
    asked = {broken: (2, 3), sound: (2, 1)}
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment(asked)))
    if when == "at failover":
        world.elect()
    world.run()
    left = world.read(paths.reassign_partitions())
    assert left is not None
    assert znodes.decode_reassignment(left.data) == {broken: (2, 3)}

    repaired = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((1, 2))}))
    world.write(SetData(paths.topic("broken"), repaired, ANY_VERSION))
    world.run()
    assert list(world.context.cluster.reassignments) == [broken]
    partition = world.context.cluster.partition(broken)
    assert partition is not None
    assert partition.assignment.target == (2, 3)


@pytest.mark.parametrize("data", [b"{", None])
def test_reassignment_older_than_an_unreadable_topic_does_not_move_it_after_the_repair(data: bytes | None) -> None:
    """Found by the simulator: another entry was removed, and that write made the rest younger than the topic."""
    world = with_topic(cluster(), "sound", (1, 2))
    world.crash()
    broken, sound = TopicPartition("broken", 0), TopicPartition("sound", 0)
    request = znodes.encode_reassignment({broken: (2, 3), sound: (2, 1)})
    world.write(Create(paths.reassign_partitions(), request))
    world.write(Create(paths.topic("broken"), data))
    world.elect()
    assert not world.exists(paths.reassign_partitions()), "both entries are removed"
    repaired = znodes.encode_topic(znodes.TopicZnode({0: ReplicaAssignment((1, 2))}))
    world.write(SetData(paths.topic("broken"), repaired, ANY_VERSION))
    world.run()
    assert led(world, "broken") == (1, 0, (1, 2))
    assert not world.context.cluster.reassignments


def test_reassignment_of_an_unreadable_topic_does_not_move_the_next_unreadable_one_of_its_name() -> None:
    """Both znodes are unreadable for the same reason; the other entry is removed when its topic is deleted."""
    world = with_topic(cluster(), "sound", (1, 2))
    world.write(Create(paths.topic("broken"), b"{"))
    broken, sound = TopicPartition("broken", 0), TopicPartition("sound", 0)
    request = znodes.encode_reassignment({broken: (2, 3), sound: (1, 3)})
    world.write(Create(paths.reassign_partitions(), request))
    world.run()
    assert list(world.context.cluster.reassignments) == [sound]
    world.write(Delete(paths.topic("broken")))
    world.write(Create(paths.topic("broken"), b"{"))
    world.run()
    world.mark("sound")
    world.run()
    assert is_gone(world, "sound")
    assert not world.exists(paths.reassign_partitions()), "both entries are removed"


def refusing_writes(world: OneController, path: str) -> Callable[[ReadZnodes | WriteZnodes], None]:
    """ZooKeeper shows this znode and refuses to have it written."""

    def rule(effect: ReadZnodes | WriteZnodes) -> None:
        world.refusals = {path: ZkError.NO_AUTH} if isinstance(effect, WriteZnodes) else {}

    return rule


def test_unreadable_topic_that_is_removed_by_hand_takes_its_marker_along() -> None:
    world = cluster()
    world.write(Create(paths.topic("broken"), b"?"))
    world.mark("broken")
    world.run()
    assert world.exists(paths.delete_topic("broken"))
    world.write(Delete(paths.topic("broken")))
    world.run()
    assert is_gone(world, "broken")


def test_topic_that_may_not_be_read_is_neither_forgotten_nor_is_its_deletion() -> None:
    world = with_topic(cluster(), "secret", (1, 2))
    world.mark("secret")
    world.refusals[paths.topic("secret")] = ZkError.NO_AUTH
    world.crash()
    world.elect()
    assert world.context.cluster.quarantined_topics["secret"].reason == f"reading it failed with {NO_AUTH}"
    assert world.exists(paths.delete_topic("secret"))
    assert world.exists(paths.config_topic("secret"))


@pytest.mark.parametrize("name", ["with space", "ünïcode", "x" * 250, "a:b"])
def test_topic_of_an_illegal_name_is_set_aside_whatever_its_znode_says(name: str) -> None:
    world = cluster()
    world.create_topic(name, (1, 2))
    world.create_topic("sound", (1, 2))
    world.run()
    assert list(world.context.cluster.quarantined_topics) == [name]
    assert not world.exists(paths.topic_partitions(name))
    assert led(world, "sound") == (1, 0, (1, 2))


def test_malformed_broker_counts_as_absent_until_it_is_repaired() -> None:
    world = cluster(1)
    session = world.zookeeper.open_session()
    world.zookeeper.multi(session, [Create(paths.broker_id(2), b"{}", ephemeral=True)])
    with_topic(world, "orders", (1, 2))
    assert list(world.context.cluster.quarantined_brokers) == [2]
    assert led(world, "orders") == (1, 0, (1,))
    sound = world.read(paths.broker_id(1))
    assert sound is not None
    world.write(SetData(paths.broker_id(2), sound.data, ANY_VERSION))
    world.run()
    assert list(world.context.cluster.brokers) == [1, 2]
    assert not world.context.cluster.quarantined_brokers


def test_broker_whose_registration_may_not_be_read_is_shown() -> None:
    world = cluster(1)
    world.refusals[paths.broker_id(2)] = ZkError.NO_AUTH
    world.start_broker(2)
    world.run()
    assert world.context.cluster.quarantined_brokers[BrokerId(2)].reason == f"reading it failed with {NO_AUTH}"


def test_a_child_of_the_brokers_that_is_no_number_is_nobodys() -> None:
    world = cluster(1)
    world.write(Create(paths.broker_ids() + "/visitor", b"{}"))
    world.run()
    assert list(world.context.cluster.brokers) == [1]
    assert role(world) is Role.ACTIVE


def test_malformed_state_is_not_overwritten_and_is_removed_with_its_topic() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (1, 2))
    world.write(SetData(paths.partition_state("orders", 0), b"no state", ANY_VERSION))
    world.crash()
    world.elect()
    assert refusals(world, "partition/orders-0")
    assert state(world, "orders", 0) == "no state"
    assert led(world, "orders", 1) == (1, 0, (1, 2))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


@pytest.mark.parametrize("path", [paths.broker_topics(), paths.broker_ids(), paths.delete_topics(), paths.controller()])
def test_an_error_where_the_cluster_is_listed_is_a_fault_and_no_empty_cluster(path: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.crash()
    world.refusals[path] = ZkError.NO_AUTH
    world.elect()
    assert role(world) is Role.BACKING_OFF
    assert [told for told in world.take_story().splitlines() if "leader -2" in told] == []
    world.refusals.clear()
    world.advance(60_000)
    assert role(world) is Role.ACTIVE
    assert led(world, "orders") == (1, 0, (1, 2, 3))


@pytest.mark.parametrize("path", [paths.broker_topics(), paths.broker_ids(), paths.delete_topics()])
def test_an_error_while_leading_takes_no_topic_and_no_broker_away(path: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.refusals[path] = ZkError.OTHER
    world.create_topic("another", (1, 2))
    world.start_broker(4)
    world.mark("another")
    world.run()
    story = world.take_story()
    assert role(world) is Role.BACKING_OFF
    assert "orders-0 leader -2" not in story
    assert "orders/partitions/0/state" not in story


@pytest.mark.parametrize("path", [paths.controller(), paths.controller_epoch()])
def test_who_may_not_write_the_election_says_so_once_and_asks_again_from_time_to_time(path: str) -> None:
    world = OneController()
    world.meanwhile = refusing_writes(world, path)
    world.elect()
    assert role(world) is Role.REFUSED
    (why,) = refusals(world, "cluster")
    assert "NO_AUTH, since its access list" in why
    world.advance(3 * world.context.config.stand_back_off_max_ms)
    assert refusals(world, "cluster") == [why]
    assert not world.renewals
    assert role(world) is Role.REFUSED


def test_topic_whose_id_may_not_be_written_is_served_without_one() -> None:
    world = cluster()

    world.meanwhile = refusing_writes(world, paths.topic("orders"))
    world.create_topic("orders", (1, 2))
    world.run()
    assert refusals(world, "topic/orders") == [NO_AUTH]
    assert led(world, "orders") == (1, 0, (1, 2))
    assert world.context.cluster.topics["orders"].id is None


def test_topic_rewritten_while_it_is_given_an_id_is_read_again_and_created_once() -> None:
    world = cluster()
    rewritten: list[str] = []

    def rewrite(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and not rewritten:
            rewritten.append("once")
            znode = znodes.TopicZnode({0: ReplicaAssignment((3, 2)), 1: ReplicaAssignment((2, 3))})
            world.write(SetData(paths.topic("orders"), znodes.encode_topic(znode), ANY_VERSION))

    world.meanwhile = rewrite
    world.create_topic("orders", (1, 2))
    world.run()
    assert rewritten
    assert led(world, "orders", 0) == (3, 0, (3, 2))
    assert led(world, "orders", 1) == (2, 0, (2, 3))
    assert world.context.cluster.topics["orders"].id is not None
    assert refusals(world, "partition/orders-0") == []
    assert world.take_story().count("LeaderAndIsr: ") == 1


def test_unreadable_topic_config_allows_no_unclean_election() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    world.refusals[paths.config_topic("orders")] = ZkError.NO_AUTH
    world.stop_broker(1)
    world.start_broker(2)
    world.run()
    assert refusals(world, "topic/orders")[0] == f"reading its config: {NO_AUTH}"
    assert led(world, "orders") == (-1, 2, (1,))


@pytest.mark.parametrize("when", ["while leading", "at failover"])
def test_topics_under_the_zero_id_are_given_ids_of_their_own_and_deleted(when: str) -> None:
    world = cluster()
    if when == "at failover":
        world.crash()
    world.create_topic("one", (1, 2), topic_id=ZERO_TOPIC_ID)
    world.create_topic("other", (2, 3), topic_id=ZERO_TOPIC_ID)
    if when == "at failover":
        world.elect()
    world.run()
    ids = {world.context.cluster.topics[name].id for name in ("one", "other")}
    assert len(ids - {None, ZERO_TOPIC_ID}) == 2

    for name in ("one", "other"):
        world.mark(name)
    world.run()
    assert is_gone(world, "one")
    assert is_gone(world, "other")


def test_reassignments_of_an_unreadable_topic_go_with_it() -> None:
    world = cluster()
    world.write(Create(paths.topic("broken"), b"?"))
    world.run()
    target = {TopicPartition("broken", 0): (1, 3)}
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment(target)))
    world.run()
    assert world.exists(paths.reassign_partitions()), "it waits for the repair"
    world.write(Delete(paths.topic("broken")))
    world.run()
    assert not world.exists(paths.reassign_partitions())
