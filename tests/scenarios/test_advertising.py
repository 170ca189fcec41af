"""Stories of a controller that brokers take for one of them: what they place on it, and its registration."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.events import ResignationRequested
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import LeaderAndIsrRequest, UpdateMetadataRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.fakes.one_controller import CONTROLLER_ID, Loss, OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, role, text

SELF = int(CONTROLLER_ID)
HERE = (Endpoint("PLAINTEXT", "127.0.0.1", 9999),)
OLD = InterBrokerProtocol.parse("2.5")
REGISTRATION = paths.broker_id(SELF)


def listed(*brokers: int, ibp: InterBrokerProtocol = LATEST) -> OneController:
    return cluster(*brokers, world=OneController(ibp=ibp, endpoints=HERE))


def replicas(world: OneController, topic: str) -> list[tuple[int, ...]]:
    """As the topic's znode has them."""
    found = world.read(paths.topic(topic))
    assert found is not None
    return [each.replicas for each in znodes.decode_topic(topic, found.data).assignments.values()]


def hosts(world: OneController) -> set[int]:
    """Who was told by LeaderAndIsr to host anything, or named as a replica."""
    named: set[int] = set()
    for send in world.sent:
        if isinstance(send.request, LeaderAndIsrRequest):
            named.update(r for topic in send.request.topics for row in topic.partitions for r in row.replicas)
    return named


# --- what brokers place on it -------------------------------------------------------------------------------------


def test_a_new_topic_is_moved_before_anybody_is_told_of_it() -> None:
    world = listed()
    world.create_topic("orders", (SELF,), (SELF, 2))
    world.run()
    assert world.take_story() == text(
        """
        * TopicsChanged
        zk set /brokers/topics/orders at version 0
        zk set /brokers/topics/orders at version 1
        zk create /brokers/topics/orders/partitions
        zk create /brokers/topics/orders/partitions/0
        zk create /brokers/topics/orders/partitions/0/state: leader 3 epoch 0 isr 3
        zk create /brokers/topics/orders/partitions/1
        zk create /brokers/topics/orders/partitions/1/state: leader 1 epoch 0 isr 1,2
        -> 3 LeaderAndIsr: orders-0 leader 3 epoch 0 isr 3 new
        -> 1,2 LeaderAndIsr: orders-1 leader 1 epoch 0 isr 1,2 new
        -> 1,2,3 UpdateMetadata brokers 1,2,3,1000: orders-0 leader 3 epoch 0 isr 3, orders-1 leader 1 epoch 0 isr 1,2
        <- 3,1,2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        """
    )
    assert replicas(world, "orders") == [(3,), (1, 2)]
    assert SELF not in hosts(world)


def test_added_partitions_are_moved_too() -> None:
    world = listed()
    world.create_topic("orders", (1,))
    world.run()
    found = world.read(paths.topic("orders"))
    assert found is not None
    topic = znodes.decode_topic("orders", found.data)
    more = {**topic.assignments, 1: ReplicaAssignment((SELF, 1))}
    world.write(SetData(paths.topic("orders"), znodes.encode_topic(znodes.TopicZnode(more, topic.topic_id)), -1))
    world.run()
    (_, (one, two)) = replicas(world, "orders")
    assert (one in (2, 3), two) == (True, 1)
    assert led(world, "orders", 1) == (one, 0, (one, two))
    assert SELF not in hosts(world)


def test_a_topic_that_changes_while_it_is_being_moved_is_read_again() -> None:
    world = listed()
    topic_id = None
    once = iter([True])

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        nonlocal topic_id
        if isinstance(effect, WriteZnodes) and effect.groups[0][0].path == paths.topic("orders"):
            topic_id = world.context.cluster.topics["orders"].id
            if topic_id is not None and next(once, False):
                znode = znodes.TopicZnode({0: ReplicaAssignment((SELF, 2)), 1: ReplicaAssignment((SELF, 1))}, topic_id)
                world.write(SetData(paths.topic("orders"), znodes.encode_topic(znode), ANY_VERSION))

    world.meanwhile = meanwhile
    world.create_topic("orders", (SELF, 2))
    world.run()
    found = replicas(world, "orders")
    assert len(found) == 2
    assert all(SELF not in each and len(set(each)) == 2 for each in found)
    assert world.context.cluster.topics["orders"].id == topic_id


