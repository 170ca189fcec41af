"""How scenarios have partitions moved through `/admin/reassign_partitions`, and look at what comes of it."""

from __future__ import annotations

from lethe.protocol.kafka.to_controller import AlterPartition, AlterPartitionRequest, AlterPartitionTopic
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from tests.fakes.one_controller import OneController

PATH = paths.reassign_partitions()


def ask(world: OneController, **targets: tuple[int, ...]) -> None:
    """Ask for replicas of partitions named as `orders_0`, in a new znode or in place of what is there."""
    asked = {}
    for name, replicas in targets.items():
        topic, number = name.rsplit("_", 1)
        asked[TopicPartition(topic, int(number))] = replicas
    data = znodes.encode_reassignment(asked)
    world.write(SetData(PATH, data, ANY_VERSION) if world.exists(PATH) else Create(PATH, data))
    world.run()


def catch_up(world: OneController, name: str, number: int, *isr: int) -> None:
    """The leader asks for this ISR."""
    partition = world.context.cluster.topics[name].partitions[number]
    state = partition.leader_and_isr
    assert state is not None
    row = AlterPartition(number, state.leader_epoch, isr, state.recovery_state, state.partition_epoch)
    leader = world.context.cluster.brokers[BrokerId(state.leader)]
    request = AlterPartitionRequest(leader.id, leader.epoch, (AlterPartitionTopic(name, None, (row,)),))
    world.ask(request, 1)
    world.run()


def assignment(world: OneController, name: str, number: int = 0) -> ReplicaAssignment:
    """As the topic's znode has it."""
    found = world.read(paths.topic(name))
    assert found is not None
    return znodes.decode_topic(name, found.data).assignments[number]


def asked(world: OneController) -> dict[TopicPartition, tuple[int, ...]] | None:
    """The entries of the znode; None: it does not exist."""
    found = world.read(PATH)
    return None if found is None else znodes.decode_reassignment(found.data)
