"""Replicas that have left an assignment, and which of them may stay on a disk.

A replica that is removed by a reassignment (or was being added by one that is cancelled) is told to go. If its broker
is away when the topic's znode is written, or the connection between controller and broker ends after that and before
the order is carried out, or one of the two does (the channel may outlive both), or the disk refuses, the directory
stays where it is: a *stray*. So does one that an earlier order, still on its way, makes after that. Nobody asks for it
any more, not even the deletion of its topic. A silent broker may have the order before it still when the znodes of the
topic go without its answer to the tombstone, which comes behind that order. Where nothing of this happened, no
directory may stay.

A copy of its own stays too: where somebody removes a partition's state by hand it begins again as new, and a
broker makes it in another log directory than the one that does not work at that moment, as Kafka's brokers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lethe.broker.core.effects import CreateReplica
from lethe.protocol.kafka.control import ControlResponse, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId
from tests.simulation import silences
from tests.simulation.ensemble import Writer
from tests.simulation.world import is_controller

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.ledger import Incarnation
    from tests.simulation.network import Channel


def after_write(cluster: Cluster, writer: Writer, incarnation: Incarnation) -> None:
    """A topic's znode was written: replicas that are none any more, and whose broker the writer does not know."""
    if not incarnation.departed:
        return
    channels = _channels(cluster, writer)
    for partition, broker in incarnation.departed:
        if is_controller(broker):
            continue
        if BrokerId(broker) not in channels or (partition, broker) in incarnation.refused:
            incarnation.strays[partition, broker] = None


def may_stay(
    cluster: Cluster, writer: Writer, agent: AgentProcess, incarnation: Incarnation, partition: int, log_dir: str
) -> bool:
    """The topic's znode goes, and this replica's directory is there: it is a stray, or becomes one if its order is
    lost; or it is another copy."""
    replica = (partition, int(agent.id))
    if replica in incarnation.strays or (*replica, log_dir) in incarnation.copies:
        return True
    channel = _channels(cluster, writer).get(agent.id)
    if replica not in incarnation.departed or channel is None or not channel.holds_deletion_of(incarnation, partition):
        return False
    if silences.why_not_shown(cluster, writer, agent, incarnation) is not None:
        return False
    incarnation.strays[replica] = None
    return True


def made(cluster: Cluster, agent: AgentProcess, operation: CreateReplica) -> None:
    """A replica's directory was made: what lies of a maimed partition in a log directory that does not work is another
    copy from now on, and orders reach the one that was made."""
    incarnation = None if operation.topic_id is None else cluster.ledger.by_id.get(operation.topic_id)
    partition = operation.topic_partition.partition
    if incarnation is None or partition not in incarnation.maimed:
        return
    name = str(operation.topic_partition)
    for broken in agent.disk.broken:
        there = agent.disk.log_dirs[broken].get(name)
        if there is not None and there.topic_id == incarnation.topic_id:
            incarnation.copies[partition, int(agent.id), broken] = None


def _channels(cluster: Cluster, writer: Writer) -> Mapping[BrokerId, Channel]:
    return next((each.channels for each in cluster.controllers if each.name == writer.name), {})


def orders_lost(cluster: Cluster, broker: BrokerId | None = None) -> None:
    """What a controller has told this broker (None: all) and was not done yet may never be done."""
    for incarnation in cluster.ledger.living.values():
        for replica in incarnation.departed:
            if broker is None or replica[1] == broker:
                incarnation.strays[replica] = None


def answered(cluster: Cluster, broker: BrokerId, response: ControlResponse) -> None:
    """A broker says that its disk does not let a replica go; or that the order is of an earlier leader epoch than it
    knows, where somebody has removed the state by hand and epochs have begun again."""
    if not isinstance(response, StopReplicaResponse):
        return
    for row in response.rows:
        incarnation = cluster.ledger.living.get(row.topic)
        if incarnation is None:
            continue
        is_fenced = row.error == ErrorCode.FENCED_LEADER_EPOCH and row.partition in incarnation.maimed
        if row.error != ErrorCode.KAFKA_STORAGE_ERROR and not is_fenced:
            continue
        if (row.partition, broker) in incarnation.departed:
            incarnation.strays[row.partition, broker] = None
        elif (row.partition, broker) in incarnation.released:
            incarnation.refused[row.partition, broker] = None