def test_what_another_controller_was_quicker_with_is_reassigned() -> None:
    world = OneController(endpoints=HERE)
    world.create_topic("orders", (1, SELF))
    state = LeaderAndIsr(1, 4, (1,), 7)
    world.write(
        Create(paths.topic_partitions("orders"), None),
        Create(paths.topic_partition("orders", 0), None),
        Create(paths.partition_state("orders", 0), znodes.encode_state(state)),
    )
    for broker in (1, 2):
        world.start_broker(broker)
    world.elect()
    assert replicas(world, "orders") == [(1, 2, SELF)]
    leader_and_isr = world.context.cluster.topics["orders"].partitions[0].leader_and_isr
    assert leader_and_isr is not None
    wanted = AlterPartition(0, leader_and_isr.leader_epoch, (1, 2), 0, leader_and_isr.partition_epoch)
    topic_id = world.context.cluster.topics["orders"].id
    request = AlterPartitionRequest(
        BrokerId(1), world.context.cluster.brokers[BrokerId(1)].epoch, (AlterPartitionTopic(None, topic_id, (wanted,)),)
    )
    answer = world.ask(request)
    assert isinstance(answer, AlterPartitionResponse)
    assert answer.error == ErrorCode.NONE
    assert replicas(world, "orders") == [(1, 2)]
    assert world.context.cluster.reassignments == {}


def test_a_replica_is_moved_off_a_controller_once_although_partitions_were_added_meanwhile() -> None:
    world = OneController(endpoints=HERE)
    world.elect()
    world.create_topic("orders", (SELF,))
    world.run()
    path = paths.topic("orders")
    chosen: list[tuple[int, ...]] = []

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        for write in (group[-1] for group in effect.groups) if isinstance(effect, WriteZnodes) else ():
            if isinstance(write, SetData) and write.path == path:
                target = znodes.decode_topic("orders", write.data).assignments[0].target
                if not chosen:
                    # The broker that is chosen first gets most of the partitions that are added.
                    topic_id = world.context.cluster.topics["orders"].id
                    more = {n: ReplicaAssignment(target) for n in range(1, 4)} | {0: ReplicaAssignment((SELF,))}
                    world.write(SetData(path, znodes.encode_topic(znodes.TopicZnode(more, topic_id)), ANY_VERSION))
                if target not in chosen:
                    chosen.append(target)

    world.meanwhile = meanwhile
    for broker in (1, 2):
        world.start_broker(broker)
    world.run()
    assert len(chosen) == 2, "once before the partitions were added, and once after that"
    assert replicas(world, "orders") == [chosen[1], *[chosen[0]] * 3]
    assert world.context.cluster.reassignments == {}


def test_where_every_broker_has_a_replica_the_next_broker_gets_the_controllers() -> None:
    world = listed(1)
    world.create_topic("orders", (SELF, 1))
    world.run()
    assert replicas(world, "orders") == [(1, SELF)]
    assert led(world, "orders") == (1, 0, (1,))
    # Nothing holds up the only broker that has a replica.
    epoch = world.context.cluster.brokers[BrokerId(1)].epoch
    assert world.ask(ControlledShutdownRequest(BrokerId(1), epoch)) == ControlledShutdownResponse(0)
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.start_broker(2)
    world.run()
    assert world.context.cluster.topics["orders"].partitions[0].assignment.target == (1, 2)


def test_controller_that_a_leader_counts_as_in_sync_does_not_outlive_the_leader_in_the_isr() -> None:
    """An agent cannot tell it from a broker (seed 4002119). It has no records: nobody could ever lead again."""
    world = listed(1)
    world.create_topic("orders", (1, SELF))
    world.run()
    state = LeaderAndIsr(1, 0, (1, SELF), world.context.cluster.epoch, 0)
    world.write(SetData(paths.partition_state("orders", 0), znodes.encode_state(state), ANY_VERSION))
    changes = znodes.encode_isr_change([TopicPartition("orders", 0)])
    world.write(Create(paths.isr_change_notification(), changes, sequential=True))
    world.run()
    assert led(world, "orders") == (1, 0, (1, SELF))
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (-1, 1, (1,))
    world.start_broker(1)
    world.run()
    assert led(world, "orders") == (1, 2, (1,))


