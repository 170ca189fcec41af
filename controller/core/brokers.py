"""Handles brokers that register, leave, bounce or change their endpoints.

A broker's epoch is the czxid of its registration. A higher epoch means a new incarnation (a *bounce*), which is sent
everything again. Within one event the order is Kafka's: new, bounced, dead brokers.

    known       found        tasks, in order
    1:10, 2:11  1:15, 3:16   BrokersStarted(3), BrokersFailed(1), BrokersStarted(1), BrokersFailed(2)

If broker 3 owes something, ReadDebts(3) comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lethe.controller.core import caches, debts, owed, reassignment_end, trash
from lethe.controller.core.cluster_state import QuarantinedZnode
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import BrokerRead, BrokersListed, BrokersRead
from lethe.controller.core.deletion import note_tombstoned, take_back
from lethe.controller.core.deletion_memory import NOT_WAITED_FOR
from lethe.controller.core.effects import CloseChannel, OpenChannel, ShowBrokers
from lethe.controller.core.mutation import forget_broker_memory
from lethe.controller.core.partition_sets import (
    Bits,
    PartitionColumns,
    ReplicaColumns,
    chosen,
    columns_of,
    replicas_in,
)
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import (
    AnnounceBrokersUnlessElected,
    BrokersFailed,
    BrokersStarted,
    ListBrokers,
    ReadBroker,
    ResignIfSettled,
    TakeReplicasOffline,
)
from lethe.controller.core.tasks_advertising import EvictReplicas, Register
from lethe.controller.core.tasks_debts import PayDebts, ReadDebts, ReadForgets
from lethe.controller.core.tasks_deletion import FailReplicaDeletions, ResumeDeletions
from lethe.controller.core.tasks_partitions import BringOnline, MovePartitions, MoveReplicas, Partitions
from lethe.controller.core.tasks_reassignment import ProgressReassignments, RetireReplicas
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadOutcome,
    failure_words,
    is_absent,
)

# --- who is there -------------------------------------------------------------------------------------------------


def list_brokers(step: StepContext, task: ListBrokers) -> None:
    """List the registered broker ids, and watch for changes."""
    step.read((GetChildren(paths.broker_ids(), watch=True),), BrokersListed(task.loading))


def on_brokers_listed(step: StepContext, task: BrokersListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the registrations. A child that is no broker id is ignored."""
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    ids = tuple(sorted(broker for broker in map(paths.broker_named, names) if broker is not None))
    step.read((GetData(paths.broker_id(broker), watch=True) for broker in ids), BrokersRead(task.loading, ids))


