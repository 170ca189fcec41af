"""What the core must know of the configuration: the properties file's part, and what comes before it at run time."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, Endpoint


class Takeover(enum.Enum):
    """Whether control is taken from one of Kafka's own controllers that holds it; the values are the property's."""

    NEVER = "never"
    """It is waited for until nobody holds it."""
    ONCE = "once"
    """At most once while the process lives."""
    ALWAYS = "always"
    """Again and again, at growing intervals."""


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """What the core must know of the controller's configuration. Times in milliseconds."""

    controller_id: BrokerId
    ibp: InterBrokerProtocol
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    control_listener: str | None = None
    """Listener under which brokers are reached; None: their first one."""
    endpoints: tuple[Endpoint, ...] = ()
    """Where brokers reach this controller. With any it is *listed*: UpdateMetadata names it among the live brokers."""
    retry_min_ms: int = 500
    """Wait before a failed deletion request is repeated for the first time; doubles up to `retry_max_ms`."""
    retry_max_ms: int = 30_000
    tombstone_timeout_ms: int = 300_000
    """After so long with nothing left to wait for but answers to the tombstone, a topic's znodes go and its silent
    brokers owe the answer; 0: never."""
    stand_back_off_min_ms: int = 500
    """Wait after a fault before standing for election again; doubles up to `stand_back_off_max_ms`."""
    stand_back_off_max_ms: int = 30_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_per_broker_percentage: int = 10
    max_operations_per_group: int = 800
    """A topic whose znodes are more than this is removed in several multis, the topic's own znode in the last."""
    takeover: Takeover = Takeover.NEVER
    takeover_grace_ms: int = 5_000
    """After `/controller` was taken the epoch is raised so much later, when who had it has noticed."""
    takeover_interval_ms: int = 60_000
    """Between two takings of control; doubles up to `takeover_interval_max_ms`."""
    takeover_interval_max_ms: int = 3_600_000
    powerless_after_ms: int = 5_000
    """A controller that no broker has obeyed for so long is not ready."""
    silent_after_ms: int = 10_000
    """A broker that owes an answer for longer counts as silent."""
    resign_refused_ms: int = 15_000
    """It resigns after so long where every broker refuses it..."""
    resign_silent_ms: int = 300_000
    """...and after so long where some are only silent: one that works on a large request answers nothing meanwhile."""
    preflight_back_off_max_ms: int = 5_000
    """Longest wait between two looks whether the registered brokers can be commanded."""
    only_topics: frozenset[str] | None = None
    """Of the marked topics only these are deleted, and the markers of all others stay; None: all of them."""
    cache_look_rest: int = 9
    """After reading a broker's whole metadata cache, so many times as long as that took until the next one is read."""
    admin: str | None = None
    """URL of our HTTP server, which `/controller` tells to tools."""


class Unreadable(NamedTuple):
    """A znode of the brokers' configuration that could not be read or understood."""

    path: str
    why: str
    since_ms: int


class DynamicConfig(NamedTuple):
    """What is configured in ZooKeeper and comes before our own configuration; None: nothing is."""

    delete_topic_enable: bool | None = None
    unclean_leader_election_enable: bool | None = None
    deletion_unknown: Unreadable | None = None
    """Why nobody can say whether topics may be deleted: since we took over, it could not be read or understood."""


NOTHING_CONFIGURED: Final = DynamicConfig()
