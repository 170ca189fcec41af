"""Request versions of a cluster, selected by `inter.broker.protocol.version` (IBP) and not by a handshake.

A ZooKeeper-mode controller sends its three requests in the versions that the IBP selects, and queries no broker for
supported versions. The tables below are Kafka's own, up to 3.9, the last release with ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.kafka.control import ApiKey


class VersionRange(NamedTuple):
    """A range of supported versions of one API, both ends included."""

    min: int
    max: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


SPOKEN: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: VersionRange(1, 7),
        ApiKey.METADATA: VersionRange(0, 12),
        ApiKey.LEADER_AND_ISR: VersionRange(0, 7),
        ApiKey.STOP_REPLICA: VersionRange(0, 4),
        ApiKey.UPDATE_METADATA: VersionRange(0, 8),
        ApiKey.CONTROLLED_SHUTDOWN: VersionRange(0, 3),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.DESCRIBE_GROUPS: VersionRange(0, 5),
        ApiKey.LIST_GROUPS: VersionRange(0, 5),
        ApiKey.SASL_HANDSHAKE: VersionRange(0, 1),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.CREATE_TOPICS: VersionRange(0, 7),
        ApiKey.DELETE_TOPICS: VersionRange(0, 6),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 4),
        ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
        ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
        ApiKey.ELECT_LEADERS: VersionRange(0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.ALTER_PARTITION: VersionRange(0, 3),
        ApiKey.UPDATE_FEATURES: VersionRange(0, 1),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
        ApiKey.LIST_TRANSACTIONS: VersionRange(0, 1),
        ApiKey.OFFSET_FETCH: VersionRange(5, 7),
        ApiKey.OFFSET_COMMIT: VersionRange(7, 8),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
    }
)
"""Versions that `codec` can encode and decode, requests and responses alike."""

IBP_VERSIONS: Final = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2"),
    *("0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0"),
    *("2.0-IV0", "2.0-IV1", "2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1"),
    *("2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1"),
    *("3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
)
"""Every IBP of ZooKeeper-mode Kafka, oldest first."""

_RANKS: Final = {text: rank for rank, text in enumerate(IBP_VERSIONS)}
_RANKS_BY_RELEASE: Final = {text.partition("-")[0]: rank for rank, text in enumerate(IBP_VERSIONS)}
"""A release without `-IVn` means the last IBP of that release: later entries win."""


@dataclass(frozen=True, slots=True, order=True)
class InterBrokerProtocol:
    """A value of `inter.broker.protocol.version`; ordered by age. Build it with `parse`."""

    rank: int
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> InterBrokerProtocol:
        """Parse an IBP as Kafka does: `2.4` and `2.4.1` are 2.4-IV1, `2.8-IV0` is exactly that.

        Raises ValueError that names the text and what is accepted.
        """
        wanted = text.strip()
        segments = wanted.split(".")
        key = ".".join(segments[: 3 if wanted.startswith("0.") else 2])
        rank = _RANKS.get(key, _RANKS_BY_RELEASE.get(key))
        if rank is None:
            raise ValueError(
                f"inter.broker.protocol.version={text!r} is not a release of a ZooKeeper-mode Kafka; give a release "
                f"from 2.2 to 3.9, such as 2.8 or 3.4-IV0"
            )
        return cls(rank, IBP_VERSIONS[rank])

    def __str__(self) -> str:
        return self.text

    @property
    def has_feature_znode(self) -> bool:
        """True from 2.7-IV0 on: the controller maintains `/feature` (KIP-584)."""
        return self.rank >= _RANKS["2.7-IV0"]

    @property
    def has_alter_partition(self) -> bool:
        """True from 2.7-IV2 on: leaders send ISR changes to the controller instead of writing them (KIP-497)."""
        return self.rank >= _RANKS["2.7-IV2"]

    @property
    def creates_topic_ids(self) -> bool:
        """True from 2.8-IV0 on: the controller assigns ids to topics that have none (KIP-516)."""
        return self.rank >= _RANKS["2.8-IV0"]

    @property
    def finds_controller_in_broker_ids(self) -> bool:
        """True before 3.0-IV0: brokers up to 2.8 look up their controller in `/brokers/ids` before they stop."""
        return self.rank < _RANKS["3.0-IV0"]

    @property
    def has_leader_recovery_state(self) -> bool:
        """True from 3.2-IV0 on: state znodes and LeaderAndIsr record an unclean election (KIP-704)."""
        return self.rank >= _RANKS["3.2-IV0"]

    @property
    def has_kraft_controller_epoch(self) -> bool:
        """True from 3.4-IV0 on: `/controller` has version 2 with `kraftControllerEpoch`, brokers forward (KIP-866)."""
        return self.rank >= _RANKS["3.4-IV0"]


LATEST: Final = InterBrokerProtocol.parse("3.9")
OLDEST: Final = InterBrokerProtocol.parse("2.2-IV0")
"""The oldest supported IBP; older ones are in the table, so that messages can name them."""


class ControlVersions(NamedTuple):
    """Versions of the requests between controller and brokers under one IBP."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    controlled_shutdown: int
    describe_log_dirs: int = 1
    """From 4 on the answer tells how full the disks are (KIP-827)."""

    def of(self, api: ApiKey) -> int:
        """Return the version of one of the four APIs, or of DescribeLogDirs. Raises KeyError for another one."""
        return {
            ApiKey.LEADER_AND_ISR: self.leader_and_isr,
            ApiKey.UPDATE_METADATA: self.update_metadata,
            ApiKey.STOP_REPLICA: self.stop_replica,
            ApiKey.CONTROLLED_SHUTDOWN: self.controlled_shutdown,
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
        }[api]


_CONTROL_VERSIONS: Final = (
    ("0.8.0", ControlVersions(0, 0, 0, 0)),
    ("0.9.0", ControlVersions(0, 1, 0, 1)),
    ("0.10.0-IV1", ControlVersions(0, 2, 0, 1)),
    ("0.10.2-IV0", ControlVersions(0, 3, 0, 1)),
    ("1.0-IV0", ControlVersions(1, 4, 0, 1)),
    ("2.2-IV0", ControlVersions(2, 5, 1, 2)),
    ("2.4-IV0", ControlVersions(3, 5, 1, 2)),
    ("2.4-IV1", ControlVersions(4, 6, 2, 3)),
    ("2.6-IV0", ControlVersions(4, 6, 3, 3)),
    ("2.8-IV1", ControlVersions(5, 7, 3, 3)),
    ("3.2-IV0", ControlVersions(6, 7, 3, 3)),
    ("3.3-IV0", ControlVersions(6, 7, 3, 3, 4)),
    ("3.4-IV0", ControlVersions(7, 8, 4, 3, 4)),
)
"""(first IBP, versions from there on), oldest first. 2.2 and later are supported."""


def control_versions(ibp: InterBrokerProtocol) -> ControlVersions:
    """Return the versions that a controller and its brokers use under this IBP."""
    return next(versions for since, versions in reversed(_CONTROL_VERSIONS) if ibp.rank >= _RANKS[since])
