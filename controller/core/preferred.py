"""Elects preferred leaders: the first replica of each assignment.

On request, `/admin/preferred_replica_election` names partitions; the election is tried once. Regularly, each broker's
imbalance is checked: the share of the partitions that prefer it and are led by another broker.

    broker 1 is preferred by 20 partitions and leads 17 of them    imbalance 15 %: with the limit 10 %, up to 3 move

Partitions whose preferred replica is not live or not in the ISR are left out, and so are queued topics.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from lethe.controller.core import election
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.effects import RebalanceLeaders
from lethe.controller.core.election import Strategy
from lethe.controller.core.leader_changes import online
from lethe.controller.core.partition_sets import by_topic, partition_columns
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import ElectLeaders, Partitions
from lethe.controller.core.tasks_requests import (
    PreferredElectionsRead,
    PreferredElectionsRemoved,
    RemovePreferredElections,
)
from lethe.controller.core.topic import Partition
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Data,
    Delete,
    Exists,
    GetData,
    ReadOutcome,
    ZkError,
    error_words,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

FIRST_REBALANCE_MS: Final = 5_000
"""Wait after the takeover, as in Kafka: brokers that restarted with the controller may be back by then."""
_ELECTION: Final = "electing the preferred replica"


class Obstacle(enum.Enum):
    """Why no leader of a partition can be elected on request, in words for event records."""

    NO_PARTITION = "there is no such partition"
    QUEUED = "the topic is being deleted"
    NO_LEADERSHIP = "the partition has no leadership yet"


def obstacle(cluster: ClusterState, topic_partition: TopicPartition) -> Obstacle | None:
    """Return why no leader of this partition can be elected on request, or None."""
    partition = cluster.partition(topic_partition)
    if partition is None or not partition.assignment.replicas:
        return Obstacle.NO_PARTITION
    if cluster.is_queued(topic_partition.topic):
        return Obstacle.QUEUED
    return Obstacle.NO_LEADERSHIP if partition.leader_and_isr is None else None


def is_led_by_preferred(partition: Partition) -> bool:
    """Return whether the first replica of the assignment leads."""
    leader_and_isr = partition.leader_and_isr
    return leader_and_isr is not None and leader_and_isr.leader == partition.assignment.replicas[0]


# --- asked for ----------------------------------------------------------------------------------------------------


def read(step: StepContext) -> None:
    """Read the request, and watch for changes."""
    path = paths.preferred_replica_election()
    step.read((Exists(path, watch=True), GetData(path)), PreferredElectionsRead())


def on_preferred_elections_read(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Elect the requested leaders where possible, in one task, and remove the request."""
    content = outcomes[1]
    if not isinstance(content, Data):
        if (error := read_error(content)) is not None:
            step.refuse("cluster", _ELECTION, f"reading {paths.preferred_replica_election()}: {error_words(error)}")
        return
    try:
        asked = znodes.decode_preferred_replica_election(content.data)
    except znodes.MalformedZnode as error:
        step.refuse("cluster", _ELECTION, str(error))
        asked = ()
    # The removal expects this version: the watch reports a later request.
    step.do(
        ElectLeaders(partition_columns(_sensible(step, asked)), strategy=Strategy.PREFERRED),
        RemovePreferredElections(content.stat.version),
    )


def _sensible(step: StepContext, asked: Partitions) -> Partitions:
    """Return the requested partitions that exist, are not queued, and have another leader; refuse the rest."""
    cluster = step.context.cluster
    chosen: list[TopicPartition] = []
    refused: dict[Obstacle, list[TopicPartition]] = {}
    for topic_partition in asked:
        why_not = obstacle(cluster, topic_partition)
        partition = cluster.partition(topic_partition)
        if why_not is not None:
            refused.setdefault(why_not, []).append(topic_partition)
        elif partition is not None and not is_led_by_preferred(partition):
            chosen.append(topic_partition)
    for why, partitions in refused.items():
        step.refuse_partitions(by_topic(partitions), _ELECTION, why.value)
    return tuple(chosen)


def remove(step: StepContext, task: RemovePreferredElections) -> None:
    """Remove the request that was read, if it is unchanged."""
    step.write([(Delete(paths.preferred_replica_election(), task.version),)], PreferredElectionsRemoved())


def on_preferred_elections_removed(step: StepContext, outcome: GroupOutcome) -> None:
    """Record a failed removal. After a success or a conflict, the watch causes another read."""
    if isinstance(outcome, GroupFailed) and outcome.error not in (ZkError.NO_NODE, ZkError.BAD_VERSION):
        path = paths.preferred_replica_election()
        step.refuse("cluster", f"removing {path}", f"{error_words(outcome.error)}; remove it by hand")


# --- from time to time --------------------------------------------------------------------------------------------


def schedule_first_rebalance(step: StepContext) -> None:
    """Set the timer for the first check after the takeover; `rebalance` sets it again."""
    if step.context.config.auto_leader_rebalance_enable:
        step.set_timer(RebalanceLeaders(), step.now_ms + FIRST_REBALANCE_MS)


def rebalance(step: StepContext) -> None:
    """Elect the preferred replicas on brokers above the configured imbalance."""
    context = step.context
    step.set_timer(RebalanceLeaders(), step.now_ms + context.config.leader_imbalance_check_interval_ms)
    chosen = _imbalanced(context)
    if chosen:
        step.do(ElectLeaders(partition_columns(chosen), strategy=Strategy.PREFERRED))


def _imbalanced(context: Context) -> Partitions:
    """Return partitions to move, of brokers above the configured imbalance.

    Partitions in reassignment are included, as in Kafka since 3.4: a stuck one must not stop the rest."""
    preferring: dict[int, int] = {}
    led_by_another: dict[int, list[tuple[TopicPartition, Partition, LeaderAndIsr]]] = {}
    for topic_partition, partition in context.cluster.all_partitions():
        replicas, leader_and_isr = partition.assignment.replicas, partition.leader_and_isr
        if not replicas or context.cluster.is_queued(topic_partition.topic):
            continue
        preferred = replicas[0]
        preferring[preferred] = preferring.get(preferred, 0) + 1
        if leader_and_isr is not None and leader_and_isr.leader != preferred:
            led_by_another.setdefault(preferred, []).append((topic_partition, partition, leader_and_isr))
    percentage = context.config.leader_imbalance_per_broker_percentage
    return tuple(
        topic_partition
        for preferred, rows in led_by_another.items()
        if 100 * len(rows) > percentage * preferring[preferred]
        for topic_partition, partition, leader_and_isr in rows
        if _can_lead(context, topic_partition, partition, leader_and_isr)
    )


def _can_lead(context: Context, topic_partition: TopicPartition, partition: Partition, current: LeaderAndIsr) -> bool:
    is_online = online(context, topic_partition)
    return isinstance(
        election.preferred(partition.assignment, current, is_online, context.cluster.epoch), election.Elected
    )
