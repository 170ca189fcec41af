"""Lethe's own policy for what clients may ask for, where Kafka has `create.topic.policy.class.name`.

    setting                              request                                    refused
    -----------------------------------  -----------------------------------------  ---------------------------------
    lethe.policy.topic.names             CreateTopics                               a name that no pattern matches
    lethe.policy.partitions.max          CreateTopics, CreatePartitions             a topic that would have more
    lethe.policy.replication.factor.min  CreateTopics, AlterPartitionReassignments  fewer replicas of a partition
    lethe.policy.replication.factor.max  the same                                   more replicas of a partition
    lethe.policy.request.partitions.max  CreateTopics, CreatePartitions             a request for more new partitions
    lethe.protected.topics               DeleteTopics                               see `protection`, whoever deletes

Refused with POLICY_VIOLATION, after all other checks and with `validate_only` too, as Kafka's policies are. Topics that
are internal to Kafka are excepted, since brokers need them. A reassignment that keeps the number of replicas is never
refused: brokers must be able to leave. The policy is about requests, like Kafka's: topics that are written to ZooKeeper
are served.

    lethe.policy.topic.names=orders.*, bills-*    Topic 'tmp' is refused by lethe.policy.topic.names: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.topic_globs import matching_glob
from lethe.protocol.vocabulary import INTERNAL_TOPICS

TOPIC_NAMES: Final = "lethe.policy.topic.names"
MAX_PARTITIONS: Final = "lethe.policy.partitions.max"
MIN_REPLICATION_FACTOR: Final = "lethe.policy.replication.factor.min"
MAX_REPLICATION_FACTOR: Final = "lethe.policy.replication.factor.max"
MAX_OF_REQUEST: Final = "lethe.policy.request.partitions.max"
DEFAULT_OF_REQUEST: Final = 100_000
"""More than one topic can have; to check and assign so many takes the controller 0.5 to 2 s (measured)."""


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """0 and no names: no limit. The methods return the sentence for the client; None if the policy is kept."""

    names: tuple[str, ...] = ()
    """Patterns (`topic_globs`), of which a new topic's name must match one."""
    max_partitions: int = 0
    min_replication_factor: int = 0
    max_replication_factor: int = 0
    max_of_request: int = DEFAULT_OF_REQUEST

    def of_new_topic(self, name: str, partitions: int, replication_factor: int) -> str | None:
        if name not in INTERNAL_TOPICS and self.names and matching_glob(name, self.names) is None:
            return f"Topic '{name}' is refused by {TOPIC_NAMES}: its name matches none of {', '.join(self.names)}."
        return self.of_partitions(name, partitions) or self.of_replication_factor(name, replication_factor)

    def of_partitions(self, name: str, partitions: int) -> str | None:
        """`partitions`: how many the topic would have."""
        if name in INTERNAL_TOPICS or not 0 < self.max_partitions < partitions:
            return None
        would_have = f"Topic '{name}' would have {counted(partitions, 'partition')}"
        return f"{would_have}, and {MAX_PARTITIONS} allows at most {self.max_partitions}."

    def of_replication_factor(self, name: str, replication_factor: int) -> str | None:
        would_have = f"Topic '{name}' would have the replication factor {replication_factor}"
        if name in INTERNAL_TOPICS:
            return None
        if replication_factor < self.min_replication_factor:
            return f"{would_have}, and {MIN_REPLICATION_FACTOR} requires at least {self.min_replication_factor}."
        if 0 < self.max_replication_factor < replication_factor:
            return f"{would_have}, and {MAX_REPLICATION_FACTOR} allows at most {self.max_replication_factor}."
        return None

    def of_request(self, partitions: int) -> str | None:
        """`partitions`: how many new ones the whole request asks for."""
        if not 0 < self.max_of_request < partitions:
            return None
        asked = f"The request asks for {counted(partitions, 'new partition')}"
        return f"{asked}, and {MAX_OF_REQUEST} allows at most {self.max_of_request}."


NO_POLICY: Final = TopicPolicy()
