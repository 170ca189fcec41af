"""Clients' requests for elections (ElectLeaders): of the preferred replica, or of one from outside the ISR.

    partition                                             result
    ----------------------------------------------------  ----------------------------------------------------------
    unknown                                               UNKNOWN_TOPIC_OR_PARTITION
    of a queued topic                                     INVALID_TOPIC_EXCEPTION
    preferred: the first replica leads                    ELECTION_NOT_NEEDED, left out of an answer about all
    preferred: the first replica is dead or not in sync   PREFERRED_LEADER_NOT_AVAILABLE
    unclean: a live broker leads                          ELECTION_NOT_NEEDED, left out of an answer about all
    unclean: no leader, a member of the ISR is live       that one is elected: nothing is lost
    unclean: no leader, no member of the ISR is live      the first live replica; the journal says what is lost
    unclean: no replica is live                           ELIGIBLE_LEADERS_NOT_AVAILABLE
    elected                                               NONE once every live broker has acknowledged an UpdateMetadata
                                                          with the leader; at the request's deadline REQUEST_TIMED_OUT

Only a client's request elects a leader from outside the ISR of a topic whose configuration forbids it. Codes and words
are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core import client_waits, requests
from lethe.controller.core.client_wait_memory import PartitionsLed
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.election import Elected, Strategy
from lethe.controller.core.leader_changes import choice
from lethe.controller.core.partition_sets import numbers_in, partition_columns
from lethe.controller.core.preferred import Obstacle, is_led_by_preferred, obstacle
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import NO_PARTITION, AwaitElected, ElectAsRequested, RefusedPartition
from lethe.controller.core.tasks_partitions import ElectLeaders
from lethe.protocol.kafka.admin_partitions import (
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    named_partitions,
    topic_outcomes,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import error_response
from lethe.protocol.vocabulary import LEADER_NONE, TopicPartition


class _Kind(NamedTuple):
    strategy: Strategy
    error: ErrorCode
    """Of a partition without an eligible leader."""
    kafka_name: str
    """Of the strategy, in messages."""


_KINDS: Final[Mapping[int, _Kind]] = MappingProxyType(
    {
        ElectionKind.PREFERRED: _Kind(
            Strategy.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "PreferredReplicaPartitionLeaderElectionStrategy",
        ),
        ElectionKind.UNCLEAN: _Kind(
            Strategy.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "OfflinePartitionLeaderElectionStrategy(true)"
        ),
    }
)
_NOT_NEEDED = RefusedPartition(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
_QUEUED = RefusedPartition(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
_NOT_WRITTEN = RefusedPartition(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def elect(step: StepContext, task: ElectAsRequested) -> None:
    """Check each partition of the request, and elect leaders where that is needed."""
    context = step.context
    request = requests.asked(context, task.key, ElectLeadersRequest)
    kind = _KINDS.get(request.kind)
    if kind is None:
        requests.answer(step, task.key, error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    rows = _rows(context, request, kind)
    needed = [topic_partition for topic_partition, problem in rows.items() if problem is None]
    elections = (ElectLeaders(partition_columns(needed), strategy=kind.strategy),) if needed else ()
    step.do(*elections, AwaitElected(task.key, rows))


def _rows(context: Context, request: ElectLeadersRequest, kind: _Kind) -> dict[TopicPartition, RefusedPartition | None]:
    """Return the rows of the answer, each with why it gets no election, or None."""
    rows = {each: _problem(context, each, kind) for each in _asked(context.cluster, request)}
    if request.topics is not None:
        return rows
    return {each: problem for each, problem in rows.items() if problem is not _NOT_NEEDED}


def _asked(cluster: ClusterState, request: ElectLeadersRequest) -> Iterator[TopicPartition]:
    """Yield the partitions of the request, each once; all means those that brokers show."""
    if request.topics is not None:
        yield from named_partitions(request.topics)
        return
    for name, topic in cluster.topics.items():
        if not cluster.is_queued(name):
            yield from (TopicPartition(name, number) for number in numbers_in(topic.led))


def _problem(context: Context, topic_partition: TopicPartition, kind: _Kind) -> RefusedPartition | None:
    """Return why the partition gets no election, or None."""
    cluster = context.cluster
    match obstacle(cluster, topic_partition):
        case Obstacle.NO_PARTITION:
            return NO_PARTITION
        case Obstacle.QUEUED:
            return _QUEUED
        case Obstacle.NO_LEADERSHIP:
            why = f"LeaderAndIsr information doesn't exist for partition {topic_partition} in NewPartition state"
            return RefusedPartition(kind.error, why)
        case None:
            return None if _is_needed(cluster, topic_partition, kind) else _NOT_NEEDED


def _is_needed(cluster: ClusterState, topic_partition: TopicPartition, kind: _Kind) -> bool:
    partition = cluster.partition(topic_partition)
    state = None if partition is None else partition.leader_and_isr
    if partition is None or state is None:
        return False
    if kind.strategy is Strategy.PREFERRED:
        return not is_led_by_preferred(partition)
    return state.leader == LEADER_NONE or not cluster.is_live(state.leader)


def await_elected(step: StepContext, task: AwaitElected) -> None:
    """Answer at once if no leader was elected, otherwise when brokers show the leaders or the time is over."""
    context = step.context
    request = requests.asked(context, task.key, ElectLeadersRequest)
    kind = _KINDS[request.kind]
    rows: list[tuple[TopicPartition, int, str | None]] = []
    awaited: list[PartitionsLed] = []
    for topic_partition, problem in task.rows.items():
        refused = _failure(context, topic_partition, kind) if problem is None else problem
        rows.append((topic_partition, *((ErrorCode.NONE, None) if refused is None else refused)))
        if refused is None:
            awaited.append(_shown(context.cluster, topic_partition))
    response = ElectLeadersResponse(topic_outcomes(rows))
    if awaited:
        client_waits.wait(step, task.key, response, awaited, request.timeout_ms)
    else:
        requests.answer(step, task.key, response)


def _failure(context: Context, topic_partition: TopicPartition, kind: _Kind) -> RefusedPartition | None:
    """Return why the election has failed, or None. Memory has a leader only after its write has succeeded."""
    problem = _problem(context, topic_partition, kind)
    if problem is not None:
        return None if problem is _NOT_NEEDED else problem
    partition = context.cluster.partition(topic_partition)
    if partition is None or partition.leader_and_isr is None:
        return NO_PARTITION
    result = choice(context, topic_partition, partition.assignment, partition.leader_and_isr, False, kind.strategy)
    if isinstance(result, Elected):
        return _NOT_WRITTEN
    why = f"Failed to elect leader for partition {topic_partition} under strategy {kind.kafka_name}"
    return RefusedPartition(kind.error, why)


def _shown(cluster: ClusterState, topic_partition: TopicPartition) -> PartitionsLed:
    """Return what brokers are to show: the partition's present leader."""
    topic = cluster.topics[topic_partition.topic]
    state = topic.partitions[topic_partition.partition].leader_and_isr
    leader = None if state is None else state.leader
    return PartitionsLed(topic_partition.topic, topic.id, (topic_partition.partition,), leader)
