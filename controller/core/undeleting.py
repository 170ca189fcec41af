"""Requests to bring back topics that are marked for deletion.

A request is a znode `/lethe/requests/<topic>`. The controller decides, as only its memory has what was destroyed:

    the topic                                          answer
    -------------------------------------------------  ------------------------------------------------------------
    is marked and held (`marks`): it is in service     marker and request are removed in one multi; it stays
    is queued: replicas may be deleted                 refused
    was marked before this controller took over        refused: an earlier one may have begun and died
    is marked, and the marker says that its deletion   refused
    has begun under another controller
    is not marked, or does not exist                   refused
    is not among `CoreConfig.only_topics`              refused

A refusal is written into the request, for the command that waits. A deletion begins within milliseconds of its marker
unless something holds the topic: a pause, the pace, or a reassignment. A request comes in time only for a held topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core.context import Context
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
    ReadOutcome,
    SetData,
    ZkError,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

BRINGING_BACK: Final = "bringing the topic back"
"""The refused action in the event record. Old journals contain it: never change it."""
INHERITED: Final = "it was marked before this controller took over, and replicas may be deleted already"
_CHANGED: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE)


def read_requests(step: StepContext) -> None:
    """List the requests, and watch for more."""
    path = paths.requests()
    step.read((Exists(path, watch=True), GetChildren(path, watch=True)), TopicRequestsListed())


def on_requests_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the requests, and the markers of their topics."""
    listed = outcomes[1]
    names = listed.names if isinstance(listed, Children) else ()
    if names:
        reads = (read for name in names for read in (GetData(paths.request(name)), GetData(paths.delete_topic(name))))
        step.read(reads, TopicRequestsRead(names))


def on_requests_read(step: StepContext, task: TopicRequestsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Remove the marker of each topic that may stay, with its request; write the refusal into the other requests."""
    groups: list[tuple[Operation, ...]] = []
    answers: list[RequestAnswer] = []
    for name, requested, marker in zip(task.topics, outcomes[::2], outcomes[1::2], strict=True):
        if not isinstance(requested, Data):
            continue
        try:
            request = znodes.decode_topic_request(name, requested.data)
        except znodes.MalformedZnode as malformed:
            step.refuse(f"topic/{name}", BRINGING_BACK, str(malformed))
            continue
        if request.refused is not None:
            continue
        path, version = paths.request(name), requested.stat.version
        why = _problem(step.context, name, marker)
        if why is None and isinstance(marker, Data):
            groups.append((Delete(paths.delete_topic(name), marker.stat.version), Delete(path, version)))
            answers.append(RequestAnswer(name, None))
        else:
            refused = request.refuse(why or "its marker cannot be read")
            groups.append((SetData(path, znodes.encode_topic_request(refused), version),))
            answers.append(RequestAnswer(name, refused))
    if groups:
        step.write(groups, TopicRequestsAnswered(tuple(answers)))


def _problem(context: Context, name: str, marker: ReadOutcome) -> str | None:
    """Return why the topic cannot be kept; None if nothing of it was destroyed."""
    cluster, only = context.cluster, context.config.only_topics
    if only is not None and name not in only:
        return "the active controller is here for other topics only"
    if cluster.is_queued(name):
        return "its deletion has begun, and replicas may be deleted already"
    if is_absent(marker):
        return "it is not marked for deletion"
    if name in cluster.inherited_marks:
        return INHERITED
    if (error := read_error(marker)) is not None:
        return f"reading its marker failed with {error.name}"
    if name not in cluster.topics and name not in cluster.quarantined_topics:
        return "there is no such topic"
    topic = cluster.topics.get(name)
    begun = znodes.decode_deletion_marker(marker.data).begun if isinstance(marker, Data) else None
    if begun is not None and (topic is None or begun == topic.created_zxid):
        return "its deletion has begun under another controller, and replicas may be deleted already"
    return None


def on_requests_answered(step: StepContext, task: TopicRequestsAnswered, outcomes: Sequence[GroupOutcome]) -> None:
    """Record the refusals; read again the requests that have changed. The watch on markers reports the removed ones."""
    is_changed = False
    for answer, outcome in zip(task.answers, outcomes, strict=True):
        subject = f"topic/{answer.topic}"
        if isinstance(outcome, GroupFailed) and outcome.error in _CHANGED:
            is_changed = True
        elif isinstance(outcome, GroupFailed):
            step.refuse(subject, BRINGING_BACK, outcome.error.name)
        elif answer.refused is not None:
            step.refuse(subject, BRINGING_BACK, answer.refused.refused or "")
    if is_changed:
        step.do(ReadTopicRequests())
