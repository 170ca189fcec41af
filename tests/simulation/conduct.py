"""What a controller may not even try, judged by what it knows at the moment at which it decides.

What it knows is judged elsewhere (`belief`), and what comes of it too (`invariants`). These rules are about intent: an
order that is given in spite of better knowledge, and that is only prevented from doing harm by something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import Deletion
from lethe.controller.core.effects import Effect, Send, WriteZnodes
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.simulation import debts, graces, silences, trash_beliefs
from tests.simulation.ledger import lasting
from tests.simulation.settings import Knowledge
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess
    from tests.simulation.ensemble import Writer


def effect_is_allowed(cluster: Cluster, controller: ControllerProcess, effect: Effect) -> None:
    """Judged before the effect is performed."""
    match effect:
        case WriteZnodes(groups=groups):
            operations = [operation for group in groups for operation in lasting(group)]
            context, knowledge = controller.context, controller.knowledge
            silences.control_may_go(controller, cluster, operations)
            problems = itertools.chain(
                _writes(context, operations), _unmarks(context, knowledge, operations), _leads(context, operations)
            )
            problems = itertools.chain(problems, _is_too_fast(cluster, controller, operations))
            problems = itertools.chain(
                problems, _believes(context, operations), debts.problems_with_write(context, operations)
            )
            problems = itertools.chain(problems, trash_beliefs.problems_with_write(context, knowledge, operations))
        case Send(request=StopReplicaRequest() as request):
            problems = itertools.chain(
                _deletes(controller.context, request), debts.problems_with_request(controller.context, effect)
            )
            problems = itertools.chain(problems, trash_beliefs.problems_with_request(controller.context, effect))
        case Send(request=LeaderAndIsrRequest()):
            problems = itertools.chain(
                _makes_again(cluster, controller.context, effect),
                debts.problems_with_request(controller.context, effect),
                trash_beliefs.problems_with_leaders(cluster, controller.context, effect),
            )
        case _:
            return
    for problem in problems:
        raise Violation("conduct", f"{controller.name} {problem}")


def marker_written(cluster: Cluster, writer: Writer, operation: Operation) -> None:
    """Book whether the marker says, by right, that the deletion has begun. The writer may die before it has queued the
    topic: the next controller goes on, whatever it has read of the configuration."""
    name = paths.deleted_topic_of(operation.path)
    incarnation = None if name is None else cluster.ledger.living.get(name)
    if name is None or incarnation is None:
        return
    match operation:
        case Create() if incarnation.begun == incarnation.czxid and writer.knowledge is not None:
            incarnation.noted = writer.knowledge.may_delete(name)
        case Create() | Delete():
            incarnation.noted = False
        case SetData(data=data) if writer.knowledge is not None and writer.knowledge.may_delete(name):
            incarnation.noted = znodes.decode_deletion_marker(data).begun == incarnation.czxid
        case _:
            pass


def queued_is_allowed(cluster: Cluster, controller: ControllerProcess, before: Mapping[str, Deletion]) -> None:
    """Topics are queued for deletion only by who takes deletion for enabled, or goes on with what such a controller has
    begun; then they are condemned."""
    context = controller.context
    deletions = context.cluster.deletions
    # The new ones stand behind all that were there before.
    new = list(itertools.takewhile(lambda name: before.get(name) is not deletions[name], reversed(deletions)))
    for name in reversed(new):
        topic = context.cluster.topics.get(name)
        if topic is None:
            continue
        incarnation = cluster.ledger.by_zxid[topic.created_zxid, name]
        may_go_on = incarnation.condemned or incarnation.noted
        if not controller.knowledge.may_delete(name) and not may_go_on:
            raise Violation("conduct", f"{controller.name} queues {name}, having read {controller.knowledge.said}")
        why = None if may_go_on or topic.is_made_up else graces.why_not_at_once(cluster, incarnation)
        if why is not None and context.cluster.epoch_version != cluster.ensemble.epoch_version:
            # Another controller has let it stay since this one read the marker; a replica that goes for it breaks S2.
            continue
        if why is not None:
            raise Violation("conduct", f"{controller.name} queues {name} at once: {why}")
        incarnation.condemned = True
        marker = cluster.ensemble.model.node(paths.delete_topic(name))
        if context.pace.is_nothing or topic.is_made_up or marker is None or context.cluster.paused is not None:
            continue
        if incarnation.begun != topic.created_zxid:
            raise Violation("conduct", f"{controller.name} queues {name} in its turn, and its marker does not say so")


def _writes(context: Context, operations: Sequence[Operation]) -> Iterator[str]:
    for operation in operations:
        match operation:
            case Create(path=path) if (state_of := paths.state_of(path)) is not None:
                if context.cluster.is_queued(state_of.topic):
                    yield f"brings {state_of} into service, and its topic is queued for deletion"
            case Delete(path=path) if context.cluster.paused is not None and paths.topic_of(path) is not None:
                yield f"removes {path}, and knows that deletions are paused"
            case _:
                pass


class Turn(NamedTuple):
    """A deletion that begins: of this topic in service, or of this stay in the trash."""

    name: str
    topic_czxid: int | None = None
    trashed_since_ms: int | None = None


class Turns(NamedTuple):
    """Deletions that a controller has begun in one term under one limit."""

    term: tuple[int, int, int] = (0, 0, 0)
    """Epoch, its version in `/controller_epoch`, and topics per second in thousandths. After a foreign write of the
    same epoch the controller loads anew: another version, and another bucket."""
    since_ms: int = 0
    begun: int = 0
    paid: tuple[Turn, ...] = ()
    """All turns of this term, under whatever limit. The write that begins a deletion may fail: the next attempt is no
    other turn."""


def _is_too_fast(cluster: Cluster, controller: ControllerProcess, operations: Sequence[Operation]) -> Iterator[str]:
    """Under a limit each turn is noted in the topic's marker first, and a topic in the trash leaves it in its turn.
    There are no more than the limit gives since the first of them, and a full bucket, and one: the first turn came
    before its note."""
    context, now_ms = controller.context, cluster.world.now_ms
    rate = context.pace.topics
    term, before = (context.cluster.epoch, context.cluster.epoch_version, rate), controller.turns
    paid = before.paid if before.term[:2] == term[:2] else ()
    turns = [turn for turn in _turns(context, operations) if turn not in paid]
    if not turns:
        return
    if before.term != term:
        before = Turns(term, now_ms)
    controller.turns = before._replace(begun=before.begun + len(turns), paid=(*paid, *turns))
    given = max(rate * 1_000, 1_000_000) + rate * (now_ms - before.since_ms)
    if rate and (controller.turns.begun - 1) * 1_000_000 > given:
        yield f"begins with {[turn.name for turn in turns]}, which are too many: {controller.turns}"


def _turns(context: Context, operations: Sequence[Operation]) -> Iterator[Turn]:
    for operation in operations:
        name = paths.deleted_topic_of(operation.path)
        if name is not None and isinstance(operation, SetData) and not context.cluster.is_queued(name):
            yield Turn(name, znodes.decode_deletion_marker(operation.data).begun)
    for name in trash_beliefs.leave_to_be_deleted(operations):
        yield Turn(name, trashed_since_ms=context.cluster.trash.topics[name].entry.since_ms)


def _leads(context: Context, operations: Sequence[Operation]) -> Iterator[str]:
    """Nothing is given to a broker that is shutting down."""
    for operation in operations if context.cluster.shutting_down else ():
        state_of = paths.state_of(operation.path)
        if state_of is None or not isinstance(operation, Create | SetData):
            continue
        state, partition = znodes.decode_state(*state_of, operation.data, 0), context.cluster.partition(state_of)
        before = None if partition is None else partition.leader_and_isr
        led_before, isr_before = (None, ()) if before is None else (before.leader, before.isr)
        trashed = context.cluster.trash.in_phase(state_of.topic, TrashPhase.TRASHED)
        if trashed is not None and state_of.partition in trashed.entry.partitions:
            isr_before = trashed.entry.partitions[state_of.partition].isr
        if state is None:
            continue
        for broker in context.cluster.shutting_down:
            if state.leader == broker != led_before or (broker in state.isr and broker not in isr_before):
                yield f"gives {state_of} to broker {broker}, which is shutting down: {state}, before it was {before}"


def _believes(context: Context, operations: Sequence[Operation]) -> Iterator[str]:
    """What is about to be written is not remembered as if it were written already."""
    for operation in operations:
        state_of = paths.state_of(operation.path)
        if state_of is None or not isinstance(operation, SetData):
            continue
        state, partition = znodes.decode_state(*state_of, operation.data, 0), context.cluster.partition(state_of)
        known = None if partition is None or state is None else partition.leader_and_isr
        if known is not None and known._replace(partition_epoch=0) == state:
            yield f"remembers for {state_of} what it is about to write: {state}"


def _unmarks(context: Context, knowledge: Knowledge, operations: Sequence[Operation]) -> Iterator[str]:
    """The marker of a topic that is there goes where deletion is disabled, or with the topic; or where it names another
    topic, which is judged when the write takes effect (`invariants`)."""
    removed = [operation.path for operation in operations if isinstance(operation, Delete)]
    for path in removed:
        name = paths.deleted_topic_of(path)
        if name is None or knowledge.may_refuse(name):
            continue
        is_requested = paths.request(name) in removed
        if is_requested and context.cluster.is_queued(name):
            yield f"lets {name} stay by request, and has queued it for deletion"
        mark = context.cluster.marks.get(name)
        is_withdrawn = mark is not None and mark.held_by is CauseKind.OTHER_INCARNATION
        if name in context.cluster.topics and paths.topic(name) not in removed and not (is_requested or is_withdrawn):
            yield f"removes the marker of {name}, having read {knowledge.said}"


def _deletes(context: Context, request: StopReplicaRequest) -> Iterator[str]:
    """Replicas that a reassignment removes go also while deletions are paused."""
    if context.cluster.paused is None:
        return
    for topic in request.topics:
        if context.cluster.is_queued(topic.topic) and any(row.delete for row in topic.partitions):
            yield f"has replicas of {topic.topic} deleted, and knows that deletions are paused"


def _makes_again(cluster: Cluster, context: Context, send: Send) -> Iterator[str]:
    """A broker whose log directories all work, and who says so, is not made to create what it has deleted."""
    agent = cluster.agents[send.broker]
    is_other = send.broker_epoch != agent.promise.broker_epoch or not agent.alive
    if is_other or cluster.mix.p_look_refused or any(agent.state.log_dirs.values()):
        return
    assert isinstance(send.request, LeaderAndIsrRequest)
    for topic in send.request.topics:
        if not context.cluster.is_queued(topic.topic) or topic.topic_id != context.cluster.topics[topic.topic].id:
            # The latter asks about what the broker owes of an earlier topic.
            continue
        incarnation = cluster.ledger.by_zxid[context.cluster.topics[topic.topic].created_zxid, topic.topic]
        for row in topic.partitions:
            replica = (row.partition, send.broker)
            if replica in incarnation.deleted and replica not in incarnation.released:
                yield f"announces {incarnation}-{row.partition} to broker {send.broker}, which has deleted it"
