"""Configuration of the core: from the properties file, and from ZooKeeper, which takes precedence."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.pace_memory import NO_LIMITS, PaceLimits
from lethe.controller.core.scope import EVERYTHING, Scope
from lethe.controller.core.topic_policy import NO_POLICY, TopicPolicy
from lethe.protocol.deletion_grace import GraceRule
from lethe.protocol.kafka.topic_defaults import NO_BROKER_SETTINGS, BrokerSettings
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.listener_choice import ANY_PLAINTEXT, ListenerChoice
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import BrokerId, Endpoint
from lethe.protocol.zookeeper.znodes import OfflineReplicas

DEFAULT_LIST_PAUSE_US: Final = 20
DEFAULT_OPERATIONS_PER_GROUP: Final = 800
DEFAULT_PARTITIONS_PER_SLICE: Final = 10_000
_ANONYMOUS: Final = str(ANONYMOUS)


class Takeover(enum.Enum):
    """Whether control is taken from a Kafka controller that holds it; the values are the property's."""

    NEVER = "never"
    """Wait until `/controller` is free."""
    ONCE = "once"
    """At most once in the life of the process."""
    ALWAYS = "always"
    """Each time, at growing intervals."""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What a topic gets where a client's request to create it does not say."""

    partitions: int = 1
    replication_factor: int = 1
    settings: BrokerSettings = field(default_factory=dict, hash=False)
    """Settings of brokers in the properties file that stand for settings of topics."""
    tiered_storage: bool = False
    """Brokers have a remote storage, so a topic may use it."""


KAFKAS_DEFAULTS: Final = NewTopics()


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """The core's part of the controller's configuration. Times are in milliseconds."""

    controller_id: BrokerId
    ibp: InterBrokerProtocol
    delete_topic_enable: bool = True
    protected_topics: tuple[str, ...] = ()
    """Patterns of topics that are never deleted (`topic_globs`)."""
    pace: PaceLimits = NO_LIMITS
    unclean_leader_election_enable: bool = False
    listener_choice: ListenerChoice = ANY_PLAINTEXT
    """Which listener of a broker the controller connects to, and the security protocols that it is configured for."""
    principal: str = _ANONYMOUS
    """Whom brokers take this controller for, for messages about rights."""
    endpoints: tuple[Endpoint, ...] = ()
    """Endpoints at which brokers reach this controller. If any, UpdateMetadata lists it among the live brokers."""
    retry_min_ms: int = 500
    """Wait before the first retry of a failed deletion request; doubles up to `retry_max_ms`."""
    retry_max_ms: int = 30_000
    tombstone_timeout_ms: int = 300_000
    """Maximum wait for answers to a tombstone after every replica has acknowledged. Then the topic's znodes are removed
    and its silent brokers owe the answer. 0: no limit."""
    offline_replicas: OfflineReplicas = OfflineReplicas.WAIT
    """What deletions do about replicas on brokers that are not registered, unless a marker orders something else."""
    grace: tuple[GraceRule, ...] = ()
    """For how long deleted topics stay in the trash, unless a marker orders something else."""
    trash_again_ms: int = 600_000
    """A topic that has failed to get into the trash for minutes is tried again after this time."""
    trash_freeze_ms: int = 10_000
    """How long brokers may take to notice that retention is switched off for a topic that goes into the trash."""
    new_topics: NewTopics = KAFKAS_DEFAULTS
    mutation_quota_window_s: int = 11
    """For how many seconds a client may save up changes of topics: see `mutation_quota_rules`."""
    topic_policy: TopicPolicy = NO_POLICY
    trash_free_percent: int = 0
    """A topic leaves the trash early while a log directory with its replicas has less free space; 0: never."""
    trash_look_ms: int = 60_000
    """How often brokers are asked for that; 0: they are not asked for the trash's bytes at all."""
    stand_back_off_min_ms: int = 500
    """Wait after a fault before standing for election again; doubles up to `stand_back_off_max_ms`."""
    stand_back_off_max_ms: int = 30_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_per_broker_percentage: int = 10
    max_operations_per_group: int = DEFAULT_OPERATIONS_PER_GROUP
    """A topic with more znodes than this, or 24 KiB of deletes, is removed in several groups, its own znode last."""
    list_pause_us: int = DEFAULT_LIST_PAUSE_US
    """Time between lists of topics or markers while topics are removed, for each topic in memory: see `relisting`."""
    partitions_per_slice: int = DEFAULT_PARTITIONS_PER_SLICE
    """About how many partitions are created, or loaded and announced, at once: see `slices`."""
    takeover: Takeover = Takeover.NEVER
    takeover_grace_ms: int = 5_000
    """Grace period between taking `/controller` and raising the epoch, which fences the former holder."""
    takeover_interval_ms: int = 60_000
    """Shortest time between two takeovers of control; doubles up to `takeover_interval_max_ms`."""
    takeover_interval_max_ms: int = 3_600_000
    powerless_after_ms: int = 5_000
    """A controller that no broker has obeyed for this long is not ready."""
    silent_after_ms: int = 10_000
    """A broker that owes an answer for longer counts as silent."""
    resign_refused_ms: int = 15_000
    """A powerless controller resigns after this time if every broker refuses it."""
    resign_silent_ms: int = 300_000
    """The same if some brokers are only silent: a broker that works on a large request answers nothing meanwhile."""
    preflight_back_off_max_ms: int = 5_000
    """Longest wait between two preflights."""
    scope: Scope = EVERYTHING
    cache_look_rest: int = 9
    """Pause after reading a broker's whole metadata cache, as a multiple of the time that the read took."""
    admin: str | None = None
    """URL of this controller's HTTP server, published in `/controller` for tools."""

    @property
    def only_topics(self) -> frozenset[str] | None:
        """See `Scope.topics`."""
        return self.scope.topics


class UnreadableConfiguration(NamedTuple):
    """A znode of the brokers' configuration that could not be read or understood."""

    path: str
    why: str
    since_ms: int


class DynamicConfig(NamedTuple):
    """Configuration in ZooKeeper, which takes precedence over the properties file; None: not configured."""

    delete_topic_enable: bool | None = None
    unclean_leader_election_enable: bool | None = None
    deletion_unknown: UnreadableConfiguration | None = None
    """Why it is unknown whether topics may be deleted: not readable since the term began."""
    protected_topics: tuple[str, ...] | None = None
    offline_replicas: OfflineReplicas | None = None
    topics_per_second: int | None = None
    """In thousandths."""
    bytes_per_second: int | None = None
    """In thousandths."""
    grace: tuple[GraceRule, ...] | None = None
    trash_free_percent: int | None = None
    topic_settings: BrokerSettings = NO_BROKER_SETTINGS
    """Settings of brokers that stand for settings of topics."""


NOTHING_CONFIGURED: Final = DynamicConfig()
