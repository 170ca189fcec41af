"""Requests to bring back topics that are marked for deletion, or in the trash; and to delete them from it.

A request is a znode `/lethe/requests/<topic>`. The controller decides, as only its memory has what was destroyed:

    the topic                                          answer
    -------------------------------------------------  ------------------------------------------------------------
    is marked and held (`marks`): it is in service     marker and request are removed in one multi; it stays
    is queued: replicas may be deleted                 refused
    is marked, and the marker says that its deletion   refused
    has begun under another controller
    was marked before this controller took over        refused: an earlier one may have begun and died
      the same, and it was freezing all the time       as any held topic (`_was_held`)
    is not marked, or does not exist                   refused
    is not among `CoreConfig.only_topics`              refused
    is in the trash                                    brought back, or deleted (`trash_out`, `trash_end`)

A refusal is written into the request, for the command that waits. A deletion begins within milliseconds of its marker
unless something holds the topic: a pause, the pace, or a reassignment. A request comes in time only for a held topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.controller.core import trash, trash_end, trash_out
from lethe.controller.core.context import Context
from lethe.controller.core.holding import drop_markers
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_trash import (
    ReadTopicRequests,
    RequestAnswer,
    TopicRequestsAnswered,
    TopicRequestsListed,
    TopicRequestsRead,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Present,
    ReadOutcome,
    SetData,
    ZkError,
    error_words,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import RequestedAction, TopicRequest, TrashPhase

BRINGING_BACK: Final = "bringing the topic back"
"""The refused action in the event record. Old journals contain it: never change it."""
INHERITED: Final = (
    "it was marked before this controller took over, and it is not known whether another one, perhaps Kafka's, has "
    "deleted replicas since"
)
_CHANGED: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE)


def read_requests(step: StepContext) -> None:
    """List the requests, and watch for more, unless they are outside this controller's scope."""
    if not step.context.config.scope.answers_requests:
        return
    path = paths.requests()
    step.read((Exists(path, watch=True), GetChildren(path, watch=True)), TopicRequestsListed())


def on_requests_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the requests, and the markers and entries in the trash of their topics."""
    listed = outcomes[1]
    names = listed.names if isinstance(listed, Children) else ()
    if isinstance(listed, Children) or is_absent(listed):
        without = [name for name in step.context.cluster.trash.topics if name not in names]
        for name in without:
            trash_end.forget_turn(step.context, name)
        _no_more_awaited(step, without)
    if names:
        reads = (
            read
            for name in names
            for read in (GetData(paths.request(name)), GetData(paths.delete_topic(name)), Exists(paths.trashed(name)))
        )
        step.read(reads, TopicRequestsRead(names))


def on_requests_read(step: StepContext, task: TopicRequestsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Carry out each request, or write the refusal into it."""
    found: dict[str, _Asked] = {}
    is_read = dict(zip(task.topics, map(read_error, outcomes[::3]), strict=True))
    _no_more_awaited(step, (name for name, error in is_read.items() if error is None))
    for name, requested, *seen in zip(task.topics, *(outcomes[nth::3] for nth in range(3)), strict=True):
        if not isinstance(requested, Data):
            continue
        try:
            request = znodes.decode_topic_request(name, requested.data)
        except znodes.MalformedZnode as malformed:
            step.refuse(f"topic/{name}", BRINGING_BACK, str(malformed))
            continue
        if request.refused is None:
            found[name] = _Asked(request, requested.stat.version, *seen)
    in_trash = {name: asked for name, asked in found.items() if _is_in_trash(step.context, name)}
    purged = {name: asked.version for name, asked in in_trash.items() if _may_be_purged(step.context, name, asked)}
    back = {n: each.version for n, each in in_trash.items() if each.request.action is RequestedAction.UNDELETE}
    _answer(step, {name: asked for name, asked in found.items() if name not in purged and name not in back})
    trash_end.purge(step, purged)
    trash_out.look(step, back)


def _no_more_awaited(step: StepContext, names: Iterable[str]) -> None:
    """Requests for these topics in the trash are read, or there are none: what waited for them goes on."""
    topics = step.context.cluster.trash.topics
    for name in names:
        if name in topics:
            topics[name].is_requested, topics[name].end_requested = False, None
    trash.arm(step)


class _Asked(NamedTuple):
    """A request, its version, and what was read of the topic's marker and entry in the trash."""

    request: TopicRequest
    version: int
    marker: ReadOutcome
    entry: ReadOutcome


def _is_in_trash(context: Context, name: str) -> bool:
    return context.config.only_topics is None and context.cluster.trash.in_phase(name, TrashPhase.TRASHED) is not None


