"""What a controller believes, compared with what is: S8, and the rules of `controller.core.invariants`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import BeginDeletions, RetryReassignments
from lethe.controller.core.invariants import violations
from lethe.controller.core.protection import protecting_pattern
from lethe.controller.core.transitions import PartitionState
from lethe.controller.core.waiting import marked_since_ms, oldest
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from tests.simulation import debts, forgetting, trash_beliefs
from tests.simulation.ledger import Incarnation
from tests.simulation.settings import Settings, in_force
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


def context_is_sound(controller: ControllerProcess) -> None:
    """What must be true of a context whatever the world is like."""
    found = violations(controller.context)
    if found:
        raise Violation("context", f"{controller.name}: {'; '.join(found)}")


def s8_memory_equals_znodes(cluster: Cluster, controller: ControllerProcess) -> None:
    """With nothing queued, outstanding or undelivered, an active controller knows the cluster as ZooKeeper has it; as
    long as lists are put off, settings and brokers."""
    context = controller.context
    if context.role is not Role.ACTIVE or not controller.is_idle:
        return
    at = (cluster.ensemble.model.zxid, controller.steps)
    if at != controller.judged_at:
        controller.judged_at = at
        found = [_settings_differ(cluster, controller), _brokers_differ(cluster, context)]
        if not context.cluster.removals.look_again:
            found += [_differences(cluster, context), trash_beliefs.differences(cluster, controller)]
        for problem in itertools.chain(*found):
            raise Violation("S8", f"{controller.name} {problem}")


def _settings_differ(cluster: Cluster, controller: ControllerProcess) -> Iterable[str]:
    """It goes by what it has read last, and has read what was announced."""
    context, knowledge = controller.context, controller.knowledge
    believed = Settings(
        context.delete_topic_enable,
        context.unclean_leader_election_enable,
        context.protected_topics,
        context.pace.topics,
    )
    if believed != knowledge.now:
        yield f"goes by {believed}, and what it has read is {knowledge.now}"
    says = cluster.says(controller)
    if says is not None and not says.unclear and in_force(knowledge.started_with, says) != knowledge.now:
        yield f"has read {knowledge.said}, and {says} was announced"
    is_held = cluster.is_paused or knowledge.said.deletion_is_unclear
    if (context.cluster.paused is not None) is not is_held:
        yield f"takes deletions for paused: {context.cluster.paused}, and whether they are is {is_held}"


def _brokers_differ(cluster: Cluster, context: Context) -> Iterable[str]:
    brokers = cluster.registered()
    known = {broker.id: broker.epoch for broker in context.cluster.brokers.values()}
    if brokers != known:
        yield f"knows the brokers {known}, registered are {brokers}"


def _differences(cluster: Cluster, context: Context) -> Iterable[str]:
    ledger = cluster.ledger
    readable = {n: each for n, each in ledger.living.items() if each.readable and not ledger.trash.reserves(each)}
    if readable.keys() != context.cluster.topics.keys():
        yield f"knows the topics {sorted(context.cluster.topics)}, ZooKeeper has {sorted(readable)}"
        return
    unreadable = [name for name in ledger.living if name not in readable]
    if sorted(unreadable) != sorted(context.cluster.quarantined_topics):
        yield f"set aside {sorted(context.cluster.quarantined_topics)}, unreadable are {sorted(unreadable)}"
    for name, incarnation in readable.items():
        yield from _topic_differences(context, name, incarnation)
    yield from _mark_differences(cluster, context)
    yield from debts.differences(cluster, context)
    yield from forgetting.differences(cluster, context)


def _mark_differences(cluster: Cluster, context: Context) -> Iterable[str]:
    """Who is marked is queued or held back, for a reason that there is; who is held back stays in service."""
    ledger = cluster.ledger
    for name in ledger.marked:
        if name in context.cluster.deletions:
            continue
        if not context.delete_topic_enable and context.cluster.paused is None:
            yield f"left the marker of {name}, though deletion is disabled"
        elif name in ledger.living and protecting_pattern(context, name) is not None:
            yield f"left the marker of {name}, which is protected"
        elif name not in context.cluster.marks:
            yield f"does not delete {name}, which is marked"
    yield from _age_differences(cluster, context)
    yield from _forgotten(context)
    for name, mark in context.cluster.marks.items():
        living = ledger.living.get(name)
        if name not in ledger.marked:
            yield f"holds {name} back, which is not marked"
        elif living is None or not _is_reason(cluster, context, living, mark.held_by):
            yield f"holds {living or name} back: {mark.held_by.name}"
        elif any(
            context.cluster.partition_state(topic_partition) is PartitionState.NON_EXISTENT
            for topic_partition, _ in context.cluster.partitions_of(name)
        ):
            yield f"holds {name} back, and has taken it out of service"


def _age_differences(cluster: Cluster, context: Context) -> Iterable[str]:
    """A deletion is at least as old as its marker, whoever leads; one that is queued may have had an earlier marker."""
    ages_ms: list[int] = []
    for name in cluster.ledger.marked:
        since_ms, marker = marked_since_ms(context, name), cluster.ensemble.model.node(paths.delete_topic(name))
        if since_ms is None or marker is None:
            continue
        ages_ms.append(since_ms)
        if since_ms > marker.created_at_ms:
            yield f"counts the age of {name} from {since_ms}, and its marker was made at {marker.created_at_ms}"
    found = oldest(context)
    if ages_ms and (found is None or found.marked_since_ms > min(ages_ms)):
        yield f"takes {found} for the oldest deletion, one is marked since {min(ages_ms)}"


def _forgotten(context: Context) -> Iterable[str]:
    """An idle controller has asked for whatever a deletion needs next, or waits for a broker or a timer."""
    if context.cluster.paused is not None or context.cluster.leaving is not None:
        return
    for name, deletion in context.cluster.deletions.items():
        if deletion.retry_at_ms is not None:
            continue
        if deletion.all_acknowledged and not deletion.owing_tombstone:
            yield f"has nothing to do, and every broker has confirmed that {name} is deleted"
        if not (deletion.all_acknowledged or deletion.in_progress or deletion.ineligible):
            yield f"has nothing to do, and has not gone on with the deletion of {name}"


def _is_reason(cluster: Cluster, context: Context, incarnation: Incarnation, held_by: CauseKind) -> bool:
    match held_by:
        case CauseKind.RESUMPTION | CauseKind.CONFIGURATION:
            return context.cluster.paused is not None and context.cluster.paused.held_by is held_by
        case CauseKind.PACE:
            is_kept = context.cluster.paused is not None or context.cluster.leaving is not None
            return is_kept or BeginDeletions() in context.timers
        case CauseKind.READABLE_ZNODE:
            return not incarnation.readable
        case CauseKind.NAME_RESERVED:
            return cluster.ledger.trash.reserves(incarnation)
        case CauseKind.TRASH:
            return trash_beliefs.is_reason(cluster, incarnation)
        case CauseKind.REASSIGNMENT:
            return not incarnation.is_settled
        case _:
            return False


def _topic_differences(context: Context, name: str, incarnation: Incarnation) -> Iterable[str]:
    topic = context.cluster.topics[name]
    if topic.id != incarnation.topic_id:
        yield f"knows {name} under {topic.id}, ZooKeeper has {incarnation.topic_id}"
    assignments = {n: _as_written(context, incarnation, n, p.assignment) for n, p in topic.partitions.items()}
    if assignments != incarnation.assignments:
        yield f"knows the replicas of {name} as {assignments}, ZooKeeper has {incarnation.assignments}"
    for number, partition in topic.partitions.items():
        state = incarnation.states.get(number)
        if state is None and name in context.cluster.deletions and _was_acknowledged(context, name):
            # Its znodes are being removed: some are gone, and the rest is tried again.
            continue
        # What leaders write of a topic that is being deleted matters to nobody.
        unknown = incarnation.foreign if name in context.cluster.deletions else incarnation.touched
        if number not in unknown and partition.leader_and_isr != state:
            yield f"knows {name}-{number} as {partition.leader_and_isr}, ZooKeeper has {state}"


def _was_acknowledged(context: Context, name: str) -> bool:
    """Every replica was deleted or owed; since then a broker that owes may have returned, and is asked first."""
    created_zxid = context.cluster.topics[name].created_zxid
    is_owed = any(key.created_zxid == created_zxid for key, _ in context.cluster.debts.of_topic(name))
    return context.cluster.deletions[name].all_acknowledged or is_owed


def _as_written(
    context: Context, incarnation: Incarnation, partition: int, known: ReplicaAssignment
) -> ReplicaAssignment:
    """Where the target of a reassignment leads, it counts as the whole assignment, and the znode is written when the
    replicas that go have been deleted. The znode also keeps the replicas of a target that was given up, for as long as
    a broker has not answered that they are deleted, or the write is to be tried again."""
    znode = incarnation.assignments.get(partition)
    moving = context.cluster.reassignments.get(TopicPartition(incarnation.name, partition))
    if znode is None or moving is None:
        return known
    if not known.is_being_reassigned:
        return znode if znode.target == known.replicas else known
    is_awaited = moving.retiring or RetryReassignments() in context.timers
    left = tuple(broker for broker in moving.written.replicas if broker not in known.replicas)
    return known.also_removing(left) if is_awaited else known
