"""Controlled shutdown: moves leadership away from a broker before it stops.

    the leaving broker                    result
    ------------------------------------  ----------------------------------------------------------------------
    leads a partition                     another replica is elected, if one is live and in the ISR
    follows                               it gets StopReplica (without delete), then leaves the ISR
    has the only replica                  the partition is ignored: no replica could take over
    has a replica of a queued topic       the partition is ignored: it has no leader

The answer lists the partitions that the broker still leads. The broker stops if the list is empty; else it repeats the
request a few times. From the first request until its registration is removed it counts as shutting down and gets no new
replicas. A shutdown never waits for a deletion; the deletion goes on when the broker returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.election import Strategy
from lethe.controller.core.partition_sets import columns_of, packed
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_partitions import ElectLeaders, MoveReplicas
from lethe.controller.core.tasks_requests import AnswerControlledShutdown, ControlShutdown, StopFollowers
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition


def begin(step: StepContext, task: ControlShutdown) -> None:
    """Queue the tasks: elect other leaders, shrink the ISRs, answer."""
    context = step.context
    cluster = context.cluster
    request = requests.asked(context, task.key, ControlledShutdownRequest)
    problem = _problem(context, request)
    if problem is not None:
        step.refuse(f"broker/{request.broker_id}", "controlled shutdown", error_name(problem))
        requests.answer(step, task.key, ControlledShutdownResponse(problem))
        return
    leaving = request.broker_id
    if leaving not in cluster.shutting_down:
        cluster.shutting_down[leaving] = None
        epoch = cluster.brokers[leaving].epoch
        step.record(EventRecordType.BROKER, f"broker/{leaving}", what="shutting down", broker_epoch=epoch)
    led: dict[str, list[int]] = {}
    followed: list[PartitionReplica] = []
    for topic_partition, leader_and_isr in _concerned(context, leaving):
        if leader_and_isr.leader == leaving:
            led.setdefault(topic_partition.topic, []).append(topic_partition.partition)
            continue
        replica = PartitionReplica(*topic_partition, leaving)
        # A replica that a reassignment adds and has not announced yet is on no disk.
        if cluster.replica_state(replica) is not ReplicaState.NON_EXISTENT:
            followed.append(replica)
    replicas = tuple(followed)
    step.do(
        ElectLeaders(packed(led), strategy=Strategy.CONTROLLED_SHUTDOWN),
        StopFollowers(replicas),
        MoveReplicas(columns_of(replicas), ReplicaState.OFFLINE),
        AnswerControlledShutdown(task.key),
    )


def _problem(context: Context, request: ControlledShutdownRequest) -> ErrorCode | None:
    """Return Kafka's error for the request, or None. The broker epoch is checked only if the request has one."""
    broker = context.cluster.brokers.get(request.broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE if request.broker_epoch == NO_EPOCH else ErrorCode.UNKNOWN_SERVER_ERROR
    if request.broker_epoch != NO_EPOCH and request.broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def _concerned(context: Context, leaving: BrokerId) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """Yield partitions with a replica on the leaving broker that another replica could serve."""
    cluster = context.cluster
    for topic_partition, partition in cluster.all_partitions():
        replicas = partition.assignment.replicas
        if leaving not in replicas or len(replicas) < 2 or cluster.is_queued(topic_partition.topic):
            continue
        if cluster.advertised_controllers and all(r == leaving or cluster.is_advertised(r) for r in replicas):
            continue
        if partition.leader_and_isr is not None:
            yield topic_partition, partition.leader_and_isr


def stop_followers(step: StepContext, task: StopFollowers) -> None:
    """Stop these replicas before the ISR is written: a replica that still fetches would join the ISR again."""
    batch = step.batch()
    for replica in task.replicas:
        batch.add_stop_replica(replica.broker, replica.topic_partition, delete=False)
    step.flush(batch)


def answer(step: StepContext, task: AnswerControlledShutdown) -> None:
    """Answer with the partitions that the broker still leads; an empty list lets it stop."""
    context = step.context
    leaving = requests.asked(context, task.key, ControlledShutdownRequest).broker_id
    remaining = tuple(
        RemainingPartition(*topic_partition)
        for topic_partition, leader_and_isr in _concerned(context, leaving)
        if leader_and_isr.leader == leaving
    )
    step.record(EventRecordType.BROKER, f"broker/{leaving}", what="relieved", remaining=len(remaining))
    requests.answer(step, task.key, ControlledShutdownResponse(ErrorCode.NONE, remaining))
