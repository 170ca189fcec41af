"""Clients in scenarios: who they are, and their requests that wait for brokers."""

from __future__ import annotations

from lethe.protocol.kafka.to_controller import AdminRequest, ControllerResponse
from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import Acls, Authorizer, Client, Sender
from lethe.protocol.security.principals import Principal
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.one_controller import OneController

ANN = Principal("User", "ann")


def ann(*allowed: tuple[Operation, ResourceType, str]) -> Sender:
    """A client that may do this and nothing else; once to each resource."""
    acls = {
        ResourcePattern(resource_type, PatternType.LITERAL, name): (AclEntry(ANN, "*", operation, Permission.ALLOW),)
        for operation, resource_type, name in allowed
    }
    return Sender(Client(ANN, "127.0.0.1"), Authorizer(Acls.of(acls)))


def waiting(world: OneController, request: AdminRequest, version: int = 3) -> int:
    """Send a request that is not answered at once; its key."""
    key = world.request(request, version)
    world.run()
    assert world.replies[key] == []
    return key


def answer_to(world: OneController, key: int) -> ControllerResponse:
    """The only answer to this request."""
    (answer,) = world.replies[key]
    assert key not in world.context.cluster.unanswered
    return answer


def pause(world: OneController) -> None:
    """Deletions are paused from now on."""
    if not world.exists(paths.LETHE):
        world.write(Create(paths.LETHE, None))
    data = znodes.encode_deletions_paused(znodes.DeletionsPaused(world.now_ms, "a disk is being replaced"))
    world.write(Create(paths.deletions_paused(), data))
    world.run()


def reassign(world: OneController, name: str, target: tuple[int, ...]) -> None:
    """Partition 0 of the topic is to move there."""
    wanted = {TopicPartition(name, 0): target}
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment(wanted)))
    world.run()
