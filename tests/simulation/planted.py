"""Bugs to be found: each takes one rule out of the cores for as long as a run takes. The cores have no switches.

A function is replaced wherever a module of the cores has it under its name, so that it makes no difference who imported
it from where. A simulator that does not find one of these within a few hundred seeds is too kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final

from broker.core import agent, duplicates, epochs, identity
from broker.core.identity import OpenVerdict, StopVerdict
from broker.core.replica import Replica
from broker.core.state import AgentState
from controller.core import answers, brokers, deletion, election, expansion, leadership, pausing, removal, results
from controller.core.agenda_deletion import MarkersRemoved, PauseRead, RemoveTopics, ResumeDeletions
from controller.core.agenda_partitions import ElectLeaders, UncleanConfigsRead
from controller.core.batching import RequestBatch
from controller.core.context import Context, Outstanding
from controller.core.continuations import BrokersRead
from controller.core.events import StopReplicaAnswered, ZnodesWritten
from controller.core.topic import Topic
from controller.core.transitions import ReplicaState
from controller.core.turn import Turn
from protocol.kafka.control import Addressed, StopReplicaRequest
from protocol.kafka.errors import ErrorCode, error_name
from protocol.vocabulary import (
    LEADER_NONE,
    NO_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderAndIsr,
    PartitionReplica,
    TopicPartition,
)
from protocol.zookeeper import paths
from protocol.zookeeper.operations import ANY_VERSION, Data, Delete, Operation, ReadOutcome, SetData
from protocol.zookeeper.packing import GroupDone, GroupUnknown
from protocol.zookeeper.znodes import TopicZnode, encode_topic

Bug = Callable[[], AbstractContextManager[object]]


# --- the controller -----------------------------------------------------------------------------------------------


def fence_off() -> AbstractContextManager[object]:
    """A controller writes without checking that it still is one."""
    write = Turn.write

    def unfenced(self: Turn, groups: Sequence[tuple[Operation, ...]], then: Any, *, fenced: bool = True) -> None:
        write(self, groups, then, fenced=False)

    return _method(Turn, "write", unfenced)


def bounce_unnoticed() -> AbstractContextManager[object]:
    """A broker that is registered under a higher epoch counts as the one that was known."""
    read = brokers.read

    def deaf(turn: Turn, task: BrokersRead, outcomes: Sequence[ReadOutcome]) -> None:
        known = turn.context.brokers
        seen = [
            o._replace(stat=o.stat._replace(czxid=known[b].epoch)) if isinstance(o, Data) and b in known else o
            for b, o in zip(task.ids, outcomes, strict=True)
        ]
        read(turn, task, seen)

    return _everywhere(read, deaf)


def any_stop_answer_counts() -> AbstractContextManager[object]:
    """The answer to a StopReplica that deletes nothing is taken for the acknowledgement of a deletion."""

    def asked(context: Context, event: StopReplicaAnswered, request: StopReplicaRequest) -> list[PartitionReplica]:
        replicas = (
            PartitionReplica(topic.topic, row.partition, event.broker)
            for topic in request.topics
            if context.is_queued(topic.topic)
            for row in topic.partitions
        )
        return [r for r in replicas if context.replica_state(r) is ReplicaState.DELETION_STARTED]

    return _everywhere(answers._asked_to_delete, asked)


def answers_unmatched() -> AbstractContextManager[object]:
    """An answer counts for the request of its kind that was sent to the broker last, whichever it answers."""

    def settle(context: Context, event: answers.Answer) -> Outstanding | None:
        kind = type(event).__name__.removesuffix("Answered")
        for request_id, outstanding in reversed(context.outstanding.items()):
            if outstanding.broker == event.broker and type(outstanding.request).__name__ == f"{kind}Request":
                return context.outstanding.pop(request_id)
        return None

    return _everywhere(answers._settle, settle)


def tombstone_unanswered() -> AbstractContextManager[object]:
    """A topic's znodes go although brokers have not confirmed that their caches have lost it."""
    return _everywhere(deletion._tombstone_is_settled, lambda turn, name, found: True)


