"""Bugs in how topics go: markers, tombstones, acknowledgements, znodes, pauses.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from lethe.controller.core import answers, deletion, evidence, expansion, marks, mutation, pausing, removal
from lethe.controller.core.cluster_state import ClusterState, Outstanding
from lethe.controller.core.context import Context
from lethe.controller.core.events import Answer, StopReplicaResponseReceived
from lethe.controller.core.partition_sets import Bits, bits_of
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import MarkersDated, MarkersRemoved, PauseRead, RemoveTopics, ResumeDeletions
from lethe.controller.core.topic import Topic
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.vocabulary import PartitionReplica, TopicId, topic_id_from_text
from lethe.protocol.zookeeper import paths, znodes_topic
from lethe.protocol.zookeeper.operations import Delete, ReadFailed, ReadOutcome, ZkError
from lethe.protocol.zookeeper.znodes import TopicZnode
from tests.simulation.planting import everywhere, method


def any_stop_answer_counts() -> AbstractContextManager[object]:
    """The answer to a StopReplica that deletes nothing is taken for the acknowledgement of a deletion."""

    def asked(context: Context, event: StopReplicaResponseReceived, request: StopReplicaRequest) -> dict[str, Bits]:
        started = (ReplicaState.DELETION_STARTED,)
        return {
            topic.topic: bits
            for topic in request.topics
            if context.cluster.is_queued(topic.topic)
            and (
                bits := bits_of(row.partition for row in topic.partitions)
                & context.cluster.topics[topic.topic].in_states(event.broker, started)
            )
        }

    return everywhere(answers._asked_to_delete, asked)


def answers_unmatched() -> AbstractContextManager[object]:
    """An answer counts for the request of its kind that was sent to the broker last, whichever it answers."""

    def settle(context: Context, event: Answer) -> Outstanding | None:
        kind = type(event).__name__.removesuffix("ResponseReceived")
        for request_id, outstanding in reversed(context.cluster.outstanding.items()):
            if outstanding.broker == event.broker and type(outstanding.request).__name__ == f"{kind}Request":
                return context.cluster.outstanding.pop(request_id)
        return None

    return everywhere(answers._settle, settle)


def tombstone_unanswered() -> AbstractContextManager[object]:
    """A topic's znodes go although brokers have not confirmed that their caches have lost it."""
    return everywhere(deletion.tombstone_is_settled, lambda step, name, found: True)


def no_evidence() -> AbstractContextManager[object]:
    """A StopReplica that is answered without an error proves a deletion, whatever the log directories are like."""

    verdicts = answers._verdicts

    def trusting(
        context: Context, event: StopReplicaResponseReceived, asked: dict[str, Bits]
    ) -> tuple[dict[str, Bits], dict[PartitionReplica, str]]:
        rows = (row for row in event.response.rows if row.error)
        wrong = {PartitionReplica(row.topic, row.partition, event.broker) for row in rows}
        _, failed = verdicts(context, event, asked)
        unsaid = {replica: problem for replica, problem in failed.items() if replica in wrong}
        left = {n: bits & ~bits_of(r.partition for r in unsaid if r.topic == n) for n, bits in asked.items()}
        return {name: bits for name, bits in left.items() if bits}, unsaid

    return everywhere(verdicts, trusting)


def whole_column_acknowledged() -> AbstractContextManager[object]:
    """An answer about some of a topic's replicas on the broker counts for all of them."""
    verdicts = answers._verdicts

    def generous(
        context: Context, event: StopReplicaResponseReceived, asked: dict[str, Bits]
    ) -> tuple[dict[str, Bits], dict[PartitionReplica, str]]:
        deleted, _ = verdicts(context, event, asked)
        return {name: asked[name] for name in deleted}, {}

    return everywhere(verdicts, generous)


def failed_directory_overlooked() -> AbstractContextManager[object]:
    """Every answer to DescribeLogDirs is taken for healthy: failed directories, errors, and none at all."""
    return everywhere(evidence._problem, lambda response: None)


