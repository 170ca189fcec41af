"""Deletions that end without absent brokers: what these owe is written before the topic's znodes go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.removal import GROUPS_AT_ONCE
from lethe.controller.core.slices import SLICES_AT_ONCE
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.waiting import all_rows
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import DeletionOrders, OfflineReplicas, encode_deletion_marker
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, consent, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, refusals, text, with_topic

BEFORE_IDS = InterBrokerProtocol.parse("2.5")


def owing(**settings: object) -> OneController:
    world = OneController(offline_replicas=OfflineReplicas.OWE, **settings)  # type: ignore[arg-type]
    return with_topic(cluster(world=world), "orders", (1, 2, 3), (3, 1, 2))


def without(world: OneController, broker: int) -> OneController:
    world.stop_broker(broker)
    world.run()
    world.take_story()
    return world


def debts(world: OneController) -> dict[str, znodes.Debt]:
    """All debts in ZooKeeper, by broker and child."""
    found: dict[str, znodes.Debt] = {}
    for path in world.zookeeper.paths():
        if path.startswith(paths.DEBTS + "/") and path.count("/") == 4:
            broker, child = path.split("/")[3:]
            node = world.read(path)
            assert node is not None
            found[f"{broker}/{child.split('@')[0]}"] = znodes.decode_debt(int(broker), child, node.data)
    return found


def write_debt(world: OneController, broker: int, name: str, created_zxid: int, topic_id: TopicId | None) -> None:
    """Write that the broker owes partition 0 of this incarnation, as an earlier controller did, with all parents."""
    for path in (paths.lethe(), paths.debts(), paths.debts_of(broker)):
        if not world.exists(path):
            world.write(Create(path, None))
    debt = znodes.Debt(topic_id, (0,), 1, world.now_ms)
    world.write(Create(paths.debt(broker, name, created_zxid), znodes.encode_debt(debt)))


def orders_of(world: OneController, name: str, orders: DeletionOrders) -> None:
    world.write(SetData(paths.delete_topic(name), encode_deletion_marker(orders), ANY_VERSION))
    world.run()


def is_away(world: OneController, name: str) -> bool:
    """Nothing of the topic is left but its debts."""
    left = [path for path in world.zookeeper.paths() if name in path.split("/")]
    return not left and name not in world.context.cluster.topics


def test_a_deletion_that_owes_ends_without_the_absent_broker_whose_debt_is_written_first() -> None:
    world = without(owing(), 3)
    topic_id = world.context.cluster.topics["orders"].id
    world.mark("orders")
    world.run()
    assert is_away(world, "orders")
    assert debts(world) == {"3/orders": znodes.Debt(topic_id, (0, 1), 1, world.now_ms)}
    (line,) = world.recorded(EventRecordType.DEBT)
    assert (line.subject, line.data["what"], line.data["broker"]) == ("topic/orders", "written", 3)
    removed = next(r for r in world.recorded(EventRecordType.DELETION_PHASE) if r.data["phase"] == "removed")
    assert removed.data["debts_of"] == "3"


def test_without_the_order_the_deletion_waits_as_ever() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(0, 3, "BROKER_TO_RETURN")]
    assert debts(world) == {}


def test_an_order_in_the_marker_is_obeyed_while_the_deletion_waits_already() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    orders_of(world, "orders", DeletionOrders(offline_replicas=OfflineReplicas.OWE))
    assert is_away(world, "orders")
    assert set(debts(world)) == {"3/orders"}


@pytest.mark.parametrize("is_late", [True, False])
def test_an_order_in_the_marker_is_obeyed_where_the_broker_fails_while_it_is_asked(*, is_late: bool) -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.answer = lambda send: None if send.broker == 3 and is_deletion(send) else consent(send)
    world.mark("orders")
    world.run()
    if is_late:
        without(world, 3)
    orders_of(world, "orders", DeletionOrders(offline_replicas=OfflineReplicas.OWE))
    if not is_late:
        without(world, 3)
    assert is_away(world, "orders")
    assert set(debts(world)) == {"3/orders"}


def test_an_order_in_a_marker_that_is_created_anew_is_obeyed() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    world.unmark("orders")
    world.run()
    orders = encode_deletion_marker(DeletionOrders(offline_replicas=OfflineReplicas.OWE))
    world.write(Create(paths.delete_topic("orders"), orders))
    world.run()
    assert is_away(world, "orders")


def test_a_marker_can_order_to_wait_where_the_controller_owes() -> None:
    world = without(owing(), 3)
    orders = encode_deletion_marker(DeletionOrders(offline_replicas=OfflineReplicas.WAIT))
    world.write(Create(paths.delete_topic("orders"), orders))
    world.run()
    assert causes(world, "orders") == [(0, 3, "BROKER_TO_RETURN"), (1, 3, "BROKER_TO_RETURN")]


def test_a_broker_that_fails_while_it_is_asked_is_owed_at_once() -> None:
    world = owing()
    world.answer = lambda send: None if send.broker == 3 and is_deletion(send) else consent(send)
    world.mark("orders")
    world.run()
    assert not is_away(world, "orders")
    without(world, 3)
    assert is_away(world, "orders")
    assert debts(world)["3/orders"].partitions == (0, 1)


def test_a_broker_that_returns_before_the_znodes_go_deletes_its_replicas_and_owes_nothing() -> None:
    world = owing()
    world.answer = lambda send: None if send.broker == 2 and is_deletion(send) else consent(send)
    without(world, 3)
    world.mark("orders")
    world.run()
    replica = PartitionReplica("orders", 0, BrokerId(3))
    assert world.context.cluster.replica_state(replica) is ReplicaState.DELETION_OWED
    assert [row.waiting_for.name for row in all_rows(world.context, "orders") if row.broker == 3] == ["TO_BE_OWED"] * 2
    world.answer = consent
    world.start_broker(3)
    world.run()
    assert world.context.cluster.replica_state(replica) is not ReplicaState.DELETION_OWED
    without(world, 2)
    assert set(debts(world)) == {"2/orders"}
    assert is_away(world, "orders")


def test_a_broker_that_returns_while_the_topic_waits_for_a_slice_deletes_its_replicas_first() -> None:
    """It has answered the tombstone and not yet the deletion when there is room for the topic's znodes to go."""
    world = without(owing(max_operations_per_group=2), 3)
    names = [f"a{number}" for number in range(SLICES_AT_ONCE)]
    for name in names:
        with_topic(world, name, (1, 2, 3), (3, 1, 2))
    world.held = []
    world.write(*(Create(paths.delete_topic(name), None) for name in (*names, "orders")))
    world.run()
    assert list(world.context.cluster.removals.waiting) == ["orders"]
    world.answer = lambda send: consent(send) if isinstance(send.request, UpdateMetadataRequest) else None
    world.take_sent()
    world.start_broker(3)
    world.run()
    unanswered = [send for send in world.take_sent() if not isinstance(send.request, UpdateMetadataRequest)]
    while world.held:
        world.release(1)
    assert all(is_away(world, name) for name in names)
    assert causes(world, "orders") == [(0, 3, "ANSWER"), (1, 3, "ANSWER")]
    assert world.exists(paths.partition_state("orders", 0))
    world.held, world.answer = None, consent
    for send in unanswered:
        world.feed(consent(send))
    world.run()
    assert is_away(world, "orders")


