"""What a controller knows of the cluster while it leads. Replaced as a whole when it resigns.

Reading is here, changing is in `mutation`, so that the derived counts cannot be forgotten. Dictionaries keep insertion
order and nothing iterates a set: the same events give the same effects on every machine.

A *replica is online* when its broker is live, not shutting down, and has not answered KAFKA_STORAGE_ERROR for the
partition in this broker incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.cache_memory import CacheComparison
from lethe.controller.core.config import NOTHING_CONFIGURED, DynamicConfig
from lethe.controller.core.deletion_memory import Debtor, Deletion, LogDirEvidence, Mark, Pause, Stage
from lethe.controller.core.topic import Partition, Reassignment, Topic
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.kafka.to_controller import ControllerRequest
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochVersion,
    PartitionReplica,
    TopicPartition,
)

_NON_EXISTENT: Final = ReplicaState.NON_EXISTENT
NO_TENURE: Final = ControllerEpoch(0)
NO_TENURE_VERSION: Final = EpochVersion(0)


class Outstanding(NamedTuple):
    """A request that a broker has not answered yet."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request: ChannelRequest
    sent_at_ms: int


class Asked(NamedTuple):
    """A request of a broker that is being worked on, and the version in which it came."""

    request: ControllerRequest
    version: int


class LastAnswer(NamedTuple):
    """What a broker's incarnation answered last, at top level: see `power`."""

    broker_epoch: BrokerEpoch
    error: int
    """Of `ErrorCode`; 0 where it accepted the request."""
    since_ms: int
    """When it first answered so, without another answer since."""


class SetAside(NamedTuple):
    """A znode that cannot be understood: left alone, shown, and read again when it changes."""

    path: str
    reason: str
    since_ms: int


class Leaving(NamedTuple):
    """Control is given up when brokers have answered the tombstones that are under way: see `leaving`."""

    reason: str
    pending: dict[str, None]
    """Queued topics that may still wait for such an answer."""


