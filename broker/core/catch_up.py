"""Catching up: when a replica that was made empty is filled.

An agent moves no records, so what a follower would have fetched is put into its directory after a delay. When that may
happen is as with Kafka, whose follower holds nothing before it has fetched it:

* A leader's replica is filled when the LeaderAndIsr that names it is taken in (broker.core.leader_and_isr).
* A follower's is filled a delay after the LeaderAndIsr that named its leader, if that broker is then among the live
  ones of the metadata cache; otherwise the delay begins again when that broker comes back.
* With leader -1 or less nobody leads, and nothing is filled; nor is it after a StopReplica, which ends the fetching.
  (When a replica begins and ends to fetch: broker.core.roles.)

A controller announces a replica to a broker before it asks for the deletion. Such a replica gets no bytes. A directory
that held anything when the agent started counts as filled.
"""

from __future__ import annotations

from typing import Final

from lethe.broker.core.effects import Effect, FillReplica, PerformDisk
from lethe.broker.core.inputs import DiskOutcome
from lethe.broker.core.records import record_problem
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.stages import FillStage
from lethe.broker.core.state import AgentState
from lethe.broker.core.storage import fail_log_dir

MAX_FILLS_PER_ROUND: Final = 256
"""Control requests wait for a round, so a round is short."""


def fill(state: AgentState, now_ms: int) -> list[Effect]:
    """Start a round of fills that are due. Call it only while no disk operation is outstanding."""
    operations: list[FillReplica] = []
    while not operations and (due := state.fills.take(now_ms, MAX_FILLS_PER_ROUND)):
        for topic_partition in due:
            replica = state.replicas.get(topic_partition)
            if (
                replica is not None
                and replica.state is ReplicaState.HOSTED
                and replica.fetches
                and not replica.filled
                and replica.leader in state.cache.brokers
                and replica.log_dir is not None
            ):
                operations.append(FillReplica(replica.log_dir, topic_partition, replica.topic_id))
    if not operations:
        return []
    state.stage = FillStage(tuple(operations))
    return [PerformDisk(state.stage.operations)]


def filled(state: AgentState, stage: FillStage, outcomes: tuple[DiskOutcome, ...]) -> list[Effect]:
    """Record the results of the round. A failed fill is reported and repeated when a LeaderAndIsr names the replica
    again."""
    effects: list[Effect] = []
    for operation, outcome in zip(stage.operations, outcomes, strict=True):
        if outcome.error is not None and outcome.log_dir_failed:
            effects += fail_log_dir(state, operation.log_dir, outcome.error)
    for operation, outcome in zip(stage.operations, outcomes, strict=True):
        replica = state.replicas.get(operation.topic_partition)
        if replica is None or replica.state is ReplicaState.OFFLINE:
            continue
        if outcome.error is not None:
            effects.append(record_problem(state, "CATCH_UP", operation.topic_partition, outcome.error))
        else:
            filled_one = replica.filled_with(outcome.size_bytes, outcome.files, outcome.segment_bytes)
            state.put_replica(operation.topic_partition, filled_one)
    return effects
