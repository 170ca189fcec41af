"""The whole memory of a controller's core, in one object that can be copied and compared.

    field      holds
    ---------  ------------------------------------------------------------------------------
    `cluster`  the cluster while this controller leads; replaced as a whole when it resigns
    `awaited`  the outstanding reads, writes and probes, and their continuations
    `tasks`    the tasks that run after these continuations

Continuations and tasks are values, not suspended coroutines.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.deletion_memory import RefusedMark, RetriedAction
from lethe.controller.core.effects import Timer
from lethe.controller.core.endpoints import control_endpoint, unreachable_reason
from lethe.controller.core.epoch_raise_history import EpochRaiseHistory
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.takeover_history import TakeoverHistory
from lethe.protocol.deletion_grace import GraceRule
from lethe.protocol.kafka.topic_defaults import BrokerSettings
from lethe.protocol.vocabulary import NO_BROKER, Broker, BrokerId, Endpoint
from lethe.protocol.zookeeper.znodes import OfflineReplicas

if TYPE_CHECKING:
    from lethe.controller.core.continuations import Awaited
    from lethe.controller.core.tasks import Task


class Role(enum.Enum):
    NO_SESSION = "no session"
    STANDING_BY = "standing by"
    """Another controller is active, or an election is under way."""
    BACKING_OFF = "backing off"
    """After a fault: does not stand for election until a timer fires."""
    REFUSED = "refused"
    """This controller must not control the cluster; `refusal` is the reason. `/controller` is still watched."""
    TAKING = "taking control"
    """Holds `/controller`, and waits before it raises the epoch, so that the former holder can notice."""
    LOADING = "loading"
    """Elected; reading the cluster."""
    ACTIVE = "active"
    RETIRED = "retired"
    """Has given control up for good; `/controller` is still watched."""


_LEADING: Final = (Role.LOADING, Role.ACTIVE)
"""A constant, because looking up members of an enumeration is slow."""


class FailedPreflight(NamedTuple):
    """A preflight after which control was not taken: when, and why."""

    at_ms: int
    why: str


class UnconfirmedDeletions(NamedTuple):
    """Deleted topics that brokers' metadata caches may still show when control is given up for good, by broker.

    `gone` and `marked`: the broker has not answered their tombstones."""

    gone: Mapping[BrokerId, tuple[str, ...]]
    """Their znodes are gone: a later controller cannot find them in ZooKeeper."""
    marked: Mapping[BrokerId, tuple[str, ...]]
    """They are marked for deletion: the next controller continues."""
    ghosts: Mapping[BrokerId, tuple[str, ...]]
    """Topics in the cache of this registered broker that ZooKeeper does not have."""
    missed: Mapping[BrokerId, tuple[str, ...]]
    """Topics deleted, or found to be ghosts, before or while the broker was not registered, and whose absence from
    its cache has not been checked since."""

    @property
    def is_nothing(self) -> bool:
        return not any(self)


NOTHING_UNCONFIRMED: Final = UnconfirmedDeletions({}, {}, {}, {})


@dataclass(slots=True)
class Context:
    config: CoreConfig
    # --- the term
    role: Role = Role.NO_SESSION
    session_id: int = 0
    active_controller: BrokerId = NO_BROKER
    faults_in_a_row: int = 0
    refusal: str | None = None
    recorded_refusal: str | None = None
    """The refusal that was recorded last, to be recorded once while it lasts."""
    retired: bool = False
    """A request to resign for good was received: do not stand for election again."""
    unconfirmed_deletions: UnconfirmedDeletions = NOTHING_UNCONFIRMED
    """Result of `leaving.unconfirmed_deletions` when control was given up for good."""
    takeover_history: TakeoverHistory = field(default_factory=TakeoverHistory)
    raises: EpochRaiseHistory = field(default_factory=EpochRaiseHistory)
    preflights_failed: int = 0
    """Failed preflights in a row."""
    preflight_problem: str | None = None
    """Problem that the latest failed preflight found."""
    not_passed: FailedPreflight | None = None
    """The latest preflight, if it failed. It is kept while another controller leads: brokers are not probed then."""
    preflight_passed_ms: int | None = None
    """When brokers last accepted a probe, or when a term ended in which brokers accepted requests."""
    entropy: bytes = b""
    drawn: int = 0
    """Ids and numbers drawn from `entropy` so far: see `drawing`."""
    # --- what is going on
    tasks: deque[Task] = field(default_factory=deque)
    awaited: tuple[Awaited, ...] = ()
    """The outstanding reads, writes and probes, oldest first: one, or several where `slices` allows it."""
    last_effect_id: int = 0
    last_request_id: int = 0
    timers: dict[Timer, int] = field(default_factory=dict)
    """When each set timer is due; a timer that is missing here is ignored when it fires."""
    refused_marks: dict[str, RefusedMark] = field(default_factory=dict)
    """Topics whose marker was removed while the topic stayed, oldest first; limited to the latest."""
    cluster: ClusterState = field(default_factory=ClusterState)
    """State of the cluster; empty while this controller does not lead."""
    # --- counted since the process started
    ghosts_cured: int = 0
    """Ghosts that have disappeared from a broker's metadata cache."""
    elections: int = 0
    """Leaders elected."""
    unclean_elections: int = 0
    deletion_retries: dict[tuple[RetriedAction, str], int] = field(default_factory=dict)
    """Retries by failed action and reason. Above a limit of reasons, later ones are counted together."""

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def awaiting_result(self) -> bool:
        """Reads, writes or probes are outstanding: their results must be the next events."""
        return bool(self.awaited)

    @property
    def is_leading(self) -> bool:
        """This controller is elected, as far as memory shows: LOADING or ACTIVE."""
        return self.role in _LEADING

    @property
    def holds_controller(self) -> bool:
        """`/controller` is this controller's, as far as memory shows: LOADING, ACTIVE or TAKING."""
        return self.is_leading or self.role is Role.TAKING

    def control_endpoint(self, broker: Broker) -> Endpoint:
        """Return the endpoint at which the controller reaches the broker: see `endpoints`."""
        return control_endpoint(self.config, broker)

    def is_reachable(self, broker: Broker) -> bool:
        """Return whether the broker has a listener that this controller is configured for."""
        return unreachable_reason(self.config, broker) is None

    @property
    def delete_topic_enable(self) -> bool:
        dynamic = self.cluster.dynamic.delete_topic_enable
        return self.config.delete_topic_enable if dynamic is None else dynamic

    @property
    def protected_topics(self) -> tuple[str, ...]:
        """Patterns of protected topics, from ZooKeeper, else from the properties file. Internal topics are protected
        without a pattern."""
        dynamic = self.cluster.dynamic.protected_topics
        return self.config.protected_topics if dynamic is None else dynamic

    @property
    def grace(self) -> tuple[GraceRule, ...]:
        """For how long deleted topics stay in the trash, unless a marker orders something else. A controller that is
        here for some topics only (`CoreConfig.only_topics`) has no such rules."""
        if self.config.only_topics is not None:
            return ()
        dynamic = self.cluster.dynamic.grace
        return self.config.grace if dynamic is None else dynamic

    @property
    def trash_free_percent(self) -> int:
        """How much of a log directory must stay free for the trash in it to stay whole; 0: nothing."""
        dynamic = self.cluster.dynamic.trash_free_percent
        return self.config.trash_free_percent if dynamic is None else dynamic

    @property
    def offline_replicas(self) -> OfflineReplicas:
        """What deletions do about absent brokers, unless a marker orders something else."""
        return self.cluster.dynamic.offline_replicas or self.config.offline_replicas

    @property
    def pace(self) -> PaceLimits:
        """How many topics and bytes may begin to be deleted in a second."""
        configured, dynamic = self.config.pace, self.cluster.dynamic
        topics, count = dynamic.topics_per_second, dynamic.bytes_per_second
        return PaceLimits(configured.topics if topics is None else topics, configured.bytes if count is None else count)

    @property
    def broker_settings(self) -> BrokerSettings:
        """Settings of brokers that stand for settings of topics: from ZooKeeper, else from the properties file."""
        return {**self.config.new_topics.settings, **self.cluster.dynamic.topic_settings}

    @property
    def unclean_leader_election_enable(self) -> bool:
        """The default for topics that do not configure it: from ZooKeeper, else from the properties file."""
        dynamic = self.cluster.dynamic.unclean_leader_election_enable
        return self.config.unclean_leader_election_enable if dynamic is None else dynamic
