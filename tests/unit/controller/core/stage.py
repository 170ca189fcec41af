"""A context in the middle of a term, made by hand, and single steps on it: what unit tests of the core begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lethe.controller.core import controller, mutation
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import Effect, ReadZnodes, Record, Send, WriteZnodes
from lethe.controller.core.events import Event, ZnodesRead, ZnodesWritten
from lethe.controller.core.partition_sets import partition_columns
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import Task
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.control import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    EpochVersion,
    LeaderAndIsr,
    PartitionReplica,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper.operations import Check, ReadOutcome, SetData, Stat, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

NOW_MS = 5_000
EPOCH = ControllerEpoch(32)
R = TypeVar("R", bound=ControlRequest)


def broker(number: int, *, epoch: int = 100) -> Broker:
    return Broker(BrokerId(number), BrokerEpoch(epoch + number), (Endpoint("PLAINTEXT", f"host{number}", 9092),))


def leading(*brokers: int, ibp: InterBrokerProtocol = LATEST, unclean: bool = False) -> Context:
    """A controller that leads these brokers and knows no topic."""
    config = CoreConfig(BrokerId(1000), ibp, unclean_leader_election_enable=unclean)
    context = Context(config, role=Role.ACTIVE, session_id=1, active_controller=BrokerId(1000))
    context.cluster.epoch, context.cluster.epoch_version = EPOCH, EpochVersion(EPOCH)
    context.cluster.brokers = {BrokerId(n): broker(n) for n in brokers}
    return context


def add_topic(
    context: Context,
    name: str,
    partitions: Sequence[Sequence[int]],
    *,
    topic_id: TopicId | None = None,
    led: bool = False,
    partition_state: PartitionState | None = None,
    replica_state: ReplicaState | None = None,
) -> None:
    """Take a topic in; `led` gives every partition its first replica as leader and all replicas as ISR."""
    mutation.add_topic(
        context.cluster, name, topic_id, {n: ReplicaAssignment(tuple(r)) for n, r in enumerate(partitions)}
    )
    for number, replicas in enumerate(partitions):
        tp = TopicPartition(name, number)
        if led:
            mutation.set_leader_and_isr(context.cluster, tp, LeaderAndIsr(replicas[0], 0, tuple(replicas), EPOCH))
        if partition_state is not None:
            mutation.enter_partition_state(context.cluster, partition_columns((tp,)), partition_state)
        if replica_state is not None:
            for each in replicas:
                mutation.set_replica_state(
                    context.cluster, PartitionReplica(name, number, BrokerId(each)), replica_state
                )


def perform(context: Context, *tasks: Task) -> list[Effect]:
    """Run these tasks until they are done or wait for ZooKeeper."""
    step = StepContext(context, NOW_MS)
    step.do(*tasks)
    effects = step.effects
    while context.tasks and not context.awaiting_result:
        controller._run(step, context.tasks.popleft())
    return effects


def feed(context: Context, event: Event, *, now_ms: int = NOW_MS) -> list[Effect]:
    return controller.step(context, event, now_ms)


def write_in(effects: Sequence[Effect]) -> WriteZnodes:
    """The one write, which is last."""
    assert isinstance(effects[-1], WriteZnodes), effects
    return effects[-1]


def read_in(effects: Sequence[Effect]) -> ReadZnodes:
    assert isinstance(effects[-1], ReadZnodes), effects
    return effects[-1]


def written(context: Context, effects: Sequence[Effect], errors: Mapping[int, ZkError] | None = None) -> list[Effect]:
    """Every group was applied, except those with an error, at their first operation; then as `in_charge`."""
    effect = write_in(effects)
    outcomes: list[GroupOutcome] = []
    for number, group in enumerate(effect.groups):
        if errors and number in errors:
            outcomes.append(GroupFailed(0, errors[number]))
        else:
            stats = tuple(Stat(1, 1, op.version + 1 if isinstance(op, SetData) else 0, 0) for op in group)
            outcomes.append(GroupDone(stats))
    return in_charge(context, feed(context, ZnodesWritten(effect.id, tuple(outcomes))))


def in_charge(context: Context, effects: list[Effect]) -> list[Effect]:
    """The effects; where they end with the question whether we are still the controller, those of a yes as well."""
    last = effects[-1] if effects else None
    if isinstance(last, WriteZnodes) and all(isinstance(op, Check) for group in last.groups for op in group):
        return [*effects, *written(context, effects)]
    return effects


def answered(context: Context, effects: Sequence[Effect], *outcomes: ReadOutcome) -> list[Effect]:
    """The outstanding read's outcomes."""
    return feed(context, ZnodesRead(read_in(effects).id, outcomes))


# --- looking ------------------------------------------------------------------------------------------------------


def sends(effects: Sequence[Effect], kind: type[R]) -> dict[int, R]:
    """Broker to the request of this kind; fails where a broker gets two."""
    found: dict[int, R] = {}
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.request, kind):
            assert effect.broker not in found, f"broker {effect.broker} gets {kind.__name__} twice"
            found[effect.broker] = effect.request
    return found


def rows_of(request: LeaderAndIsrRequest) -> dict[str, LeaderAndIsrPartition]:
    return {f"{topic.topic}-{row.partition}": row for topic in request.topics for row in topic.partitions}


def updates_of(request: UpdateMetadataRequest) -> dict[str, UpdateMetadataPartition]:
    return {f"{topic.topic}-{row.partition}": row for topic in request.topics for row in topic.partitions}


def stops_of(request: StopReplicaRequest) -> dict[str, tuple[int, bool]]:
    """Partition to (leader epoch, delete)."""
    return {
        f"{topic.topic}-{row.partition}": (row.leader_epoch, row.delete)
        for topic in request.topics
        for row in topic.partitions
    }


def refusals(effects: Sequence[Effect]) -> list[EventRecord]:
    return [e.record for e in effects if isinstance(e, Record) and e.record.type is EventRecordType.REFUSAL]


def state_of(context: Context, name: str, partition: int, broker_id: int) -> ReplicaState:
    return context.cluster.replica_state(PartitionReplica(name, partition, BrokerId(broker_id)))