@contextmanager
def doomed_announced_again() -> Iterator[None]:
    """Every replica of a topic in deletion is announced before its deletion is asked for again."""
    with method(ClusterState, "must_announce", lambda self, broker: True):
        yield


@contextmanager
def marker_first() -> Iterator[None]:
    """The marker goes before the topic's znodes, in a write of its own."""
    remove, roots = removal.remove, removal._roots
    begun: dict[int, None] = {}

    def in_two(step: StepContext, task: RemoveTopics) -> None:
        if id(task) in begun:
            remove(step, task)
            return
        again = RemoveTopics(task.topics)
        begun[id(again)] = None
        kept.append(again)
        step.write([(Delete(paths.delete_topic(name)),) for name in task.topics], MarkersRemoved(task.topics))
        step.do(again)

    kept: list[RemoveTopics] = []
    with everywhere(remove, in_two), everywhere(roots, lambda name: roots(name)[:2]):
        yield


def never_retried() -> AbstractContextManager[object]:
    """What made a topic wait may change: it waits on."""
    resume = deletion.resume
    return everywhere(resume, lambda step, task: resume(step, replace(task, unblock=False)))


def missed_round_forgotten() -> AbstractContextManager[object]:
    """A replica whose turn came while others were outstanding waits for those that have gone since."""
    resume = deletion.resume

    def forget(step: StepContext, task: ResumeDeletions) -> None:
        resume(step, task)
        for each in step.context.cluster.deletions.values():
            each.round_is_due = False

    return everywhere(resume, forget)


def confirmed_broker_awaited() -> AbstractContextManager[object]:
    """A topic waits for a broker that has gone, though it had confirmed the deletion."""
    fail = deletion.fail

    def wait(step: StepContext, task: Any) -> None:
        for replica in task.replicas:
            if replica.topic in step.context.cluster.deletions:
                mutation.set_ineligible(step.context.cluster, step.context.cluster.deletions[replica.topic], True)
        fail(step, task)
        step.do(ResumeDeletions(()))

    return everywhere(fail, wait)


def expanded_while_deleted() -> AbstractContextManager[object]:
    """Partitions that are added to a topic that is being deleted come into service."""
    ingest = expansion._ingest

    def anyway(step: StepContext, name: str, topic: Topic, znode: TopicZnode) -> Bits:
        deletion = step.context.cluster.deletions.pop(name, None)
        added = ingest(step, name, topic, znode)
        if deletion is not None:
            step.context.cluster.deletions[name] = deletion
        return added

    return everywhere(ingest, anyway)


def pause_ignored() -> AbstractContextManager[object]:
    """What is queued already goes on though deletions are paused."""
    resume = deletion.resume

    def on(step: StepContext, task: ResumeDeletions) -> None:
        paused, step.context.cluster.paused = step.context.cluster.paused, None
        resume(step, task)
        step.context.cluster.paused = paused

    return everywhere(resume, on)


def pause_unknown_after_failover() -> AbstractContextManager[object]:
    """A new controller does not ask whether deletions are paused before it goes on with them."""
    read = pausing.on_pause_read

    def unasked(step: StepContext, task: PauseRead, outcomes: Sequence[ReadOutcome]) -> None:
        if not task.loading:
            read(step, task, outcomes)

    return everywhere(read, unasked)


def young_after_failover() -> AbstractContextManager[object]:
    """A new controller counts the age of a deletion from its own takeover, not from the marker."""
    dated = marks.on_markers_dated

    def undated(step: StepContext, task: MarkersDated, outcomes: Sequence[ReadOutcome]) -> None:
        unseen: list[ReadOutcome] = [ReadFailed(ZkError.NO_NODE) for _ in outcomes]
        dated(step, task, unseen if task.loading else outcomes)

    return everywhere(dated, undated)


def zero_id_taken_for_an_id() -> AbstractContextManager[object]:
    """The zero id in a topic's znode counts as the topic's id."""

    def taken(path: str, value: str | None) -> TopicId | None:
        return None if value is None else topic_id_from_text(value)

    return method(znodes_topic, "_topic_id", taken)