@contextmanager
def no_evidence() -> Iterator[None]:
    """Doomed topics are not announced, and an answer without an error proves their deletion."""
    announce = RequestBatch.add_leader_and_isr

    def unless_doomed(self: RequestBatch, to: Sequence[int], topic_partition: TopicPartition, *, is_new: bool) -> None:
        if not self._context.is_queued(topic_partition.topic):
            announce(self, to, topic_partition, is_new=is_new)

    def verdict(context: Context, replica: PartitionReplica, event: StopReplicaAnswered, error: int) -> str | None:
        return None if error == ErrorCode.NONE else error_name(error)

    with _method(RequestBatch, "add_leader_and_isr", unless_doomed), _everywhere(answers._verdict, verdict):
        yield


@contextmanager
def marker_first() -> Iterator[None]:
    """The marker goes before the topic's znodes, in a write of its own."""
    remove, roots = removal.remove, removal._roots
    begun: dict[int, None] = {}

    def in_two(turn: Turn, task: RemoveTopics) -> None:
        if id(task) in begun:
            remove(turn, task)
            return
        again = RemoveTopics(task.topics)
        begun[id(again)] = None
        kept.append(again)
        turn.write([(Delete(paths.delete_topic(name)),) for name in task.topics], MarkersRemoved(task.topics))
        turn.do(again)

    kept: list[RemoveTopics] = []
    with _everywhere(remove, in_two), _everywhere(roots, lambda name: roots(name)[:2]):
        yield


def never_retried() -> AbstractContextManager[object]:
    """What made a topic wait may change: it waits on."""
    resume = deletion.resume
    return _everywhere(resume, lambda turn, task: resume(turn, replace(task, unblock=False)))


def unknown_taken_for_done() -> AbstractContextManager[object]:
    """A write whose reply was lost counts as one that was done."""
    written = results._written

    def hopeful(turn: Turn, then: Any, event: ZnodesWritten) -> None:
        outcomes = tuple(GroupDone((), ()) if isinstance(o, GroupUnknown) else o for o in event.outcomes)
        written(turn, then, replace(event, outcomes=outcomes))

    return _everywhere(written, hopeful)


def last_in_sync_dropped() -> AbstractContextManager[object]:
    """The last replica in sync leaves the ISR like any other."""

    def shrunk(current: LeaderAndIsr, gone: tuple[int, ...], epoch: ControllerEpoch) -> LeaderAndIsr | None:
        isr = tuple(broker for broker in current.isr if broker not in gone)
        leader = LEADER_NONE if current.leader in gone else current.leader
        if (leader, isr) == (current.leader, current.isr):
            return None
        return current._replace(leader=leader, leader_epoch=current.leader_epoch + 1, isr=isr, controller_epoch=epoch)

    return _everywhere(election.shrunk, shrunk)


def always_unclean() -> AbstractContextManager[object]:
    """A replica that lacks records may lead, whatever the configuration says."""

    def allowed(turn: Turn, task: UncleanConfigsRead, outcomes: Sequence[ReadOutcome]) -> None:
        turn.do(ElectLeaders(task.partitions, task.topics))

    return _everywhere(leadership.configs_read, allowed)


def missed_round_forgotten() -> AbstractContextManager[object]:
    """A replica whose turn came while others were outstanding waits for those that have gone since."""
    resume = deletion.resume

    def forget(turn: Turn, task: ResumeDeletions) -> None:
        resume(turn, task)
        for each in turn.context.deletions.values():
            each.round_is_due = False

    return _everywhere(resume, forget)


def confirmed_broker_awaited() -> AbstractContextManager[object]:
    """A topic waits for a broker that has gone, though it had confirmed the deletion."""
    fail = deletion.fail

    def wait(turn: Turn, task: Any) -> None:
        for replica in task.replicas:
            if replica.topic in turn.context.deletions:
                turn.context.deletions[replica.topic].ineligible = True
        fail(turn, task)
        turn.do(ResumeDeletions(()))

    return _everywhere(fail, wait)


def znode_written_over() -> AbstractContextManager[object]:
    """A topic's znode is written whatever somebody has written there meanwhile."""

    def over(context: Context, name: str, znode: TopicZnode) -> Operation:
        return SetData(paths.topic(name), encode_topic(znode), ANY_VERSION)

    return _everywhere(expansion.set_topic, over)


