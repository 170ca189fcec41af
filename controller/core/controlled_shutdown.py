"""A broker asks to be relieved before it stops, so that its partitions are without a leader for as short as can be.

What it leads and somebody else can lead, gets another leader; where it follows, it is told to fetch no more and leaves
the ISR. The broker is told what it still leads, and goes when that is nothing; else it asks again, a few times. From
the first request until its registration goes it counts as shutting down: nothing is given to it any more.

Two kinds of partitions never hold a broker up: those of which it has the only replica, since nobody could take over,
and those of topics queued for deletion, since nobody leads what is being deleted. A shutdown never waits for a
deletion; a deletion uses the time there is, and goes on when the broker is back.
"""

from __future__ import annotations

from collections.abc import Iterator

from lethe.controller.core import requests
from lethe.controller.core.agenda_partitions import ElectLeaders, MoveReplicas
from lethe.controller.core.agenda_requests import AnswerControlledShutdown, ControlShutdown, StopFollowers
from lethe.controller.core.context import Context
from lethe.controller.core.election import Strategy
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, LeaderAndIsr, PartitionReplica, TopicPartition


def begin(turn: Turn, task: ControlShutdown) -> None:
    """Leaders first, then the ISRs, then the answer."""
    context = turn.context
    cluster = context.cluster
    request = requests.asked(context, task.key, ControlledShutdownRequest)
    problem = _problem(context, request)
    if problem is not None:
        turn.refuse(f"broker/{request.broker_id}", "controlled shutdown", error_name(problem))
        requests.answer(turn, task.key, ControlledShutdownResponse(problem))
        return
    leaving = request.broker_id
    if leaving not in cluster.shutting_down:
        cluster.shutting_down[leaving] = None
        epoch = cluster.brokers[leaving].epoch
        turn.record(FactType.BROKER, f"broker/{leaving}", what="shutting down", broker_epoch=epoch)
    led: list[TopicPartition] = []
    followed: list[PartitionReplica] = []
    for topic_partition, leadership in _concerned(context, leaving):
        if leadership.leader == leaving:
            led.append(topic_partition)
            continue
        replica = PartitionReplica(*topic_partition, leaving)
        # One that a reassignment adds and could not announce yet is on no disk.
        if cluster.replica_state(replica) is not ReplicaState.NON_EXISTENT:
            followed.append(replica)
    replicas = tuple(followed)
    turn.do(
        ElectLeaders(tuple(led), strategy=Strategy.CONTROLLED_SHUTDOWN),
        StopFollowers(replicas),
        MoveReplicas(replicas, ReplicaState.OFFLINE),
        AnswerControlledShutdown(task.key),
    )


def _problem(context: Context, request: ControlledShutdownRequest) -> ErrorCode | None:
    """Kafka's answers: one that does not know its epoch is not asked for it."""
    broker = context.cluster.brokers.get(request.broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE if request.broker_epoch == NO_EPOCH else ErrorCode.UNKNOWN_SERVER_ERROR
    if request.broker_epoch != NO_EPOCH and request.broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def _concerned(context: Context, leaving: BrokerId) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    """Partitions with a replica on the broker that somebody else can serve."""
    cluster = context.cluster
    for topic_partition, partition in cluster.all_partitions():
        replicas = partition.assignment.replicas
        if leaving not in replicas or len(replicas) < 2 or cluster.is_queued(topic_partition.topic):
            continue
        if cluster.residents and all(r == leaving or cluster.is_resident(r) for r in replicas):
            continue
        if partition.leadership is not None:
            yield topic_partition, partition.leadership


def stop_followers(turn: Turn, task: StopFollowers) -> None:
    """Before the ISR is written: a replica that goes on fetching would be taken in again."""
    batch = turn.batch()
    for replica in task.replicas:
        batch.add_stop_replica(replica.broker, replica.topic_partition, delete=False)
    turn.flush(batch)


def answer(turn: Turn, task: AnswerControlledShutdown) -> None:
    """What the broker still leads; nothing means that it may go."""
    context = turn.context
    leaving = requests.asked(context, task.key, ControlledShutdownRequest).broker_id
    remaining = tuple(
        RemainingPartition(*topic_partition)
        for topic_partition, leadership in _concerned(context, leaving)
        if leadership.leader == leaving
    )
    turn.record(FactType.BROKER, f"broker/{leaving}", what="relieved", remaining=len(remaining))
    requests.answer(turn, task.key, ControlledShutdownResponse(ErrorCode.NONE, remaining))
