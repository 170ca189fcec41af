"""What a controller knows: the whole of its memory, in one object that can be copied, compared and hashed.

What it knows only while it leads is in `cluster`, which is replaced as a whole when it resigns. What is to follow the
outstanding read or write is `awaited`, and what is to follow that is `agenda`: values, not suspended coroutines.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.deletion_memory import RefusedMark, RetryOf
from lethe.controller.core.effects import Timer
from lethe.controller.core.endpoints import control_endpoint
from lethe.controller.core.raises import Raises
from lethe.controller.core.takings import Takings
from lethe.protocol.vocabulary import NO_BROKER, Broker, BrokerId, Endpoint

if TYPE_CHECKING:
    from lethe.controller.core.agenda import Task
    from lethe.controller.core.continuations import Awaited


class Role(enum.Enum):
    NO_SESSION = "no session"
    STANDING_BY = "standing by"
    """Another controller is active, or an election is under way."""
    BACKING_OFF = "backing off"
    """After a fault: not standing until a timer fires."""
    REFUSED = "refused"
    """The cluster must not be controlled by us; `refusal` says why. `/controller` is still watched."""
    TAKING = "taking control"
    """Holds `/controller`, and leaves its former holder time to notice before the epoch is raised."""
    LOADING = "loading"
    """Elected; reading the cluster."""
    ACTIVE = "active"
    RETIRED = "retired"
    """Has given control up for good; `/controller` is still watched."""


_LEADING: Final = (Role.LOADING, Role.ACTIVE)
"""Looked up once: a member of an enumeration costs more than the question that it is needed for."""


class LeftBehind(NamedTuple):
    """What brokers' metadata caches may still show of deleted topics when control is given up for good. By broker, the
    topics. `gone` and `marked`: tombstones that the broker has not answered."""

    gone: Mapping[BrokerId, tuple[str, ...]]
    """Their znodes are gone: no later controller can know of them from ZooKeeper."""
    marked: Mapping[BrokerId, tuple[str, ...]]
    """They are marked: the next controller is to go on with them."""
    ghosts: Mapping[BrokerId, tuple[str, ...]]
    """The cache of this registered broker was seen to have them, and ZooKeeper has not."""
    missed: Mapping[BrokerId, tuple[str, ...]]
    """They were deleted, or found to be ghosts, before or while the broker was not registered; its cache has not been
    seen since."""

    @property
    def is_nothing(self) -> bool:
        return not any(self)


NOTHING_LEFT: Final = LeftBehind({}, {}, {}, {})


@dataclass(slots=True)
class Context:
    config: CoreConfig
    # --- the tenure
    role: Role = Role.NO_SESSION
    session_id: int = 0
    active_controller: BrokerId = NO_BROKER
    faults_in_a_row: int = 0
    refusal: str | None = None
    retired: bool = False
    """Whoever asked us to give control up does not want us to stand again."""
    left_behind: LeftBehind = NOTHING_LEFT
    """What was left when control was given up for good."""
    takings: Takings = field(default_factory=Takings)
    raises: Raises = field(default_factory=Raises)
    preflights_failed: int = 0
    """Preflights in a row that found too little power to take control with."""
    preflight_problem: str | None = None
    """What the latest of these found."""
    preflight_passed_ms: int | None = None
    """When brokers last obeyed a probe, or this controller at the end of a term."""
    entropy: bytes = b""
    ids_made: int = 0
    """Topic ids made from `entropy` so far."""
    # --- what is going on
    agenda: deque[Task] = field(default_factory=deque)
    awaited: Awaited | None = None
    """The one read, write or probe that is outstanding."""
    last_effect_id: int = 0
    last_request_id: int = 0
    timers: dict[Timer, int] = field(default_factory=dict)
    """Timers that are set and when they are due; one that is not in here is ignored when it fires."""
    refused_marks: dict[str, RefusedMark] = field(default_factory=dict)
    """Topics whose marker was removed without them, oldest first; of very many the latest."""
    cluster: ClusterState = field(default_factory=ClusterState)
    """What is known only while this controller leads."""
    # --- counted since the process started
    ghosts_cured: int = 0
    """Topics that a broker's metadata cache had and ZooKeeper had not, and that the cache has lost since."""
    elections: int = 0
    """Leaders elected."""
    unclean_elections: int = 0
    deletion_retries: dict[tuple[RetryOf, str], int] = field(default_factory=dict)
    """What failed and why to how often; of very many reasons the later ones count as one."""

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def awaiting_result(self) -> bool:
        """A read or write is outstanding: its result must be the next event."""
        return self.awaited is not None

    @property
    def is_leading(self) -> bool:
        """We hold `/controller`, as far as we know."""
        return self.role in _LEADING

    @property
    def holds_controller(self) -> bool:
        """`/controller` is ours, as far as we know, whether or not we lead already."""
        return self.is_leading or self.role is Role.TAKING

    def control_endpoint(self, broker: Broker) -> Endpoint:
        """Where the controller reaches the broker: see `endpoints`."""
        return control_endpoint(self.config, broker)

    @property
    def delete_topic_enable(self) -> bool:
        dynamic = self.cluster.dynamic.delete_topic_enable
        return self.config.delete_topic_enable if dynamic is None else dynamic

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Where a topic's own configuration says nothing; whoever configured that, at run time or in a file."""
        dynamic = self.cluster.dynamic.unclean_leader_election_enable
        return self.config.unclean_leader_election_enable if dynamic is None else dynamic