def expanded_while_deleted() -> AbstractContextManager[object]:
    """Partitions that are added to a topic that is being deleted come into service."""
    take_in = expansion._take_in

    def anyway(turn: Turn, name: str, topic: Topic, znode: TopicZnode) -> list[TopicPartition]:
        deletion = turn.context.deletions.pop(name, None)
        added = take_in(turn, name, topic, znode)
        if deletion is not None:
            turn.context.deletions[name] = deletion
        return added

    return _everywhere(take_in, anyway)


def pause_ignored() -> AbstractContextManager[object]:
    """What is queued already goes on though deletions are paused."""
    resume = deletion.resume

    def on(turn: Turn, task: ResumeDeletions) -> None:
        paused, turn.context.paused = turn.context.paused, None
        resume(turn, task)
        turn.context.paused = paused

    return _everywhere(resume, on)


def pause_unknown_after_failover() -> AbstractContextManager[object]:
    """A new controller does not ask whether deletions are paused before it goes on with them."""
    read = pausing.pause_read

    def unasked(turn: Turn, task: PauseRead, outcomes: Sequence[ReadOutcome]) -> None:
        if not task.loading:
            read(turn, task, outcomes)

    return _everywhere(read, unasked)


# --- the agent ----------------------------------------------------------------------------------------------------


def agent_ignores_broker_epoch() -> AbstractContextManager[object]:
    """An agent obeys orders that were meant for an earlier incarnation of it."""
    check = epochs.check_epochs
    return _everywhere(check, lambda state, addressed: check(state, addressed._replace(broker_epoch=NO_EPOCH)))


def agent_ignores_controller_epoch() -> AbstractContextManager[object]:
    """An agent obeys whoever speaks, deposed or not."""
    check = epochs.check_epochs

    def obey(state: AgentState, addressed: Addressed) -> ErrorCode:
        state.controller_epoch = min(state.controller_epoch, addressed.request.controller_epoch)
        return check(state, addressed)

    return _everywhere(check, obey)


@contextmanager
def agent_ignores_topic_ids() -> Iterator[None]:
    """A directory is judged by its name alone."""
    by_name = StopVerdict.DELETE
    with (
        _everywhere(identity.judge_deletion, lambda replica, remembered: by_name),
        _everywhere(identity.judge_opening, lambda replica, requested, **more: OpenVerdict.OPEN),
    ):
        yield


def agent_remembers_too_long() -> AbstractContextManager[object]:
    """An agent that registers again goes on showing what it was told under the registration before."""

    def keep(state: AgentState, broker_epoch: BrokerEpoch) -> None:
        state.cache_epoch = max(state.cache_epoch, broker_epoch)

    return _everywhere(agent._begin_cache_anew, keep)


def agent_knows_one_directory() -> AbstractContextManager[object]:
    """Of several directories of a partition the one that is found first is the partition's, and nobody sees others."""
    add = duplicates.add_candidate

    def first(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> None:
        if topic_partition not in state.replicas:
            add(state, topic_partition, replica)

    return _everywhere(add, first)


BUGS: Final[Mapping[str, Bug]] = {
    bug.__name__: bug
    for bug in (
        fence_off,
        bounce_unnoticed,
        any_stop_answer_counts,
        answers_unmatched,
        tombstone_unanswered,
        no_evidence,
        marker_first,
        never_retried,
        unknown_taken_for_done,
        last_in_sync_dropped,
        always_unclean,
        missed_round_forgotten,
        confirmed_broker_awaited,
        expanded_while_deleted,
        pause_ignored,
        pause_unknown_after_failover,
        agent_ignores_broker_epoch,
        agent_ignores_controller_epoch,
        agent_ignores_topic_ids,
        agent_remembers_too_long,
        agent_knows_one_directory,
    )
}


# --- planting -----------------------------------------------------------------------------------------------------


@contextmanager
def _everywhere(function: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in every module of the cores that knows it."""
    holders = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith(("controller.core", "broker.core"))
        for name, value in list(vars(module).items())
        if value is function
    ]
    for module, name in holders:
        setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name in holders:
            setattr(module, name, function)


@contextmanager
def _method(owner: type, name: str, instead: Callable[..., Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, original)
