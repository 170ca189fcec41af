"""The controller's memory of the cluster while it leads. Replaced as a whole when it resigns.

This module reads it. `mutation` changes it and keeps the derived counts. Dictionaries keep insertion order and no code
iterates a set, so the same events give the same effects on every machine.

    `is_live`       the broker is registered and not shutting down
    `is_online`     its broker is live, and its present incarnation has not answered KAFKA_STORAGE_ERROR for the
                    partition
    `is_reachable`  as `is_online`, but the broker may be shutting down: it can still be asked to delete the replica
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lethe.controller.core.cache_memory import CacheComparison
from lethe.controller.core.client_wait_memory import ClientWait
from lethe.controller.core.config import NOTHING_CONFIGURED, DynamicConfig
from lethe.controller.core.debt_memory import Debts
from lethe.controller.core.deletion_memory import (
    Deletion,
    DeletionPause,
    DeletionStage,
    HeldTopic,
    LogDirEvidence,
    OwingBroker,
    Removals,
)
from lethe.controller.core.mutation_quota_rules import MutationQuota, QuotaClients, TokenBucket
from lethe.controller.core.pace_memory import Pacing
from lethe.controller.core.partition_sets import Bits, PartitionColumns, ReplicaColumns, bits_of, numbers_in
from lethe.controller.core.topic import Partition, Reassignment, Topic
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.controller.core.trash_memory import Trash
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.kafka.to_controller import ControllerRequest
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochVersion,
    PartitionReplica,
    TopicPartition,
)
from lethe.protocol.zookeeper.znodes import DeletionOrders

if TYPE_CHECKING:
    from lethe.controller.core.continuations import WriteContinuation

_NON_EXISTENT: Final = ReplicaState.NON_EXISTENT
NO_TERM: Final = ControllerEpoch(0)
NO_TERM_VERSION: Final = EpochVersion(0)


class Outstanding(NamedTuple):
    """A request that a broker has not answered yet."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    request: ChannelRequest
    sent_at_ms: int


class PendingRequest(NamedTuple):
    """A request of a broker or a client that is not answered yet."""

    request: ControllerRequest
    version: int
    sender: Sender | None = None
    """The client; None: a broker sent the request."""
    client_id: str = ""
    frame_bytes: int = 0
    """How large a client's request was on the wire."""
    quota: MutationQuota | None = None
    """What limits the changes of the request: see `mutation_quotas`. None: nothing, or it is not read yet."""
    throttled_until_ms: int = 0
    """Until when the client has to wait because of it; 0: it has not."""


class LastResponse(NamedTuple):
    """Top-level error of the latest answer of a broker's incarnation: see `power`."""

    broker_epoch: BrokerEpoch
    error: int
    """An `ErrorCode`; 0: it accepted the request."""
    since_ms: int
    """When the unbroken row of answers with this error began."""
    at_ms: int
    """When the latest of them came."""
    has_accepted: bool = False
    """It has accepted a request of this controller, whatever it answered later."""


class QuarantinedZnode(NamedTuple):
    """A znode that cannot be understood or used: shown, and read again when it changes."""

    path: str
    reason: str
    since_ms: int
    cause: CauseKind
    """What a deletion waits for that needs it."""
    created_zxid: int = 0
    """Of a topic, its czxid; 0: not known."""


class PendingResignation(NamedTuple):
    """The controller resigns as soon as brokers have answered the pending tombstones: see `leaving`."""

    reason: str
    pending: dict[str, None]
    """Queued topics whose tombstones may still lack answers."""


