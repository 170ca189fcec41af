"""Reads Kafka's znodes for commands, and decodes ZooKeeper's answers about them.

    ZooKeeper answers                result
    -------------------------------  ------------------------
    data that can be understood      the value
    the Stat of a znode that exists  the answer, with the Stat
    NO_NODE                          None
    data that cannot be understood   raises MalformedZnode
    any other error, like NO_AUTH    raises ZnodeUnreadable

Either error ends a command, or the command shows it with its topic. A survey records both as problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import Broker, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetData,
    Present,
    ReadOutcome,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import (
    TopicZnode,
    decode_broker,
    decode_reassignment,
    decode_state,
    decode_topic,
    is_controller_registration,
)

Outcome = TypeVar("Outcome", Data, Present, Children)


class ZnodeUnreadable(Exception):
    """ZooKeeper answered a read with an error that does not mean "there is none"."""

    def __init__(self, path: str, what: str, outcome: ReadOutcome) -> None:
        self.path = path
        self.reason = failure_words(outcome)
        super().__init__(f"ZooKeeper does not {what} of {path}: {self.reason}")


def data_of(outcome: ReadOutcome, path: str) -> Data | None:
    """Return the data that was read. Raises ZnodeUnreadable."""
    return _found(outcome, Data, path, "give the data")


def stat_of(outcome: ReadOutcome, path: str) -> Present | None:
    """Return the answer to an Exists. Raises ZnodeUnreadable: newer ZooKeepers refuse Exists for unreadable znodes."""
    return _found(outcome, Present, path, "tell the existence")


def children_of(outcome: ReadOutcome, path: str) -> tuple[str, ...] | None:
    """Return the names of the children. Raises ZnodeUnreadable."""
    listed = _found(outcome, Children, path, "list the children")
    return None if listed is None else listed.names


def _found(outcome: ReadOutcome, kind: type[Outcome], path: str, what: str) -> Outcome | None:
    if isinstance(outcome, kind):
        return outcome
    if is_absent(outcome):
        return None
    raise ZnodeUnreadable(path, what, outcome)


async def read_data(session: ZooKeeperSession, path: str) -> Data | None:
    """Read the data of one znode. Raises ZnodeUnreadable."""
    (outcome,) = await session.read([GetData(path)])
    return data_of(outcome, path)


def topic_of(outcome: ReadOutcome, name: str) -> TopicZnode | None:
    """Return `/brokers/topics/NAME`. Raises MalformedZnode and ZnodeUnreadable, as all below."""
    data = data_of(outcome, paths.topic(name))
    return None if data is None else decode_topic(name, data.data)


def state_of(outcome: ReadOutcome, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the partition's state znode."""
    data = data_of(outcome, paths.partition_state(*partition))
    return None if data is None else decode_state(*partition, data.data, data.stat.version)


def broker_of(outcome: ReadOutcome, broker: int) -> Broker | None:
    """Return `/brokers/ids/BROKER`; None also where a controller is registered there."""
    data = data_of(outcome, paths.broker_id(broker))
    if data is None or is_controller_registration(data.data):
        return None
    return decode_broker(broker, data.stat.czxid, data.data)


def reassignment_of(outcome: ReadOutcome) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Return the target replicas in `/admin/reassign_partitions`; empty where it does not exist."""
    data = data_of(outcome, paths.REASSIGN_PARTITIONS)
    return {} if data is None else decode_reassignment(data.data)
