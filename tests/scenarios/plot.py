"""What scenarios begin with, and how their stories are compared."""

from __future__ import annotations

import textwrap

from lethe.controller.core.context import Role
from lethe.controller.core.waiting import waits
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, SetData
from tests.fakes.one_controller import OneController


def cluster(*brokers: int, world: OneController | None = None) -> OneController:
    """A cluster with these brokers (1, 2, 3 if none are named) and an active controller; its story is still empty."""
    world = OneController() if world is None else world
    for broker in brokers or (1, 2, 3):
        world.start_broker(broker)
    world.elect()
    world.take_story()
    return world


def with_topic(world: OneController, name: str, *partitions: tuple[int, ...]) -> OneController:
    """The world with a topic more, in service; one list of brokers for each partition."""
    world.create_topic(name, *partitions)
    world.run()
    world.take_story()
    return world


def text(story: str) -> str:
    """A story as it stands in a test, without its indentation."""
    return textwrap.dedent(story).strip()


def is_gone(world: OneController, name: str) -> bool:
    """Nothing of the topic is left in ZooKeeper or in the controller's memory."""
    left = [path for path in world.zookeeper.paths() if name in path.split("/")]
    return not left and name not in world.context.cluster.topics and name not in world.context.cluster.deletions


def causes(world: OneController, name: str) -> list[tuple[int | None, int | None, str]]:
    """(partition, broker, what is waited for) of a topic that is being deleted."""
    return [(wait.partition, wait.broker, wait.waiting_for.name) for wait in waits(world.context, name)]


def refusals(world: OneController, subject: str) -> list[str]:
    """Why something was not done, for one subject."""
    return [str(f.data["why"]) for f in world.recorded(EventRecordType.REFUSAL) if f.subject == subject]


def state(world: OneController, name: str, partition: int) -> str:
    """The data of a partition's state znode."""
    found = world.read(paths.partition_state(name, partition))
    assert found is not None
    assert found.data is not None
    return found.data.decode()


def led(world: OneController, name: str, partition: int = 0) -> tuple[int, int, tuple[int, ...]] | None:
    """(leader, leader epoch, ISR) in the controller's memory."""
    leader_and_isr = world.context.cluster.topics[name].partitions[partition].leader_and_isr
    return None if leader_and_isr is None else (leader_and_isr.leader, leader_and_isr.leader_epoch, leader_and_isr.isr)


def another_is_elected(world: OneController, broker: int = 7) -> None:
    """Somebody else becomes controller; the watch tells of it only later."""
    theirs = znodes.encode_controller(znodes.ControllerZnode(BrokerId(broker), world.now_ms))
    world.write(
        Delete(paths.controller()),
        Create(paths.controller(), theirs, ephemeral=True),
        SetData(paths.controller_epoch(), b"2", 1),
    )


def another_is_elected_meanwhile(world: OneController, broker: int = 7) -> None:
    """The same, before the controller's next read or write."""
    left = [None]

    def elect(_: object) -> None:
        if left:
            left.pop()
            another_is_elected(world, broker)

    world.meanwhile = elect


def role(world: OneController) -> Role:
    """What the controller is just now."""
    return world.context.role
