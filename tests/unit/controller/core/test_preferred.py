"""Preferred leaders: asked for by a znode, and taken back from time to time."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import ReadZnodes, RebalanceLeaders, WriteZnodes
from lethe.controller.core.events import TimerFired
from lethe.controller.core.mutation import queue_deletion, set_leader_and_isr
from lethe.controller.core.preferred import FIRST_REBALANCE_MS
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, SetData, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, led, refusals, role, text, with_topic
from tests.unit.controller.core.stage import EPOCH, NOW_MS, add_topic, feed, leading, write_in

T0 = TopicPartition("t", 0)
PATH = paths.preferred_replica_election()


def ask(world: OneController, *partitions: TopicPartition) -> None:
    world.write(Create(PATH, znodes.encode_preferred_replica_election(partitions)))
    world.run()


def bounced(world: OneController, broker: int, *names: str) -> OneController:
    """The broker goes and comes back; whoever leads then takes it into the ISR again."""
    world.stop_broker(broker)
    world.run()
    world.start_broker(broker)
    world.run()
    for name in names or ("t",):
        leader_and_isr = world.context.cluster.topics[name].partitions[0].leader_and_isr
        assert leader_and_isr is not None
        isr = (*leader_and_isr.isr, broker)
        state = LeaderAndIsr(leader_and_isr.leader, leader_and_isr.leader_epoch, isr, leader_and_isr.controller_epoch)
        world.write(SetData(paths.partition_state(name, 0), znodes.encode_state(state), leader_and_isr.partition_epoch))
        notification = znodes.encode_isr_change([TopicPartition(name, 0)])
        world.write(Create(paths.isr_change_notification(), notification, sequential=True))
    world.run()
    world.take_story()
    return world


# --- asked for ----------------------------------------------------------------------------------------------------


def test_preferred_replica_leader_election() -> None:
    world = bounced(with_topic(cluster(), "t", (1, 2)), 1)
    assert led(world, "t") == (2, 1, (2, 1))
    ask(world, T0)
    assert led(world, "t") == (1, 2, (2, 1))
    assert not world.exists(PATH)
    assert world.take_story() == text(
        """
        * PreferredElectionsRequested
        zk set /brokers/topics/t/partitions/0/state at version 2: leader 1 epoch 2 isr 2,1
        -> 1,2 LeaderAndIsr: t-0 leader 1 epoch 2 isr 2,1
        -> 2,3,1 UpdateMetadata brokers 2,3,1: t-0 leader 1 epoch 2 isr 2,1
        zk delete /admin/preferred_replica_election
        <- 1,2 LeaderAndIsr ok
        <- 2,3,1 UpdateMetadata ok
        * PreferredElectionsRequested
        """
    )


def test_back_to_back_preferred_replica_leader_elections() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    for epoch in (2, 4):
        ask(bounced(world, 1), T0)
        assert led(world, "t") == (1, epoch, (2, 1))
        assert not world.exists(PATH)


def test_preferred_replica_leader_election_with_offline_preferred_replica() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.stop_broker(1)
    world.run()
    ask(world, T0)
    assert led(world, "t") == (2, 1, (2,))
    assert not world.exists(PATH)
    assert refusals(world, "topic/t") == ["the preferred replica is not both live and in the ISR"]


def test_what_makes_no_sense_is_refused_by_name_and_the_rest_is_elected_in_one_write() -> None:
    world = with_topic(with_topic(with_topic(cluster(), "t", (1, 2)), "right", (2, 3)), "doomed", (3, 2))
    bounced(world, 1)
    world.silent[3] = None
    world.mark("doomed")
    world.run()
    gone, doomed, right = (TopicPartition(name, 0) for name in ("gone", "doomed", "right"))
    ask(world, gone, doomed, right, T0, TopicPartition("t", 9))
    assert led(world, "t") == (1, 2, (2, 1))
    assert led(world, "right") == (2, 0, (2, 3))
    assert refusals(world, "topic/gone") == refusals(world, "topic/t") == ["there is no such partition"]
    assert refusals(world, "topic/doomed") == ["the topic is being deleted"]
    assert not world.exists(PATH)


@pytest.mark.parametrize("data", [None, b"", b"{no json", b'{"version":1}'])
def test_request_that_cannot_be_understood_is_recorded_and_removed(data: bytes | None) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.write(Create(PATH, data))
    world.run()
    assert not world.exists(PATH)
    assert len(refusals(world, "cluster")) == 1
    ask(bounced(world, 1), T0)
    assert led(world, "t") == (1, 2, (2, 1))


def test_request_written_over_another_one_in_the_meantime_is_not_lost() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "u", (1, 2))
    bounced(world, 1, "t", "u")
    other = znodes.encode_preferred_replica_election([TopicPartition("u", 0)])
    world.meanwhile = lambda effect: overwrite()

    def overwrite() -> None:
        if led(world, "t") == (1, 2, (2, 1)) and (found := world.read(PATH)) and found.stat.version == 0:
            world.write(SetData(PATH, other, 0))

    ask(world, T0)
    assert (led(world, "t"), led(world, "u")) == ((1, 2, (2, 1)), (1, 2, (2, 1)))
    assert not world.exists(PATH)


def test_request_that_cannot_be_removed_is_named_with_the_remedy_and_not_tried_for_ever() -> None:
    world = with_topic(cluster(), "t", (1, 2))

    def forbid(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.refusals[PATH] = ZkError.NO_AUTH

    data = znodes.encode_preferred_replica_election([T0])
    world.meanwhile = lambda effect: forbid(effect)
    world.write(Create(PATH, data))
    world.run()
    assert refusals(world, "cluster") == [f"{NO_AUTH}; remove it by hand"]


def test_request_that_was_written_while_nobody_led_is_done_when_taking_over() -> None:
    world = bounced(with_topic(cluster(), "t", (1, 2)), 1)
    world.crash()
    world.write(Create(PATH, znodes.encode_preferred_replica_election([T0])))
    world.elect()
    assert led(world, "t") == (1, 2, (2, 1))
    assert not world.exists(PATH)


def test_controller_move_on_preferred_replica_election() -> None:
    world = bounced(with_topic(cluster(), "t", (1, 2)), 1)

    def move(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.fence is not None and effect.fence.version == 1:
            theirs = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), world.now_ms))
            world.write(
                Delete(paths.controller()),
                Create(paths.controller(), theirs, ephemeral=True),
                SetData(paths.controller_epoch(), b"2", 1),
            )
            world.meanwhile = lambda _: None

    world.meanwhile = move
    ask(world, T0)
    assert role(world) is Role.STANDING_BY
    assert world.exists(PATH), "it is left to the one who leads now"
    found = world.read(paths.partition_state("t", 0))
    assert found is not None
    assert found.stat.version == 2


# --- from time to time --------------------------------------------------------------------------------------------


def test_auto_preferred_replica_leader_election() -> None:
    world = cluster(world=OneController(auto_leader_rebalance_enable=True))
    bounced(with_topic(world, "t", (1, 2)), 1)
    assert led(world, "t") == (2, 1, (2, 1))
    world.advance(FIRST_REBALANCE_MS)
    assert led(world, "t") == (1, 2, (2, 1))
    bounced(world, 1)
    world.advance(299_999)
    assert led(world, "t") == (2, 3, (2, 1))
    world.advance(1)
    assert led(world, "t") == (1, 4, (2, 1))


def test_rebalance_is_not_scheduled_where_it_is_switched_off() -> None:
    world = bounced(with_topic(cluster(), "t", (1, 2)), 1)
    assert RebalanceLeaders() not in world.context.timers
    world.advance(1_000_000)
    assert led(world, "t") == (2, 1, (2, 1))


def test_auto_preferred_replica_leader_election_with_other_reassigning_partitions() -> None:
    world = cluster(world=OneController(auto_leader_rebalance_enable=True))
    bounced(with_topic(with_topic(world, "t", (1, 2)), "stuck", (2,)), 1)
    targets = {TopicPartition("stuck", 0): (9,)}
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment(targets)))
    world.run()
    assert list(world.context.cluster.reassignments) == [TopicPartition("stuck", 0)]
    world.advance(FIRST_REBALANCE_MS)
    assert led(world, "t") == (1, 2, (2, 1))
    assert list(world.context.cluster.reassignments) == [TopicPartition("stuck", 0)]


def imbalanced(wrong: int, right: int) -> Context:
    """So many partitions that prefer broker 1 and are led by 2, and so many that are led by 1."""
    context = leading(1, 2)
    add_topic(
        context,
        "t",
        [(1, 2)] * (wrong + right),
        led=True,
        partition_state=PartitionState.ONLINE,
        replica_state=ReplicaState.ONLINE,
    )
    for number in range(wrong):
        set_leader_and_isr(context.cluster, TopicPartition("t", number), LeaderAndIsr(2, 1, (1, 2), EPOCH, 1))
    context.timers[RebalanceLeaders()] = NOW_MS
    return context


@pytest.mark.parametrize("wrong, right, moved", [(1, 9, 0), (1, 8, 1), (2, 8, 2), (10, 0, 10), (0, 10, 0)])
def test_leaders_go_back_where_more_than_the_percentage_is_led_by_another(wrong: int, right: int, moved: int) -> None:
    context = imbalanced(wrong, right)
    effects = feed(context, TimerFired(RebalanceLeaders()))
    assert len(write_in(effects).groups if context.awaiting_result else ()) == moved
    assert context.timers[RebalanceLeaders()] == NOW_MS + 300_000


def test_only_those_go_back_whose_preferred_replica_can_lead() -> None:
    context = imbalanced(3, 0)
    set_leader_and_isr(context.cluster, TopicPartition("t", 0), LeaderAndIsr(2, 1, (2,), EPOCH, 1))
    context.cluster.offline_dirs[BrokerId(1)] = {TopicPartition("t", 1): None}
    effects = feed(context, TimerFired(RebalanceLeaders()))
    assert [group[0].path for group in write_in(effects).groups] == [paths.partition_state("t", 2)]


def test_topics_that_are_being_deleted_do_not_count() -> None:
    context = imbalanced(5, 0)
    queue_deletion(context.cluster, "t", 0)
    feed(context, TimerFired(RebalanceLeaders()))
    assert not context.awaiting_result


def test_rebalance_is_silent_where_there_is_nothing_to_do() -> None:
    world = with_topic(cluster(world=OneController(auto_leader_rebalance_enable=True)), "t", (1, 2))
    world.advance(FIRST_REBALANCE_MS)
    assert world.take_story() == "* TimerFired RebalanceLeaders"
    assert world.recorded(EventRecordType.REFUSAL) == []