def _may_be_purged(context: Context, name: str, asked: _Asked) -> bool:
    is_purge = asked.request.action is RequestedAction.PURGE
    return is_purge and _purge_problem(context, name, asked.request) is None


def _answer(step: StepContext, found: Mapping[str, _Asked]) -> None:
    """Remove the marker of each topic that may stay, with its request; refuse the others."""
    groups: list[tuple[Operation, ...]] = []
    answers: list[RequestAnswer] = []
    for name, asked in found.items():
        request, version, marker, _ = asked
        path = paths.request(name)
        is_purge = request.action is RequestedAction.PURGE
        why = _purge_problem(step.context, name, request) if is_purge else _problem(step.context, name, asked)
        if why is not None:
            refused = request.refuse(why)
            groups.append((SetData(path, znodes.encode_topic_request(refused), version),))
            answers.append(RequestAnswer(name, refused))
        elif not is_purge and isinstance(marker, Data):
            groups.append((Delete(paths.delete_topic(name), marker.stat.version), Delete(path, version)))
            answers.append(RequestAnswer(name, None))
    if groups:
        step.write(groups, TopicRequestsAnswered(tuple(answers)))


def _purge_problem(context: Context, name: str, request: TopicRequest) -> str | None:
    """Return why the topic cannot be deleted from the trash; None if it can."""
    found = context.cluster.trash.in_phase(name, TrashPhase.TRASHED)
    if context.config.only_topics is not None:
        return "the active controller is here for a rescue"
    if found is None:
        return "it is not in the trash"
    if found.entry.topic_id != request.topic_id:
        return "another topic of that name is in the trash now"
    if context.cluster.paused is not None:
        return "deletions are paused"
    return trash_end.forbidden(context, name)


def _problem(context: Context, name: str, asked: _Asked) -> str | None:
    """Return why the topic cannot be kept; None if nothing of it was destroyed."""
    cluster, only, marker = context.cluster, context.config.only_topics, asked.marker
    if only is not None and name not in only:
        return "the active controller is here for other topics only"
    if cluster.is_queued(name):
        return "its deletion has begun, and replicas may be deleted already"
    if is_absent(marker):
        return "it is not marked for deletion"
    if (error := read_error(marker)) is not None:
        return f"reading its marker failed with {error_words(error)}"
    if name not in cluster.topics and name not in cluster.quarantined_topics:
        return "there is no such topic"
    topic = cluster.topics.get(name)
    begun = znodes.decode_deletion_marker(marker.data).begun if isinstance(marker, Data) else None
    if begun is not None and (topic is None or begun == topic.created_zxid):
        return "its deletion has begun under another controller, and replicas may be deleted already"
    return INHERITED if name in cluster.inherited_marks and not _was_held(context, name, asked) else None


def _was_held(context: Context, name: str, asked: _Asked) -> bool:
    """Return True if no controller can have deleted anything of this topic, whose marker was there at the takeover.

        1. the term before this one begins    every controller writes `/controller_epoch` as it is elected
        2. the marker is created              and never written: its orders are the first ones
        3. the entry in the trash is created  by the controller of that term, which is Lethe's, and holds the topic
        4. this term begins

    So nobody else had control since the marker is there, and a freezing topic is not queued by that marker. An earlier
    term may have been Kafka's: its controller deletes what is freezing."""
    cluster = context.cluster
    began, topic = cluster.previous_term_zxid, cluster.topics.get(name)
    found = cluster.trash.in_phase(name, TrashPhase.FREEZING)
    marker, entry = asked.marker, asked.entry
    if began is None or topic is None or found is None or found.entry.topic_id != topic.id:
        return False
    if not isinstance(marker, Data) or not isinstance(entry, Present) or marker.stat.version:
        return False
    return began < marker.stat.czxid < entry.stat.czxid < cluster.term_zxid


def on_requests_answered(step: StepContext, task: TopicRequestsAnswered, outcomes: Sequence[GroupOutcome]) -> None:
    """Drop the removed markers; record the refusals; read again the requests that have changed."""
    is_changed = False
    unmarked: list[str] = []
    for answer, outcome in zip(task.answers, outcomes, strict=True):
        subject = f"topic/{answer.topic}"
        if isinstance(outcome, GroupFailed) and outcome.error in _CHANGED:
            is_changed = True
        elif isinstance(outcome, GroupFailed):
            step.refuse(subject, BRINGING_BACK, error_words(outcome.error))
        elif answer.refused is not None:
            step.refuse(subject, BRINGING_BACK, answer.refused.refused or "")
        else:
            unmarked.append(answer.topic)
    drop_markers(step, unmarked)
    if is_changed:
        step.do(ReadTopicRequests())