@dataclass(slots=True)
class ClusterState:
    # --- the term
    epoch: ControllerEpoch = NO_TERM
    epoch_version: EpochVersion = NO_TERM_VERSION
    elected_at_ms: int = 0
    previous_term_zxid: int | None = None
    """The zxid with which the term before began, or a later one of it; None: not known, or control was taken."""
    term_zxid: int = 0
    """The zxid with which this term began; 0: control was taken."""
    leaving: PendingResignation | None = None
    """Set while the controller waits for answers before it resigns for good; no deletion starts meanwhile."""
    channels_are_open: bool = False
    """The cluster is loaded, and brokers can be sent requests: see `failover.take_over`."""
    had_power: bool = False
    """A broker has accepted a request in this term."""
    dynamic: DynamicConfig = NOTHING_CONFIGURED
    last_config_change: int = -1
    """Sequence number of the last configuration change that was processed."""
    # --- the cluster
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    """Registered brokers: live or shutting down."""
    advertised_controllers: dict[BrokerId, None] = field(default_factory=dict)
    """Ids under which controllers are or were listed among the brokers, including this controller's own."""
    registered: Broker | None = None
    """This controller's own registration in `/brokers/ids`; None: it has none."""
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    gone_since_ms: dict[BrokerId, int] = field(default_factory=dict)
    """When each unregistered broker left, if it left during this term."""
    topics: dict[str, Topic] = field(default_factory=dict)
    offline_dirs: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    """Partitions for which the broker's present incarnation answered KAFKA_STORAGE_ERROR."""
    log_dir_evidence: dict[BrokerId, LogDirEvidence] = field(default_factory=dict)
    """Evidence about the log directories of the broker's present incarnation that proves deletions: see `evidence`."""
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    """Partitions in reassignment, from the write that starts it to the write that finishes it."""
    reassignments_requested: bool = False
    """`/admin/reassign_partitions` existed when it was last read."""
    reassignment_retries: int = 0
    """Refused writes of reassignments in a row."""
    deletions: dict[str, Deletion] = field(default_factory=dict)
    """Topics queued for deletion, oldest first."""
    marks: dict[str, HeldTopic] = field(default_factory=dict)
    """Topics that are marked for deletion and held, not queued."""
    inherited_marks: dict[str, None] = field(default_factory=dict)
    """Topics whose markers were there at the takeover: an earlier controller may have begun their deletion."""
    marker_times: dict[str, int] = field(default_factory=dict)
    """When the markers of topics that are not queued were created, in ms, never in the future; without the topics for
    which ZooKeeper did not answer."""
    marker_orders: dict[str, DeletionOrders] = field(default_factory=dict)
    """What the markers of topics that are not queued order; without those that order nothing."""
    debts: Debts = field(default_factory=Debts)
    """What absent brokers still have of topics whose znodes are gone, or go next."""
    forgotten: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that are given up for good, with the version of the request: see `forgetting`."""
    owed: dict[BrokerId, OwingBroker] = field(default_factory=dict)
    """Brokers that have not answered the tombstones of topics whose znodes are gone: see `owed`."""
    trash: Trash = field(default_factory=Trash)
    """Topics in the trash: see `trash`."""
    paused: DeletionPause | None = None
    """Why and since when nothing is deleted; None: deletions are not paused."""
    quarantined_topics: dict[str, QuarantinedZnode] = field(default_factory=dict)
    quarantined_brokers: dict[BrokerId, QuarantinedZnode] = field(default_factory=dict)
    outstanding: dict[int, Outstanding] = field(default_factory=dict)
    """Requests to brokers that are not answered yet, by request id."""
    last_answers: dict[BrokerId, LastResponse] = field(default_factory=dict)
    """The latest answer of each broker's present incarnation; without brokers that have not answered yet."""
    unanswered: dict[int, PendingRequest] = field(default_factory=dict)
    """Requests of brokers and clients that are not answered yet, by key."""
    client_waits: dict[int, ClientWait] = field(default_factory=dict)
    """Those of them that are carried out and wait for brokers, by key: see `client_waits`."""
    mutation_buckets: dict[QuotaClients, TokenBucket] = field(default_factory=dict)
    """What is left of clients' quotas. Full buckets are dropped with the next request."""
    caches: CacheComparison = field(default_factory=CacheComparison)
    background: dict[int, WriteContinuation] = field(default_factory=dict)
    """Outstanding writes in the background, by effect id."""
    removals: Removals = field(default_factory=Removals)
    pacing: Pacing = field(default_factory=Pacing)
    # --- counts kept by `mutation`
    offline_partitions: int = 0
    preferred_imbalance: int = 0
    partitions_with_leader_and_isr: int = 0
    topics_in_stage: dict[DeletionStage, int] = field(default_factory=dict)
    """Number of queued topics in each stage; without zeros."""
    doomed_replicas: dict[ReplicaState, int] = field(default_factory=dict)
    """Number of queued topics' replicas in each state; without zeros."""
    waiting_replicas: dict[BrokerId, int] = field(default_factory=dict)
    """Number of queued topics' replicas that each broker, registered or not, has yet to delete; without zeros."""

    # --- reading ---------------------------------------------------------------------------------------------------

    def is_live(self, broker: int) -> bool:
        """The broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_absent(self, broker: int) -> bool:
        """No broker and no controller is or was registered under this id, as far as the registrations can be read."""
        return broker not in self.brokers and not (
            broker in self.quarantined_brokers or broker in self.advertised_controllers
        )

    def is_given_up(self, broker: int) -> bool:
        """The broker never returns, as a user has said, and it is not registered."""
        return broker in self.forgotten and self.is_absent(broker)

    def is_advertised(self, broker: int) -> bool:
        """The id is a controller's, which hosts no replicas, and no broker is registered under it now."""
        return broker in self.advertised_controllers and broker not in self.brokers

    def is_online(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The replica's broker is live and has not reported its log directory as failed."""
        return self.is_live(broker) and not self.has_failed_directory(topic_partition, broker)

    def announced(self, name: str, broker: BrokerId) -> Bits:
        """Return the topic's partitions that LeaderAndIsr announced to the broker's present incarnation, and for which
        it answered no storage error."""
        known = self.brokers.get(broker)
        if known is None:
            return 0
        return self.topics[name].announced(broker, lambda it: not it.by_look and it.broker_epoch == known.epoch)

    def reachable(self, name: str, broker: BrokerId, partitions: Bits) -> Bits:
        """Return those of these partitions of the topic of which `is_reachable` is true."""
        if broker not in self.brokers:
            return 0
        if not self.offline_dirs.get(broker):
            return partitions
        return bits_of(n for n in numbers_in(partitions) if self.is_reachable(TopicPartition(name, n), broker))

    def must_announce(self, broker: int) -> bool:
        """Deletions on this broker need a LeaderAndIsr as proof, because its log directories did not prove them."""
        evidence = self.log_dir_evidence.get(BrokerId(broker))
        return evidence is not None and evidence.must_announce

    def has_failed_directory(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The broker's present incarnation answered KAFKA_STORAGE_ERROR for the partition."""
        return topic_partition in self.offline_dirs.get(BrokerId(broker), {})

    def is_reachable(self, topic_partition: TopicPartition, broker: int) -> bool:
        """The broker can be asked to delete the replica: it is registered, perhaps shutting down, and has not reported
        the log directory as failed."""
        return broker in self.brokers and not self.has_failed_directory(topic_partition, broker)

    @property
    def has_failures(self) -> bool:
        """A log directory has failed. If none has, a replica is online if its broker is live."""
        return any(self.offline_dirs.values())

    def online(self, name: str, broker: BrokerId, partitions: Bits) -> Bits:
        """Return those of these partitions of the topic of which `is_online` is true."""
        return self.reachable(name, broker, partitions) if self.is_live(broker) else 0

    def is_queued(self, topic: str) -> bool:
        return topic in self.deletions

    def is_shown(self, topic: str) -> bool:
        """Return whether brokers show the topic, as far as they were told: it is not being deleted."""
        return topic in self.topics and not self.is_queued(topic)

    def reassigned_topics(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return those of these topics that have a partition in reassignment."""
        moving = {topic_partition.topic: None for topic_partition in self.reassignments}
        return tuple(name for name in topics if name in moving)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        # Unpacking is twice as fast as access by name, and calls come for hundreds of thousands of partitions.
        name, number = topic_partition
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(number)

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        name, number = topic_partition
        topic = self.topics.get(name)
        return PartitionState.NON_EXISTENT if topic is None else topic.partition_state(number)

    def replica_state(self, replica: PartitionReplica) -> ReplicaState:
        name, number, broker = replica
        topic = self.topics.get(name)
        return _NON_EXISTENT if topic is None else topic.replica_state(number, broker)

    def hosts(self, topic_partition: TopicPartition) -> tuple[int, ...]:
        """Return the brokers with a replica of the partition that is not NonExistent."""
        name, number = topic_partition
        topic = self.topics.get(name)
        return () if topic is None else topic.hosts(number)

    def replicas_left_over(self, partitions: Iterable[TopicPartition]) -> tuple[PartitionReplica, ...]:
        """Return the replicas of these partitions that have a state and are not assigned any more."""
        return tuple(
            PartitionReplica(*topic_partition, BrokerId(broker))
            for topic_partition in partitions
            if (partition := self.partition(topic_partition)) is not None
            for broker in self.hosts(topic_partition)
            if broker not in partition.assignment.replicas
        )

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

    def replicas_on(self, brokers: Iterable[BrokerId]) -> ReplicaColumns:
        """Return the replicas assigned to any of these brokers, topic by topic, in the order of the context."""
        asked = tuple(brokers)
        found: dict[str, dict[BrokerId, Bits]] = {}
        for name, topic in self.topics.items():
            assigned = topic.assigned()
            if mine := {broker: assigned[broker] for broker in asked if broker in assigned}:
                found[name] = mine
        return found

    def all_of(self, names: Iterable[str]) -> PartitionColumns:
        """Return all partitions of those of these topics that are known."""
        return {name: self.topics[name].numbers for name in names if name in self.topics}

    def led_offline(self, name: str) -> Bits:
        """Return the topic's partitions whose leader is not online."""
        topic = self.topics[name]
        leaders = ((n, state.leader) for n, each in topic.partitions.items() if (state := each.leader_and_isr))
        if not self.has_failures:
            return bits_of(n for n, leader in leaders if not self.is_live(leader))
        return bits_of(n for n, leader in leaders if not self.is_online(TopicPartition(name, n), leader))
