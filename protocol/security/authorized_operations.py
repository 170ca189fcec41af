"""Authorized operations: what a client may do to a resource, as the bit field in Kafka's answers (KIP-430).

Bit n stands for the operation with Kafka's number n. Only operations that the type of resource has are in it:

    Topic orders: Allow User:ann Read     bits 3 and 8 (Read, and the Describe that it implies): 264
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lethe.protocol.security.acls import CLUSTER_NAME, Operation, ResourceType
from lethe.protocol.security.authorizer import Action, Sender, cluster_action

_NUMBERS: Final[Mapping[Operation, int]] = MappingProxyType(
    {
        Operation.READ: 3,
        Operation.WRITE: 4,
        Operation.CREATE: 5,
        Operation.DELETE: 6,
        Operation.ALTER: 7,
        Operation.DESCRIBE: 8,
        Operation.CLUSTER_ACTION: 9,
        Operation.DESCRIBE_CONFIGS: 10,
        Operation.ALTER_CONFIGS: 11,
        Operation.IDEMPOTENT_WRITE: 12,
    }
)
_SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
            *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
        ),
        ResourceType.CLUSTER: (
            *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
            *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
        ),
    }
)


def topic_operations(sender: Sender, topic: str) -> int:
    """Return what the sender may do to the topic."""
    return _bits(sender, ResourceType.TOPIC, topic)


def cluster_operations(sender: Sender) -> int:
    """Return what the sender may do to the cluster: nothing if it may not describe it."""
    if not sender.allows(cluster_action(Operation.DESCRIBE)):
        return 0
    return _bits(sender, ResourceType.CLUSTER, CLUSTER_NAME)


def _bits(sender: Sender, resource_type: ResourceType, name: str) -> int:
    allowed = (each for each in _SUPPORTED[resource_type] if sender.allows(Action(each, resource_type, name)))
    return sum(1 << _NUMBERS[each] for each in allowed)