def test_a_broker_that_returns_after_the_tombstone_was_awaited_is_asked_all_the_same() -> None:
    world = without(owing(), 3)
    world.silent[2] = None
    world.answer = lambda send: consent(send)
    world.mark("orders")
    world.run()
    without(world, 2)
    assert is_away(world, "orders")


def test_only_an_unregistered_broker_is_owed() -> None:
    world = owing()
    world.silent[3] = None
    world.mark("orders")
    world.run()
    assert debts(world) == {}
    assert {broker for _, broker, _ in causes(world, "orders")} == {3}


def test_a_broker_whose_registration_cannot_be_read_is_waited_for() -> None:
    world = without(owing(), 3)
    world.write(Create(paths.broker_id(3), b"{"))
    world.run()
    world.mark("orders")
    world.run()
    assert [cause for _, _, cause in causes(world, "orders")] == ["REGISTRATION_UNREADABLE"] * 2


def test_the_debt_of_a_large_topic_exists_before_its_first_state_goes() -> None:
    world = owing(max_operations_per_group=4)
    without(world, 3)
    seen: list[bool] = []

    def look(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            states = [
                o for group in effect.groups for o in group if isinstance(o, Delete) and o.path.endswith("/state")
            ]
            seen.extend([bool(debts(world))] if states else [])

    world.meanwhile = look
    world.mark("orders")
    world.run()
    assert is_away(world, "orders")
    assert seen == [True]


@pytest.mark.parametrize("returns", [True, False])
def test_after_a_crash_behind_the_debts_the_next_controller_goes_on(returns: bool) -> None:
    world = without(owing(), 3)
    crashing = [True]

    def crash(effect: ReadZnodes | WriteZnodes) -> None:
        removes = isinstance(effect, WriteZnodes) and any(
            isinstance(each, Delete) and each.path == paths.topic("orders") for group in effect.groups for each in group
        )
        if removes and crashing:
            crashing.clear()
            raise ZeroDivisionError

    world.meanwhile = crash
    world.mark("orders")
    with pytest.raises(ZeroDivisionError):
        world.run()
    world.crash()
    assert set(debts(world)) == {"3/orders"}
    assert world.exists(paths.topic("orders"))
    if returns:
        world.start_broker(3)
    world.elect()
    assert is_away(world, "orders")


def test_a_partition_without_a_known_epoch_is_not_owed_where_nothing_compares_ids() -> None:
    world = OneController(ibp=BEFORE_IDS, offline_replicas=OfflineReplicas.OWE)
    with_topic(cluster(world=world), "orders", (1, 2, 3), (1, 2, 3))
    without(world, 3)
    world.crash()
    world.write(Delete(paths.partition_state("orders", 1)))
    world.mark("orders")
    world.elect()
    assert causes(world, "orders") == [(0, 3, "CANNOT_BE_OWED"), (1, 3, "CANNOT_BE_OWED")]
    world.start_broker(3)
    world.run()
    assert is_gone(world, "orders")


def test_without_ids_the_debt_has_the_highest_leader_epoch() -> None:
    world = OneController(ibp=BEFORE_IDS, offline_replicas=OfflineReplicas.OWE)
    with_topic(cluster(world=world), "orders", (1, 2), (2, 1))
    for _ in range(3):
        without(world, 1)
        world.start_broker(1)
        world.run()
    without(world, 2)
    highest = max(
        each.leader_and_isr.leader_epoch
        for each in world.context.cluster.topics["orders"].partitions.values()
        if each.leader_and_isr
    )
    world.mark("orders")
    world.run()
    assert debts(world)["2/orders"] == znodes.Debt(None, (0, 1), highest, world.now_ms)
    assert highest >= 2


def test_debts_that_cannot_be_written_keep_the_topic_and_are_tried_again() -> None:
    world = without(owing(), 3)
    world.refusals[paths.debts_of(3)] = ZkError.NO_AUTH
    world.mark("orders")
    world.run()
    assert world.exists(paths.topic("orders"))
    assert refusals(world, "topic/orders") == [f"/lethe/debts/3: {NO_AUTH}"]
    world.refusals.clear()
    world.advance(60_000)
    assert is_away(world, "orders")
    assert set(debts(world)) == {"3/orders"}


def test_topics_behind_one_whose_debts_cannot_be_written_do_not_wait_for_it() -> None:
    """Seed 11000234: the slice was full, and nobody went on with the next one."""
    world = without(without(owing(), 3), 2)
    world.context.config = replace(world.context.config, max_operations_per_group=1)
    names = [f"t{number}" for number in range(GROUPS_AT_ONCE)]
    for name in names:
        with_topic(world, name, (3,))
    with_topic(world, "z", (2,))
    world.refusals[paths.debts_of(3)] = ZkError.NO_AUTH
    for name in (*names, "z"):
        world.mark(name)
    world.run()
    assert all(world.exists(paths.topic(name)) for name in names)
    assert is_away(world, "z")


def test_orders_that_cannot_be_understood_hold_the_topic_until_they_are_written_again() -> None:
    world = owing()
    world.write(Create(paths.delete_topic("orders"), b'{"version":1,"offline_replicas":"burn"}'))
    world.run()
    assert causes(world, "orders") == [(None, None, "ORDERS")]
    orders_of(world, "orders", DeletionOrders())
    assert is_gone(world, "orders")


def test_a_debt_that_cannot_be_understood_is_set_aside_at_the_takeover() -> None:
    world = without(owing(), 3)
    world.mark("orders")
    world.run()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    world.write(SetData(path, b"{", ANY_VERSION))
    world.crash()
    world.elect()
    assert list(world.context.cluster.debts.unreadable) == [path]
    assert list(world.context.cluster.debts.all()) == []


def test_the_next_controller_has_the_same_debts_in_memory() -> None:
    world = without(owing(), 3)
    world.mark("orders")
    world.run()
    before = world.context.cluster.debts
    world.crash()
    world.elect()
    assert world.context.cluster.debts == before
    assert len(list(before.all())) == 1


def test_the_configuration_can_order_it_while_the_controller_runs() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    world.write(
        Create(paths.config_broker_default(), znodes.encode_config({"lethe.deletion.offline.replicas": "owe"})),
        Create(
            paths.config_change("0000000000"),
            znodes.encode_config_change(znodes.ConfigChange(f"brokers/{paths.DEFAULT_ENTITY}")),
        ),
    )
    world.run()
    assert is_away(world, "orders")


def test_an_order_survives_the_note_that_a_pause_writes_into_the_marker() -> None:
    world = owing()
    world.silent[2] = None
    orders = DeletionOrders(offline_replicas=OfflineReplicas.OWE)
    world.write(Create(paths.delete_topic("orders"), encode_deletion_marker(orders)))
    world.run()
    world.write(Create(paths.LETHE, None))
    world.write(Create(paths.DELETIONS_PAUSED, None))
    world.run()
    found = world.read(paths.delete_topic("orders"))
    assert found is not None
    noted = znodes.decode_deletion_marker(found.data)
    assert noted.offline_replicas is OfflineReplicas.OWE
    assert noted.begun is not None


def test_the_story_of_a_deletion_that_owes() -> None:
    world = without(with_topic(cluster(world=OneController(offline_replicas=OfflineReplicas.OWE)), "t", (1, 3)), 3)
    world.mark("t")
    world.run()
    assert world.take_story() == text(
        """
        * TopicDeletionsRequested
        -> 1,2 UpdateMetadata brokers 1,2: t-0 leader -2 offline 3
        -> 1 StopReplica: t-0 epoch -2
        -> 1 StopReplica: t-0 epoch -2 delete
        <- 1,2 UpdateMetadata ok
        <- 1 StopReplica ok
        <- 1 StopReplica ok
        zk create /lethe
        zk create /lethe/debts
        zk create /lethe/debts/3
        zk create /lethe/debts/3/t@35
        zk delete /brokers/topics/t/partitions/0/state
        zk delete /brokers/topics/t/partitions/0
        zk delete /brokers/topics/t/partitions
        zk delete /brokers/topics/t
        zk delete /config/topics/t
        zk delete /admin/delete_topics/t
        * TopicsChanged
        * TopicDeletionsRequested
        """
    )