def on_brokers_read(step: StepContext, task: BrokersRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Compare the registrations with memory by id and epoch; queue tasks for new, bounced and dead brokers."""
    cluster = step.context.cluster
    found: dict[BrokerId, Broker] = {}
    for broker_id, outcome in zip(task.ids, outcomes, strict=True):
        broker = _understood(step, broker_id, outcome)
        if broker is not None:
            found[broker_id] = broker
    for broker_id in [b for b in cluster.quarantined_brokers if b not in task.ids]:
        del cluster.quarantined_brokers[broker_id]
    if task.loading:
        cluster.brokers = found
        return
    known = cluster.brokers
    new = tuple(broker for broker_id, broker in found.items() if broker_id not in known)
    bounced = tuple(b for broker_id, b in found.items() if broker_id in known and b.epoch > known[broker_id].epoch)
    dead = tuple(broker_id for broker_id in known if broker_id not in found)
    tasks: list[ReadDebts | BrokersStarted | BrokersFailed] = [BrokersStarted(new)] if new else []
    for broker in bounced:
        tasks += [BrokersFailed((broker.id,), returned=True), BrokersStarted((broker,))]
    if dead:
        tasks.append(BrokersFailed(dead))
    if owing := tuple(broker.id for broker in (*new, *bounced) if broker.id in cluster.debts.by_broker):
        # An agent pays before it registers: see `debts`.
        tasks.insert(0, ReadDebts(owing))
    step.do(*tasks)


def _understood(step: StepContext, broker_id: BrokerId, outcome: ReadOutcome) -> Broker | None:
    """Return the registration; None if it is gone or cannot be understood. The latter is shown."""
    context = step.context
    cluster = context.cluster
    if is_absent(outcome):
        return None
    if isinstance(outcome, Data) and znodes.is_controller_registration(outcome.data):
        # A Lethe controller: see `advertising`.
        return None
    problem: str | None
    if isinstance(outcome, Data):
        try:
            broker = znodes.decode_broker(broker_id, outcome.stat.czxid, outcome.data)
        except znodes.MalformedZnode as error:
            problem = error.reason
        else:
            problem = _unusable(context, broker)
            if problem is None:
                cluster.quarantined_brokers.pop(broker_id, None)
                return broker
    else:
        problem = f"reading it failed with {failure_words(outcome)}"
    known = cluster.quarantined_brokers.get(broker_id)
    if known is None or known.reason != problem:
        cause, path = CauseKind.REGISTRATION_UNREADABLE, paths.broker_id(broker_id)
        cluster.quarantined_brokers[broker_id] = QuarantinedZnode(path, problem, step.now_ms, cause)
        step.record(EventRecordType.SET_ASIDE, f"broker/{broker_id}", path=path, reason=problem)
    return None


def _unusable(context: Context, broker: Broker) -> str | None:
    """Return why a readable registration cannot be used, or None."""
    config = context.config
    if not broker.endpoints:
        return "it has no endpoint"
    if config.endpoints and broker.id == config.controller_id:
        return "its id is that of this controller, which is listed under it: give one of the two another broker.id"
    return None


def open_channel(step: StepContext, broker: Broker) -> None:
    """Open a channel to the broker's listener for control requests."""
    step.emit(OpenChannel(broker.id, broker.epoch, step.context.control_endpoint(broker)))


def show(step: StepContext) -> None:
    """Give the controller's listener, if any, the brokers to which it may forward clients."""
    context = step.context
    if context.config.endpoints:
        step.emit(ShowBrokers(tuple(context.cluster.brokers.values())))


# --- coming and going ---------------------------------------------------------------------------------------------


def started(step: StepContext, task: BrokersStarted) -> None:
    """Announce the new brokers to the others, send them everything, and bring their replicas online."""
    context = step.context
    cluster = context.cluster
    existing = tuple(cluster.brokers)
    ids = frozenset(broker.id for broker in task.brokers)
    for broker in task.brokers:
        forget_broker_memory(cluster, broker.id)
        cluster.brokers[broker.id] = broker
        cluster.gone_since_ms.pop(broker.id, None)
        open_channel(step, broker)
        step.record(EventRecordType.BROKER, f"broker/{broker.id}", what="started", broker_epoch=broker.epoch)
    show(step)
    batch = step.batch()
    batch.add_update_metadata(existing)
    step.flush(batch)
    for broker in task.brokers:
        owed.send_again(step, broker.id)
    batch = step.batch()
    batch.add_update_metadata((broker.id for broker in task.brokers), _in_service(context))
    step.flush(batch)
    caches.schedule(step, tuple(broker.id for broker in task.brokers))
    if any(broker.id in cluster.forgotten for broker in task.brokers):
        step.context.tasks.append(ReadForgets())
    debts.pay(step, PayDebts(tuple(broker.id for broker in task.brokers)))
    trash.look_soon(step)
    replicas = cluster.replicas_on(ids)
    doomed = tuple(name for name in replicas if cluster.is_queued(name))
    take_back(step, doomed)
    step.do(
        MoveReplicas(chosen(replicas, partial(_may_go_online, context)), ReplicaState.ONLINE),
        BringOnline(),
        RetireReplicas(reassignment_end.left_on(context, tuple(broker.id for broker in task.brokers))),
        ProgressReassignments(_moving_to(context, ids), announce=True),
        ResumeDeletions(doomed, unblock=True),
        EvictReplicas(),
        Register(),
    )


def _in_service(context: Context) -> PartitionColumns:
    cluster = context.cluster
    return {name: topic.led for name, topic in cluster.topics.items() if topic.led and not cluster.is_queued(name)}


def _moving_to(context: Context, brokers: frozenset[BrokerId]) -> Partitions:
    """Return the partitions that are being reassigned to one of these brokers."""
    moving = ((tp, context.cluster.partition(tp)) for tp in context.cluster.reassignments)
    return tuple(
        tp
        for tp, partition in moving
        if partition is not None and any(broker in brokers for broker in partition.assignment.target)
    )


def _may_go_online(context: Context, name: str, broker: BrokerId, partitions: Bits) -> Bits:
    """Return those of these replicas that go online with their broker.

    A deleted replica stays deleted, and one whose topic's znodes are going stays owed. A replica that a
    reassignment adds is announced with the reassignment."""
    return partitions & context.cluster.topics[name].in_other_states(broker, *NOT_WAITED_FOR)


def failed(step: StepContext, task: BrokersFailed) -> None:
    """Drop the memory of the incarnations, and take their replicas offline."""
    context = step.context
    cluster = context.cluster
    for broker_id in task.brokers:
        broker = cluster.brokers.pop(broker_id, None)
        forget_broker_memory(cluster, broker_id)
        caches.forget(step, broker_id)
        cluster.gone_since_ms[broker_id] = step.now_ms
        step.emit(CloseChannel(broker_id))
        epoch = None if broker is None else broker.epoch
        step.record(EventRecordType.BROKER, f"broker/{broker_id}", what="failed", broker_epoch=epoch)
    show(step)
    for broker_id in task.brokers if not task.returned else ():
        reassignment_end.broker_failed(step, broker_id)
    for name in cluster.deletions:
        # The broker's metadata cache is gone with the incarnation.
        note_tombstoned(step, name)
    if cluster.leaving is not None:
        context.tasks.append(ResignIfSettled())
    step.do(
        # Some deletions may have waited only for this broker's answer to the tombstone.
        ResumeDeletions(tuple(name for name, deletion in cluster.deletions.items() if deletion.all_acknowledged)),
        Register(),
    )
    _take_offline(step, cluster.replicas_on(task.brokers), returned=task.returned)


def take_replicas_offline(step: StepContext, task: TakeReplicasOffline) -> None:
    """Take replicas offline whose brokers are still there."""
    _take_offline(step, columns_of(task.replicas))


def _take_offline(step: StepContext, replicas: ReplicaColumns, *, returned: bool = False) -> None:
    """Elect new leaders, then remove these replicas from the ISRs, and mark their deletions as failed for now."""
    context = step.context
    cluster = context.cluster
    served = (name for name in cluster.topics if not cluster.is_queued(name))
    leaderless = {name: bits for name in served if (bits := cluster.led_offline(name))}
    known = {name: columns for name, columns in replicas.items() if name in cluster.topics}
    doomed = {name: columns for name, columns in known.items() if cluster.is_queued(name)}
    in_service = chosen(
        {name: columns for name, columns in known.items() if name not in doomed},
        lambda name, broker, bits: bits & cluster.topics[name].in_other_states(broker),
    )
    last = () if in_service else (AnnounceBrokersUnlessElected(context.elections),)
    step.do(
        MovePartitions(leaderless, PartitionState.OFFLINE),
        BringOnline(),
        MoveReplicas(in_service, ReplicaState.OFFLINE),
        FailReplicaDeletions(tuple(replicas_in(doomed)), returned),
        *last,
    )


def announce_unless_elected(step: StepContext, task: AnnounceBrokersUnlessElected) -> None:
    """Send the live brokers to all brokers, unless an election has done so."""
    if step.context.elections == task.elections_before:
        announce(step)


def announce(step: StepContext) -> None:
    """Send the live brokers to all brokers, without partitions."""
    batch = step.batch()
    batch.add_update_metadata(step.context.cluster.brokers)
    step.flush(batch)


# --- endpoints ----------------------------------------------------------------------------------------------------


def read_broker(step: StepContext, task: ReadBroker) -> None:
    """Read one registration again, and watch it."""
    step.read((GetData(paths.broker_id(task.broker), watch=True),), BrokerRead(task.broker))


def on_broker_read(step: StepContext, task: BrokerRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store new endpoints of the same registration. A new registration has an event of its own."""
    cluster = step.context.cluster
    known = cluster.brokers.get(task.broker)
    broker = _understood(step, task.broker, outcomes[0])
    if broker is None:
        return
    if known is None:
        step.do(ListBrokers())
    elif broker.epoch == known.epoch and broker != known:
        cluster.brokers[task.broker] = broker
        step.record(EventRecordType.BROKER, f"broker/{broker.id}", what="modified", broker_epoch=broker.epoch)
        show(step)
        announce(step)
        step.do(Register())
