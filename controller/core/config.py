"""What the core must know of the configuration: the properties file's part, and what comes before it at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.kafka.versions import InterBrokerProtocol
from protocol.vocabulary import BrokerId, Endpoint


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
    stand_back_off_min_ms: int = 500
    """Wait after a fault before standing for election again; doubles up to `stand_back_off_max_ms`."""
    stand_back_off_max_ms: int = 30_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_per_broker_percentage: int = 10
    max_operations_per_group: int = 800
    """A topic whose znodes are more than this is removed in several multis, the topic's own znode in the last."""
    admin: str | None = None
    """URL of our HTTP server, which `/controller` tells to tools."""


class DynamicConfig(NamedTuple):
    """What is configured in ZooKeeper and comes before our own configuration; None: nothing is."""

    delete_topic_enable: bool | None = None
    unclean_leader_election_enable: bool | None = None


NOTHING_CONFIGURED: Final = DynamicConfig()
