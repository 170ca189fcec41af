"""Clients in scenarios: who they are, and their requests that wait for brokers."""

from __future__ import annotations

from collections.abc import Iterable

from lethe.protocol.kafka.admin_partitions import TopicOutcome
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import AdminRequest, ControllerResponse
from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import Acls, Authorizer, Client, Sender
from lethe.protocol.security.principals import Principal
from tests.fakes.one_controller import OneController

ANN = Principal("User", "ann")
PartitionErrors = dict[str, tuple[ErrorCode, str | None]]


def ann(*allowed: tuple[Operation, ResourceType, str]) -> Sender:
    """A client that may do this and nothing else."""
    acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for operation, resource_type, name in allowed:
        resource = ResourcePattern(resource_type, PatternType.LITERAL, name)
        acls[resource] = (*acls.get(resource, ()), AclEntry(ANN, "*", operation, Permission.ALLOW))
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


def partition_errors(topics: Iterable[TopicOutcome]) -> PartitionErrors:
    """Error and message of each partition, which is named as `orders-0`."""
    return {
        f"{topic.topic}-{row.partition}": (ErrorCode(row.error), row.message)
        for topic in topics
        for row in topic.partitions
    }