def test_a_topic_on_nothing_but_the_controller_waits_for_the_first_broker() -> None:
    world = OneController(endpoints=HERE)
    world.elect()
    world.create_topic("orders", (SELF,))
    world.run()
    assert replicas(world, "orders") == [(SELF,)]
    world.start_broker(2)
    world.run()
    found = led(world, "orders")
    assert found is not None
    assert (found[0], found[2]) == (2, (2,))
    assert replicas(world, "orders") == [(2,)]


def test_a_deletion_does_not_wait_for_the_controller() -> None:
    world = listed(1)
    world.create_topic("orders", (1, SELF))
    world.run()
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    (unasked,) = [record.data for record in world.recorded(EventRecordType.ACK) if "why" in record.data]
    assert (unasked["broker"], unasked["partitions"]) == (SELF, "0")
    asked = [record.data["broker"] for record in world.recorded(EventRecordType.ACK) if "result" in record.data]
    assert asked == [1]


def test_a_topic_on_nothing_but_the_controller_is_deleted_without_a_broker() -> None:
    world = OneController(endpoints=HERE)
    world.elect()
    world.create_topic("orders", (SELF,))
    world.run()
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


def test_the_next_controller_knows_whose_replicas_they_are() -> None:
    """The first one is dead before it has moved them, and the next is a guest under another id."""
    world = listed()
    world.crash()
    world.context.config = type(world.context.config)(BrokerId(1001), LATEST)
    world.create_topic("orders", (SELF,), (2, SELF))
    world.elect()
    assert all(SELF not in each for each in replicas(world, "orders"))
    assert world.context.role is Role.ACTIVE


def test_the_id_of_a_broker_that_lives_is_a_brokers() -> None:
    world = listed()
    world.crash()
    world.context.config = type(world.context.config)(BrokerId(1001), LATEST)
    world.start_broker(SELF)
    world.create_topic("orders", (SELF, 1))
    world.elect()
    assert replicas(world, "orders") == [(SELF, 1)]


def test_nobody_is_reassigned_to_a_controller() -> None:
    world = listed()
    world.create_topic("orders", (1,))
    world.run()
    asked = znodes.encode_reassignment({next(world.context.cluster.all_partitions())[0]: (1, SELF)})
    world.write(Create(paths.reassign_partitions(), asked))
    world.run()
    assert refusals(world, "partition/orders-0") == [f"{SELF} is a controller, which holds no replicas"]
    assert not world.exists(paths.reassign_partitions())


def test_the_next_broker_is_told_of_its_rack_and_listeners() -> None:
    world = OneController(endpoints=HERE)
    world.start_broker(1, rack="a", listeners=["PLAINTEXT:PLAINTEXT", "SECURE:SSL"])
    world.elect()
    told = [send.request for send in world.sent if isinstance(send.request, UpdateMetadataRequest)][-1]
    (self_,) = [each for each in told.live_brokers if each.id == SELF]
    assert (self_.rack, [e.listener for e in self_.endpoints]) == ("a", ["PLAINTEXT", "SECURE"])
    assert {e.port for e in self_.endpoints} == {9999}


# --- the registration that brokers up to 2.8 look for -------------------------------------------------------------


def test_brokers_of_3_0_and_later_need_no_registration() -> None:
    world = listed()
    assert not world.exists(REGISTRATION)
    assert world.exists(paths.controller_known(SELF))


def test_it_is_registered_while_it_leads_older_brokers() -> None:
    world = listed(ibp=OLD)
    found = world.read(REGISTRATION)
    assert found is not None
    assert found.stat.ephemeral_owner == world.session
    assert znodes.is_controller_registration(found.data)
    assert [e.listener for e in znodes.decode_broker(SELF, 1, found.data).endpoints] == ["PLAINTEXT"]
    assert list(world.context.cluster.brokers) == [1, 2, 3]
    assert world.context.cluster.quarantined_brokers == {}