@dataclass(slots=True)
class ClusterState:
    # --- the tenure
    epoch: ControllerEpoch = NO_TENURE
    epoch_version: EpochVersion = NO_TENURE_VERSION
    elected_at_ms: int = 0
    leaving: Leaving | None = None
    """Control is to be given up for good, and brokers have yet to answer; nothing is begun to be deleted meanwhile."""
    had_power: bool = False
    """In this tenure a broker has accepted a request."""
    dynamic: DynamicConfig = NOTHING_CONFIGURED
    last_config_change: int = -1
    """Number of the last configuration change that was looked at."""
    # --- the cluster
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    """Live or shutting down."""
    residents: dict[BrokerId, None] = field(default_factory=dict)
    """Ids under which controllers have been listed among the brokers; ours too where we are listed."""
    registered: Broker | None = None
    """What we say of ourselves in `/brokers/ids`; None where nothing stands there."""
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    gone_since_ms: dict[BrokerId, int] = field(default_factory=dict)
    """When brokers that are not here left, for those that left while we watched."""
    topics: dict[str, Topic] = field(default_factory=dict)
    offline_dirs: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    """Partitions for which the broker's present incarnation answered KAFKA_STORAGE_ERROR."""
    log_dir_evidence: dict[BrokerId, LogDirEvidence] = field(default_factory=dict)
    """What the broker's present incarnation says of its log directories, where deletions are proven by that."""
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    """Partitions that are being reassigned, from the write that begins it to the write that says that it is done."""
    reassignments_requested: bool = False
    """`/admin/reassign_partitions` is there, as far as we know."""
    reassignment_retries: int = 0
    """Refused writes in a row that a reassignment needed."""
    deletions: dict[str, Deletion] = field(default_factory=dict)
    """Topics queued for deletion, oldest first."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """Topics that are marked for deletion and not queued."""
    marker_times: dict[str, int] = field(default_factory=dict)
    """When the markers of topics that are not queued were made, in ms, never after now; none where ZooKeeper did not
    tell."""
    owed: dict[BrokerId, Debtor] = field(default_factory=dict)
    """Brokers that have not answered the tombstones of topics whose znodes are gone: see `owed`."""
    paused: Pause | None = None
    """Since when (always told) and why nothing is deleted; None: deletions go on."""
    set_aside_topics: dict[str, SetAside] = field(default_factory=dict)
    set_aside_brokers: dict[BrokerId, SetAside] = field(default_factory=dict)
    outstanding: dict[int, Outstanding] = field(default_factory=dict)
    """Requests not answered yet, by request id."""
    last_answers: dict[BrokerId, LastAnswer] = field(default_factory=dict)
    """What the present incarnation of each broker answered last; those that have not answered yet are left out."""
    unanswered: dict[int, Asked] = field(default_factory=dict)
    """What brokers have asked of us and are still to be told, by the key of the request."""
    caches: CacheComparison = field(default_factory=CacheComparison)
    # --- counts kept by `mutation`
    offline_partitions: int = 0
    preferred_imbalance: int = 0
    partitions_with_leadership: int = 0
    topics_in_stage: dict[Stage, int] = field(default_factory=dict)
    """How many queued topics are in each stage; those without any are left out."""
    doomed_replicas: dict[ReplicaState, int] = field(default_factory=dict)
    """How many replicas of queued topics are in each state; the same."""
    waiting_replicas: dict[BrokerId, int] = field(default_factory=dict)
    """How many replicas of queued topics each broker has yet to delete, registered or not; the same."""

    # --- reading ---------------------------------------------------------------------------------------------------

    def is_live(self, broker: int) -> bool:
        """Registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_resident(self, broker: int) -> bool:
        """The id is that of a controller, which holds no replicas; not where a broker is registered under it now."""
        return broker in self.residents and broker not in self.brokers

    def is_online(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The replica's broker is live and its log directory is not known to have failed."""
        if broker not in self.brokers or broker in self.shutting_down:
            return False
        offline = self.offline_dirs.get(BrokerId(broker))
        return not offline or topic_partition not in offline

    def was_announced(self, partition: Partition, broker: int) -> bool:
        """LeaderAndIsr has gone to the broker's present incarnation, and no storage error has come back."""
        hosting, known = partition.hosting.get(broker), self.brokers.get(BrokerId(broker))
        return hosting is not None and not hosting.by_look and known is not None and known.epoch == hosting.broker_epoch

    def must_announce(self, broker: int) -> bool:
        """A LeaderAndIsr must prove deletions there: the broker's log directories have not been seen to work."""
        evidence = self.log_dir_evidence.get(BrokerId(broker))
        return evidence is not None and evidence.must_announce

    def has_failed_directory(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The broker's present incarnation answered KAFKA_STORAGE_ERROR for the partition."""
        return topic_partition in self.offline_dirs.get(BrokerId(broker), {})

    def is_reachable(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The broker can be asked to delete the replica: it is registered, if only until it has shut down, and its log
        directory is not known to have failed."""
        return broker in self.brokers and not self.has_failed_directory(topic_partition, broker)

    def is_replica_reachable(self, replica: PartitionReplica) -> bool:
        """As `is_reachable`, without making a TopicPartition for each of hundreds of thousands of replicas."""
        broker = replica.broker
        if broker not in self.brokers:
            return False
        offline = self.offline_dirs.get(broker)
        return not offline or replica.topic_partition not in offline

    def is_queued(self, topic: str) -> bool:
        return topic in self.deletions

    def reassigned_topics(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Those of these topics of which a partition is being moved."""
        moving = {topic_partition.topic: None for topic_partition in self.reassignments}
        return tuple(name for name in topics if name in moving)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        # Unpacking is twice as fast as naming the items, and this is asked for each of hundreds of thousands.
        name, number = topic_partition
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(number)

    def partition_of(self, replica: PartitionReplica) -> Partition | None:
        name, number, _ = replica
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(number)

    def replica_state(self, replica: PartitionReplica) -> ReplicaState:
        name, number, broker = replica
        topic = self.topics.get(name)
        partition = None if topic is None else topic.partitions.get(number)
        return ReplicaState.NON_EXISTENT if partition is None else partition.replicas.get(broker, _NON_EXISTENT)

    def partitions_of(self, topic: str) -> Iterator[tuple[TopicPartition, Partition]]:
        found = self.topics.get(topic)
        if found is not None:
            for number, partition in found.partitions.items():
                yield TopicPartition(topic, number), partition

    def all_partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        for name, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield TopicPartition(name, number), partition

    def replicas_of(self, topic: str) -> Iterator[PartitionReplica]:
        found = self.topics.get(topic)
        if found is not None:
            for number, partition in found.partitions.items():
                for broker in partition.assignment.replicas:
                    yield PartitionReplica(topic, number, BrokerId(broker))

    def replicas_on(self, brokers: frozenset[BrokerId]) -> list[PartitionReplica]:
        """The replicas assigned to any of these brokers, topic by topic in the order of the context."""
        return [
            PartitionReplica(name, number, BrokerId(broker))
            for name, topic in self.topics.items()
            for number, partition in topic.partitions.items()
            for broker in partition.assignment.replicas
            if broker in brokers
        ]

    def has_offline_leader(self, topic_partition: TopicPartition, partition: Partition) -> bool:
        leadership = partition.leadership
        return leadership is not None and not self.is_online(topic_partition, leadership.leader)
