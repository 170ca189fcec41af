"""Kafka's terms as types: identities, epochs, partitions, assignments, brokers.

Every value is immutable. Types with one value per partition or replica are NamedTuples: building one costs a third of
a frozen dataclass, and loading a large cluster builds 300,000.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, NewType

from lethe.protocol.counting import counted

BrokerId = NewType("BrokerId", int)
"""`broker.id` of a Kafka broker, or id of a Lethe controller. -1 means "none"."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""czxid (64 bits) of `/brokers/ids/N`: one incarnation of a broker. -1 means "unknown"."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""Number of the controller's term, as in `/controller_epoch`; the first one is 1."""

EpochVersion = NewType("EpochVersion", int)
"""ZooKeeper data version of `/controller_epoch` at our election; every write is fenced on it."""

TopicId = NewType("TopicId", uuid.UUID)
"""Identity of one incarnation of a topic (KIP-516)."""

NO_BROKER: Final = BrokerId(-1)
NO_EPOCH: Final = BrokerEpoch(-1)

MAX_PARTITIONS: Final = 1_000_000
"""No topic has a partition with this number or a higher one: its znode has no room for so many."""
LEADER_NONE: Final = -1
"""Leader id of a partition that has no leader."""
LEADER_DURING_DELETE: Final = -2
"""Leader id in UpdateMetadata that makes a broker drop the partition: the tombstone."""
EPOCH_DURING_DELETE: Final = -2
"""Leader epoch in StopReplica for a topic queued for deletion: accepted whatever the broker's epoch is."""
NO_LEADER_EPOCH: Final = -1
"""Leader epoch in StopReplica if the partition's leader epoch is unknown."""
INITIAL_LEADER_EPOCH: Final = 0

ZERO_TOPIC_ID: Final = TopicId(uuid.UUID(int=0))
"""On the wire: "this topic has no id"."""
_RESERVED_TOPIC_IDS: Final = frozenset({uuid.UUID(int=0), uuid.UUID(int=1)})

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
"""Topic of consumer groups and their offsets; the leader of a partition coordinates the groups in it."""

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
"""Topic of transactions; the leader of a partition coordinates the transactional ids in it."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of KRaft; no topic has this name."""
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})


class TopicPartition(NamedTuple):
    """One partition of one topic, printed as Kafka prints it: `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionReplica(NamedTuple):
    """The replica of one partition on one broker."""

    topic: str
    partition: int
    broker: BrokerId

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.broker}"


class RecoveryState(enum.IntEnum):
    """Whether a leader was elected cleanly (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """Leader and ISR of one partition from its state znode; `partition_epoch` is that znode's data version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    recovery_state: int = RecoveryState.RECOVERED


class ReplicaAssignment(NamedTuple):
    """Replicas of one partition, preferred first, and its reassignment in progress, if any (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that remain after the reassignment."""
        return tuple(r for r in self.replicas if r not in self.removing) if self.removing else self.replicas

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(r for r in self.replicas if r not in self.adding) if self.adding else self.replicas

    def reassign_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        """Return the assignment during the move from `origin` to `target` (KIP-455); idempotent."""
        origin = self.origin
        return ReplicaAssignment(
            replicas=target + tuple(r for r in origin if r not in target),
            adding=tuple(r for r in target if r not in origin),
            removing=tuple(r for r in origin if r not in target),
        )

    def also_removing(self, replicas: tuple[int, ...]) -> ReplicaAssignment:
        """Return the assignment with these unassigned replicas behind the others, to be removed."""
        return self._replace(replicas=self.replicas + replicas, removing=self.removing + replicas)

    def without(self, broker: int) -> ReplicaAssignment:
        """Return the assignment without this broker's replica."""
        return ReplicaAssignment(
            tuple(r for r in self.replicas if r != broker),
            tuple(r for r in self.adding if r != broker),
            tuple(r for r in self.removing if r != broker),
        )


class SecurityProtocol(enum.IntEnum):
    """Kafka's security protocols by their wire ids."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Endpoint(NamedTuple):
    """Address of a broker under one listener name."""

    listener: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def text(self) -> str:
        """As in `listeners`: `INTERNAL://h:9092`, with an address of IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker: the content of `/brokers/ids/N` and its czxid."""

    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = field(default=())
    """(feature, min_version, max_version), sorted by feature."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the endpoint of this listener name; None if the broker has no such listener."""
        return next((e for e in self.endpoints if e.listener == listener), None)

    @property
    def plaintext_endpoint(self) -> Endpoint | None:
        """The first endpoint without encryption and authentication; None if the broker has none."""
        return next((e for e in self.endpoints if e.protocol is SecurityProtocol.PLAINTEXT), None)


# --- topic ids ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def topic_id_to_text(topic_id: TopicId) -> str:
    """Return 22 characters of URL-safe base64 without padding, Kafka's text form."""
    # All topics are gone through in turn: a cache for fewer than there are would find none of them.
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Parse Kafka's text form. Raises ValueError naming the text if it is malformed."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"topic id {text!r} is not URL-safe base64: {error}") from error
    if len(raw) != 16:
        raise ValueError(f"topic id {text!r} has {counted(len(raw), 'byte')} instead of 16")
    return TopicId(uuid.UUID(bytes=raw))


def is_usable_topic_id(topic_id: uuid.UUID) -> bool:
    """False for the ids that Kafka never assigns: the reserved ones and those whose text starts with a dash."""
    return topic_id not in _RESERVED_TOPIC_IDS and not topic_id_to_text(TopicId(topic_id)).startswith("-")


# --- topic names --------------------------------------------------------------------------------------------------

MAX_TOPIC_NAME_LENGTH: Final = 249
_LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def topic_name_problem(name: str) -> str | None:
    """Return why Kafka would refuse the name, in its words; None if it is legal."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    elif not _LEGAL_TOPIC_NAME.match(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None if reason is None else f"Topic name is invalid: {reason}"


def metric_name(topic: str) -> str:
    """Return the topic's name as Kafka's metric names have it, which cannot tell '.' from '_'."""
    return topic.replace(".", "_")


def collides_with(name: str, existing: str) -> bool:
    """True if the names differ, and Kafka's metric names cannot tell them apart."""
    return name != existing and metric_name(name) == metric_name(existing)
