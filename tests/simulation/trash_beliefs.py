"""What controllers believe and intend of topics in the trash, and what is left of it in the end: see `trash`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Send, WatchTrash
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.simulation import graces, silences, trash
from tests.simulation.ledger import Incarnation
from tests.simulation.settings import Knowledge
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


# --- belief -------------------------------------------------------------------------------------------------------


def differences(cluster: Cluster, controller: ControllerProcess) -> Iterator[str]:
    """An idle controller knows the trash as ZooKeeper has it, goes on with it, and has brokers forget what is in it."""
    context, book = controller.context, cluster.ledger.trash
    memory = context.cluster.trash
    known = {name: found.entry for name, found in memory.topics.items()}
    if known != book.entries:
        yield f"knows the trash as {known}, ZooKeeper has {book.entries}"
    waits = [name for name, found in memory.topics.items() if not found.is_asked]
    if waits and WatchTrash() not in context.timers:
        yield f"does not go on with {waits}, which are in the trash"
    for incarnation in book.kept.values():
        for agent in cluster.agents.values():
            channel = controller.channels.get(agent.id)
            is_told = channel is not None and channel.holds_tombstone_of(incarnation)
            is_told = is_told or agent.id in context.cluster.owed
            if cluster.was_told(agent) and silences.is_shown(agent.state.cache, incarnation) and not is_told:
                yield f"leaves {incarnation}, which is in the trash, in the cache of {agent.name}"


def is_reason(cluster: Cluster, incarnation: Incarnation) -> bool:
    """The topic's marker orders the trash or leaves that to the controllers' rules, or did when its retention was
    switched off."""
    entry = cluster.ledger.trash.entries.get(incarnation.name)
    if entry is not None and entry.topic_id == incarnation.topic_id:
        return True
    node = cluster.ensemble.model.node(paths.delete_topic(incarnation.name))
    orders = znodes.decode_deletion_marker(None if node is None else node.data)
    return graces.effective_ms(cluster, incarnation.name, orders.grace_ms) > 0


# --- conduct ------------------------------------------------------------------------------------------------------


def problems_with_write(context: Context, knowledge: Knowledge, operations: Sequence[Operation]) -> Iterator[str]:
    """While deletions are paused nothing is deleted from the trash, and nothing goes into it; what may not be deleted
    stays there."""
    created = {each.path for each in operations if isinstance(each, Create)}
    for operation in operations:
        name = paths.topic_of(operation.path)
        if name is None:
            continue
        is_end = isinstance(operation, Create) and paths.delete_topic(name) in created
        if is_end and knowledge.may_refuse(name):
            yield f"deletes {name} from the trash, having read {knowledge.said}"
        if context.cluster.paused is None:
            continue
        if is_end:
            yield f"deletes {name} from the trash, and knows that deletions are paused"
        elif isinstance(operation, Delete) and trash.is_going_in(operations, name):
            yield f"puts {name} into the trash, and knows that deletions are paused"


def leave_to_be_deleted(operations: Sequence[Operation]) -> list[str]:
    """Return the topics that leave the trash by these operations to be deleted. No run has a limit for full disks
    (`trash_free_percent`), so each of them waits for its turn."""
    created = dict.fromkeys(each.path for each in operations if isinstance(each, Create))
    names = map(paths.topic_of, created)
    return [name for name in names if name is not None and paths.delete_topic(name) in created]


def problems_with_leaders(cluster: Cluster, context: Context, send: Send) -> Iterator[str]:
    """What has left the trash to be deleted is led by nobody while that marker is there: its ISR may name a broker with
    a new disk by now."""
    if not isinstance(send.request, LeaderAndIsrRequest):
        return
    for topic in send.request.topics:
        living, known = cluster.ledger.living.get(topic.topic), context.cluster.topics.get(topic.topic)
        if living is None or known is None or known.created_zxid != living.czxid or not cluster.ledger.marks(living):
            continue
        if living.ended and living.ended == living.marker and any(row.leader >= 0 for row in topic.partitions):
            yield f"has {living} led, which has left the trash to be deleted"


def problems_with_request(context: Context, send: Send) -> Iterator[str]:
    """Replicas in the trash are not deleted, by a debt neither."""
    if not isinstance(send.request, StopReplicaRequest):
        return
    for topic in send.request.topics:
        found = context.cluster.trash.in_phase(topic.topic, TrashPhase.TRASHED)
        if found is None or topic.topic in context.cluster.topics or not any(row.delete for row in topic.partitions):
            continue
        ids = [
            debt.debt.topic_id
            for key, debt in context.cluster.debts.all()
            if key.topic == topic.topic and debt.request_id == send.request_id
        ]
        if not ids or found.entry.topic_id in ids:
            yield f"has replicas of {topic.topic} deleted, which is in the trash"


# --- the end ------------------------------------------------------------------------------------------------------


def all_is_settled(cluster: Cluster) -> None:
    """Nothing is in the trash any more, every request is answered, and what came back has its offsets."""
    book = cluster.ledger.trash
    for name, entry in book.entries.items():
        raise Violation("trash", f"the entry of {name} is left: {entry}")
    for name, request in book.requests.items():
        if request.refused is None:
            raise Violation("trash", f"{request} for {name} is not answered")
    for living in cluster.ledger.living.values():
        is_back = living.was_in_trash and not living.condemned
        if is_back and (lost := list(trash.missing_offsets(cluster, living))):
            raise Violation("trash", f"{living} is back, and these offsets are not: {lost}")
