"""What an answer of ZooKeeper says of one of Kafka's znodes, for tools.

    ZooKeeper answers                result
    -------------------------------  ------------------------
    data that can be understood      the value
    NO_NODE                          None
    data that cannot be understood   raises MalformedZnode
    any other error, as NO_AUTH      raises ZnodeUnreadable

A command lets both errors end it, or shows them with the topic that they belong to. A survey notes them as problems.
"""

from __future__ import annotations

from collections.abc import Mapping

from lethe.protocol.vocabulary import Broker, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, ReadFailed, ReadOutcome, ZkError
from lethe.protocol.zookeeper.znodes import (
    TopicZnode,
    decode_broker,
    decode_reassignment,
    decode_state,
    decode_topic,
    is_controller_registration,
)


class ZnodeUnreadable(Exception):
    """ZooKeeper answered a read with an error that does not mean "there is none"."""

    def __init__(self, path: str, what: str, outcome: ReadOutcome) -> None:
        self.path = path
        self.reason = (
            outcome.error.name if isinstance(outcome, ReadFailed) else f"an unexpected {type(outcome).__name__}"
        )
        super().__init__(f"ZooKeeper does not {what} of {path}: {self.reason}")


def data_of(outcome: ReadOutcome, path: str) -> Data | None:
    """The data that was read. Raises ZnodeUnreadable."""
    match outcome:
        case Data():
            return outcome
        case ReadFailed(error=ZkError.NO_NODE):
            return None
        case _:
            raise ZnodeUnreadable(path, "give the data", outcome)


def children_of(outcome: ReadOutcome, path: str) -> tuple[str, ...] | None:
    """The names of the children that were listed. Raises ZnodeUnreadable."""
    match outcome:
        case Children(names):
            return names
        case ReadFailed(error=ZkError.NO_NODE):
            return None
        case _:
            raise ZnodeUnreadable(path, "list the children", outcome)


def topic_of(outcome: ReadOutcome, name: str) -> TopicZnode | None:
    """`/brokers/topics/NAME`. Raises MalformedZnode and ZnodeUnreadable, as all below."""
    data = data_of(outcome, paths.topic(name))
    return None if data is None else decode_topic(name, data.data)


def state_of(outcome: ReadOutcome, partition: TopicPartition) -> LeaderAndIsr | None:
    """The partition's state znode."""
    data = data_of(outcome, paths.partition_state(*partition))
    return None if data is None else decode_state(*partition, data.data, data.stat.version)


def broker_of(outcome: ReadOutcome, broker: int) -> Broker | None:
    """`/brokers/ids/BROKER`; None also where a controller is registered there."""
    data = data_of(outcome, paths.broker_id(broker))
    if data is None or is_controller_registration(data.data):
        return None
    return decode_broker(broker, data.stat.czxid, data.data)


def reassignment_of(outcome: ReadOutcome) -> Mapping[TopicPartition, tuple[int, ...]]:
    """What `/admin/reassign_partitions` asks for; empty where there is none."""
    data = data_of(outcome, paths.REASSIGN_PARTITIONS)
    return {} if data is None else decode_reassignment(data.data)
