"""Replicas that have left an assignment, and which of them may stay on a disk: a reassignment waits for no answer.

As with Kafka, a replica that is removed by a reassignment (or was being added by one that is cancelled) is told to go,
and the reassignment is done. If its broker is away just then, or the connection between controller and broker ends
before the order is carried out, or the disk refuses, the directory stays where it is: a *stray*. So does one that an
earlier order, which was still on its way, makes after that. Nobody asks for it any
more, not even the deletion of its topic. Where nothing of this happened, no directory may stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from protocol.kafka.control import ControlResponse, StopReplicaRequest, StopReplicaResponse
from protocol.kafka.errors import ErrorCode
from protocol.vocabulary import BrokerId, TopicPartition
from tests.simulation.ensemble import Writer

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.ledger import Incarnation
    from tests.simulation.network import Channel


def after_write(cluster: Cluster, writer: Writer, incarnation: Incarnation) -> None:
    """A topic's znode was written: replicas that are none any more, and whose broker the writer does not know."""
    if not incarnation.departed:
        return
    channels = _channels(cluster, writer)
    for partition, broker in incarnation.departed:
        if BrokerId(broker) not in channels or (partition, broker) in incarnation.untold:
            incarnation.strays[partition, broker] = None


def after_leading(cluster: Cluster, writer: Writer, topic_partition: TopicPartition) -> None:
    """The state of a partition that moves was written: who is to go is told next, if the writer knows its broker. One
    that comes back before the znode is written is not told any more."""
    incarnation = cluster.ledger.living.get(topic_partition.topic)
    if incarnation is None or topic_partition.partition not in incarnation.assignments:
        return
    channels = _channels(cluster, writer)
    for broker in incarnation.assignments[topic_partition.partition].removing:
        if BrokerId(broker) not in channels:
            incarnation.untold[topic_partition.partition, broker] = None


def told(cluster: Cluster, broker: BrokerId, request: StopReplicaRequest) -> None:
    """A broker is sent this."""
    for topic in request.topics:
        incarnation = cluster.ledger.living.get(topic.topic)
        if incarnation is None:
            continue
        for row in topic.partitions:
            if row.delete:
                incarnation.untold.pop((row.partition, broker), None)


def _channels(cluster: Cluster, writer: Writer) -> Mapping[BrokerId, Channel]:
    return next((each.channels for each in cluster.controllers if each.name == writer.name), {})


def channel_closed(cluster: Cluster, broker: BrokerId) -> None:
    """What a controller has told this broker and was not done yet may never be done."""
    for incarnation in cluster.ledger.living.values():
        for partition, departed in incarnation.departed:
            if departed == broker:
                incarnation.strays[partition, broker] = None
        for partition, assignment in incarnation.assignments.items():
            if broker in assignment.removing:
                incarnation.untold[partition, broker] = None


def answered(cluster: Cluster, broker: BrokerId, response: ControlResponse) -> None:
    """A broker says that its disk does not let a replica go; or that the order is of an earlier leader epoch than it
    knows, where somebody has removed the state by hand and epochs have begun again."""
    if not isinstance(response, StopReplicaResponse):
        return
    for row in response.partitions:
        incarnation = cluster.ledger.living.get(row.topic)
        if incarnation is None:
            continue
        is_fenced = row.error == ErrorCode.FENCED_LEADER_EPOCH and row.partition in incarnation.maimed
        if row.error != ErrorCode.KAFKA_STORAGE_ERROR and not is_fenced:
            continue
        if (row.partition, broker) in incarnation.departed:
            incarnation.strays[row.partition, broker] = None
        elif (row.partition, broker) in incarnation.released:
            incarnation.untold[row.partition, broker] = None
