"""The memory of an agent: log directories, replicas, epochs, the metadata cache, pending removals.

One mutable object of plain ordered containers of immutable values: `copy()` is cheap and two states can be compared.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lethe.broker.core.due import DueQueue
from lethe.broker.core.effects import DirectoryRef, IsrChange
from lethe.broker.core.inputs import ControlReceived, IsrVerdict
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.removal import RemovalQueue
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.stages import DebtStage, FillStage, LeaderAndIsrStage, StopReplicaStage
from lethe.protocol.kafka.directory_names import unique_name
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.listener_choice import ANY_PLAINTEXT, ListenerChoice
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition

INITIAL_CONTROLLER_EPOCH: Final = ControllerEpoch(0)
MAX_TOMBSTONES: Final = 10_000
"""A StopReplica that outlives its connection arrives seconds late, not after ten thousand deletions."""


class QuarantinedDirectory(NamedTuple):
    """A directory that is kept and shown, never opened, never removed."""

    size_bytes: int
    reason: str


class Tombstone(NamedTuple):
    """The tombstone of a topic that was last taken in."""

    topic_id: TopicId | None
    """None: it named no id."""
    broker_epoch: BrokerEpoch
    """Of the registration under which it was taken in."""
    controller_epoch: ControllerEpoch
    """Of the controller that sent it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of the configuration that the core uses."""

    broker_id: BrokerId
    delete_delay_ms: int
    """From the rename of a directory to the begin of its removal."""
    naming_seed: str
    """Seed for the names of renamed directories; it differs from run to run."""
    catch_up_delay_ms: int = 1_000
    """How long a follower takes to catch up with its leader."""
    inter_broker_protocol: InterBrokerProtocol = LATEST
    controller_listener: ListenerChoice = ANY_PLAINTEXT
    """Where controllers listen for brokers."""
    acknowledge_only: bool = False
    """Answer control requests as though they had been carried out (broker.core.acknowledgement)."""


@dataclass(slots=True)
class AgentState:
    settings: Settings
    broker_epoch: BrokerEpoch = NO_EPOCH
    controller_epoch: ControllerEpoch = INITIAL_CONTROLLER_EPOCH
    """The highest one obeyed; a request with a lower one is refused."""
    confirmed_epoch: ControllerEpoch = INITIAL_CONTROLLER_EPOCH
    """The highest one that ZooKeeper has named; a request with a lower one is refused, and one with a higher one waits
    until it has been asked."""
    confirmed_controller: BrokerId | None = None
    """Whose epoch that is; None: ZooKeeper has not shown it. A request of it from another controller waits as well."""
    log_dirs: dict[str, str | None] = field(default_factory=dict)
    """Log directory → why it is offline, or None; in the order of the configuration."""
    replicas: dict[TopicPartition, Replica] = field(default_factory=dict)
    duplicates: dict[TopicPartition, tuple[Replica, ...]] = field(default_factory=dict)
    """Further candidates of partitions, equal to the one in `replicas` until a request identifies one
    (broker.core.duplicates). The counts below leave them out."""
    replicas_of_log_dir: dict[str, int] = field(default_factory=dict)
    replicas_of_topic: dict[str, int] = field(default_factory=dict)
    replicas_in_state: dict[ReplicaState, int] = field(default_factory=lambda: dict.fromkeys(ReplicaState, 0))
    hosted_bytes: int = 0
    """Of all replicas that are not offline."""
    incarnations: dict[str, TopicId] = field(default_factory=dict)
    """Topic → id last named by a controller or by ZooKeeper; outlives the tombstone until the replicas are gone."""
    compared: dict[str, dict[int, TopicId]] = field(default_factory=dict)
    """Topic → partition → id last named by a LeaderAndIsr that may be a debt's compare. It says nothing about the topic
    that has the name now."""
    tombstoned: dict[str, Tombstone] = field(default_factory=dict)
    """The newest MAX_TOMBSTONES. A deletion by name means the topic's, if that is of this registration."""
    cache: MetadataCache = field(default_factory=MetadataCache)
    cache_epoch: BrokerEpoch = NO_EPOCH
    """The registration that the cache belongs to: the broker epoch of the last UpdateMetadata that named one."""
    removal: RemovalQueue = field(default_factory=RemovalQueue)
    fills: DueQueue = field(default_factory=DueQueue)
    """Followers whose replicas are empty, and when they have caught up."""
    proposals: DueQueue = field(default_factory=DueQueue)
    """Partitions that this broker leads and whose ISR may grow, and when to propose that."""
    proposed: tuple[IsrChange, ...] = ()
    """The proposal in flight."""
    proposals_unanswered: int = 0
    """In a row."""
    isr_outcomes: dict[IsrVerdict, int] = field(default_factory=lambda: dict.fromkeys(IsrVerdict, 0))
    strays: dict[DirectoryRef, QuarantinedDirectory] = field(default_factory=dict)
    stray_bytes: int = 0
    unknown: dict[DirectoryRef, QuarantinedDirectory] = field(default_factory=dict)
    stage: DebtStage | FillStage | LeaderAndIsrStage | StopReplicaStage | None = None
    """What waits for a result of PerformDisk or AskTopicIds; control requests wait for it in their turn."""
    waiting: deque[ControlReceived] = field(default_factory=deque)
    unconfirmed: deque[ControlReceived] = field(default_factory=deque)
    """Requests whose controller epoch ZooKeeper has not named yet (broker.core.epochs)."""
    asked_for: int = 0
    """How many of these, from the first, the AskControllerEpoch in flight is for; 0 while none is."""
    names_made: int = 0
    timer_ms: int | None = None
    halted: bool = False

    def copy(self) -> AgentState:
        """Return an independent copy; values are shared, containers are not."""
        return replace(
            self,
            log_dirs=dict(self.log_dirs),
            replicas=dict(self.replicas),
            duplicates=dict(self.duplicates),
            replicas_of_log_dir=dict(self.replicas_of_log_dir),
            replicas_of_topic=dict(self.replicas_of_topic),
            replicas_in_state=dict(self.replicas_in_state),
            incarnations=dict(self.incarnations),
            compared={topic: dict(named) for topic, named in self.compared.items()},
            tombstoned=dict(self.tombstoned),
            cache=self.cache.copy(),
            removal=self.removal.copy(),
            fills=self.fills.copy(),
            proposals=self.proposals.copy(),
            isr_outcomes=dict(self.isr_outcomes),
            strays=dict(self.strays),
            unknown=dict(self.unknown),
            waiting=deque(self.waiting),
            unconfirmed=deque(self.unconfirmed),
        )

    # --- tombstones -----------------------------------------------------------------------------------------------

    def note_tombstone(
        self, topic: str, topic_id: TopicId | None, broker_epoch: BrokerEpoch, controller_epoch: ControllerEpoch
    ) -> None:
        """Store which incarnation of the topic is being deleted; the epochs: as the request names them."""
        self.tombstoned.pop(topic, None)
        self.tombstoned[topic] = Tombstone(topic_id, max(broker_epoch, self.broker_epoch), controller_epoch)
        if len(self.tombstoned) > MAX_TOMBSTONES:
            del self.tombstoned[next(iter(self.tombstoned))]

    def current_tombstone(
        self, topic: str, broker_epoch: BrokerEpoch, controller_epoch: ControllerEpoch
    ) -> Tombstone | None:
        """Return the topic's tombstone, unless it was sent before this registration, before a later one that a request
        names, or by an earlier controller than that of the request."""
        tombstone = self.tombstoned.get(topic)
        if tombstone is None or tombstone.broker_epoch < max(broker_epoch, self.broker_epoch):
            return None
        return tombstone if tombstone.controller_epoch >= controller_epoch else None

    # --- leftovers ------------------------------------------------------------------------------------------------

    def put_stray(self, directory: DirectoryRef, leftover: QuarantinedDirectory) -> None:
        """Store a directory that is kept for an operator."""
        before = self.strays.get(directory)
        self.stray_bytes += leftover.size_bytes - (before.size_bytes if before else 0)
        self.strays[directory] = leftover

    # --- replicas -------------------------------------------------------------------------------------------------

    def put_replica(self, topic_partition: TopicPartition, replica: Replica) -> None:
        """Add or replace the replica."""
        self.drop_replica(topic_partition)
        self.replicas[topic_partition] = replica
        self.replicas_in_state[replica.state] += 1
        topic = topic_partition.topic
        self.replicas_of_topic[topic] = self.replicas_of_topic.get(topic, 0) + 1
        if replica.log_dir is not None:
            self.replicas_of_log_dir[replica.log_dir] = self.replicas_of_log_dir.get(replica.log_dir, 0) + 1
        if replica.state is not ReplicaState.OFFLINE:
            self.hosted_bytes += replica.size_bytes

    def drop_replica(self, topic_partition: TopicPartition) -> Replica | None:
        """Remove and return the replica."""
        replica = self.replicas.pop(topic_partition, None)
        if replica is None:
            return None
        self.replicas_in_state[replica.state] -= 1
        topic = topic_partition.topic
        if left := self.replicas_of_topic[topic] - 1:
            self.replicas_of_topic[topic] = left
        else:
            del self.replicas_of_topic[topic]
        if replica.log_dir is not None:
            self.replicas_of_log_dir[replica.log_dir] -= 1
        if replica.state is not ReplicaState.OFFLINE:
            self.hosted_bytes -= replica.size_bytes
        return replica

    def compared_id(self, topic_partition: TopicPartition) -> TopicId | None:
        return self.compared.get(topic_partition.topic, {}).get(topic_partition.partition)

    def forget_incarnation(self, topic: str) -> None:
        """Drop the ids that were named for the topic."""
        self.incarnations.pop(topic, None)
        self.compared.pop(topic, None)

    def forget_incarnation_if_gone(self, topic: str) -> None:
        """Drop the remembered ids of a topic that has neither replicas here nor a place in the metadata cache."""
        if topic not in self.replicas_of_topic and topic not in self.cache.topics:
            self.forget_incarnation(topic)

    @property
    def duplicate_directories(self) -> int:
        """The number of directories beyond one for each partition."""
        return sum(map(len, self.duplicates.values()))

    # --- log directories ------------------------------------------------------------------------------------------

    @property
    def live_log_dirs(self) -> tuple[str, ...]:
        return tuple(log_dir for log_dir, error in self.log_dirs.items() if error is None)

    @property
    def has_offline_log_dir(self) -> bool:
        return any(error is not None for error in self.log_dirs.values())

    # --- names ----------------------------------------------------------------------------------------------------

    def make_unique(self) -> str:
        """The next 32 hex digits for the name of a renamed directory."""
        self.names_made += 1
        return unique_name(self.settings.naming_seed, self.names_made)