def test_the_registration_follows_the_brokers_listeners() -> None:
    world = listed(1, ibp=OLD)
    world.start_broker(2, listeners=["PLAINTEXT:PLAINTEXT", "SECURE:SSL"])
    world.run()
    found = world.read(REGISTRATION)
    assert found is not None
    assert [e.listener for e in znodes.decode_broker(SELF, 1, found.data).endpoints] == ["PLAINTEXT", "SECURE"]
    assert found.stat.version == 1
    for broker in (1, 2):
        world.stop_broker(broker)
    world.run()
    assert not world.exists(REGISTRATION)
    world.start_broker(1)
    world.run()
    assert world.exists(REGISTRATION)


def test_it_goes_in_the_multi_that_gives_control_up() -> None:
    world = listed(ibp=OLD)
    world.take_story()
    world.feed(ResignationRequested("asked"))
    world.run()
    story = world.take_story().splitlines()
    at = story.index(f"zk delete {REGISTRATION}")
    assert story[at + 1] == "zk delete /controller"
    assert not world.exists(REGISTRATION)
    assert not world.exists(paths.controller())


@pytest.mark.parametrize("path", [REGISTRATION, "/controller"])
def test_giving_up_succeeds_although_somebody_has_removed_one_of_the_two(path: str) -> None:
    world = listed(ibp=OLD)

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and Delete(paths.controller(), ANY_VERSION) in effect.groups[0]:
            world.meanwhile = lambda _: None
            world.write(Delete(path, ANY_VERSION))

    world.meanwhile = meanwhile
    world.feed(ResignationRequested("asked"))
    world.run()
    assert not world.exists(paths.controller())
    assert world.context.role is Role.BACKING_OFF
    assert not world.exists(REGISTRATION)


def test_who_loses_control_and_keeps_the_session_takes_the_registration_away() -> None:
    world = listed(ibp=OLD)
    rival = world.zookeeper.open_session()
    epoch = world.read(paths.controller_epoch())
    assert epoch is not None
    other = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), 1))
    world.zookeeper.multi(
        rival,
        [
            Delete(paths.controller(), ANY_VERSION),
            Create(paths.controller(), other, ephemeral=True),
            SetData(paths.controller_epoch(), znodes.encode_controller_epoch(2), epoch.stat.version),
        ],
    )
    world.run()
    assert world.context.role is Role.STANDING_BY
    assert not world.exists(REGISTRATION)
    assert world.context.cluster.registered is None


def test_a_registration_of_an_earlier_session_is_replaced() -> None:
    world = OneController(ibp=OLD, endpoints=HERE)
    earlier = world.zookeeper.open_session()
    data = znodes.encode_broker(
        type(listed(1).context.cluster.brokers[BrokerId(1)])(CONTROLLER_ID, BrokerEpoch(-1), HERE),
        timestamp_ms=1,
        is_controller=True,
    )
    world.zookeeper.multi(earlier, [Create(REGISTRATION, data, ephemeral=True)])
    cluster(1, world=world)
    found = world.read(REGISTRATION)
    assert found is not None
    assert found.stat.ephemeral_owner == world.session


def test_a_broker_under_its_id_is_left_alone_and_shown() -> None:
    world = OneController(ibp=OLD, endpoints=HERE)
    world.start_broker(SELF)
    cluster(1, world=world)
    found = world.read(REGISTRATION)
    assert found is not None
    assert not znodes.is_controller_registration(found.data)
    assert list(world.context.cluster.quarantined_brokers) == [SELF]
    assert "give one of the two another broker.id" in refusals(world, "cluster")[0]


def test_a_lost_reply_to_the_registration_gives_the_session_up_and_it_stands_again() -> None:
    world = OneController(ibp=OLD, endpoints=HERE)
    world.start_broker(1)
    lost = iter([Loss.APPLIED])
    world.losing = lambda write: next(lost, None) if write.groups[0][0].path == REGISTRATION else None
    world.elect()
    assert role(world) is Role.BACKING_OFF
    assert not world.exists(REGISTRATION)
    world.advance(60_000)
    assert role(world) is Role.ACTIVE
    found = world.read(REGISTRATION)
    assert found is not None
    assert found.stat.ephemeral_owner == world.session
