"""DeleteTopics: marks topics for deletion, and waits until no broker shows them. The rest is as for any marker.

    the topic                                    error
    -------------------------------------------  ---------------------------------------------------------------------
    any, while delete.topic.enable is false      TOPIC_DELETION_DISABLED; INVALID_REQUEST before version 3
    any, while a row has both a name and an id   INVALID_REQUEST
    its id is unknown                            UNKNOWN_TOPIC_ID
    may not be deleted by the client             TOPIC_AUTHORIZATION_FAILED; without its name, if the client named
                                                   the id and may not describe it
    is not in service (deleted already, or in    UNKNOWN_TOPIC_OR_PARTITION
      the trash)
    is protected (`protection`)                  POLICY_VIOLATION, with the reason. Kafka has no protected topics
    exceeds the client's quota                   THROTTLING_QUOTA_EXCEEDED (`mutation_quotas`)
    is marked already, and held                  none: waits for the deletion under way
    otherwise                                    none: is marked

The marker names the incarnation (`named_incarnation`): a topic that another process creates anew under the name stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lethe.controller.core import client_waits, marks, mutation_quotas, protection, requests
from lethe.controller.core.client_wait_memory import TopicDropped
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import DeleteRequestedTopics, MarkedTopic, RequestedMarkersWritten
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin import DeletableTopic, DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import error_response
from lethe.protocol.security.acls import Operation as AclOperation
from lethe.protocol.security.acls import ResourceType
from lethe.protocol.security.authorizer import Action, Sender
from lethe.protocol.security.rights import may_change
from lethe.protocol.topic_globs import PROTECTED_TOPICS
from lethe.protocol.vocabulary import INTERNAL_TOPICS, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Create, Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import DeletionOrders

_FIRST_WITH_DISABLED: Final = 3
"""First version of DeleteTopics with the error TOPIC_DELETION_DISABLED."""
_WHAT: Final = "marking the topic that a client deletes"


def begin(step: StepContext, task: DeleteRequestedTopics) -> None:
    """Mark the topics that may be deleted, or answer if none is to be marked."""
    context = step.context
    request = requests.asked(context, task.key, DeleteTopicsRequest)
    sender = requests.sender_of(context, task.key)
    error = _refused_whole(context, request, context.cluster.unanswered[task.key].version)
    if error is not None:
        requests.answer(step, task.key, error_response(request, error))
        return
    ids = {topic.id: name for name, topic in context.cluster.topics.items() if topic.id is not None}
    rows = tuple(_row(context, topic, ids, sender) for topic in request.topics)
    names = dict.fromkeys(row.name for row in rows if row.error == ErrorCode.NONE and row.name is not None)
    errors = {name: _paid(step, task.key, name) for name in names}
    rows = tuple(_with_error(row, errors) for row in rows)
    topics = tuple(
        MarkedTopic(name, context.cluster.topics[name].created_zxid)
        for name, error in errors.items()
        if error is ErrorCode.NONE
    )
    if not topics:
        requests.answer(step, task.key, DeleteTopicsResponse(rows))
        return
    step.write([_marking(topic) for topic in topics], RequestedMarkersWritten(task.key, rows, topics))


def _paid(step: StepContext, key: int, name: str) -> ErrorCode:
    """Charge the client's quota for the topic; return the error if it is exceeded."""
    try:
        mutation_quotas.pay(step, key, len(step.context.cluster.topics[name].partitions))
    except RowRefused as refused:
        return refused.error
    return ErrorCode.NONE


def _refused_whole(context: Context, request: DeleteTopicsRequest, version: int) -> ErrorCode | None:
    if not context.delete_topic_enable and context.cluster.dynamic.deletion_unknown is None:
        is_known = version >= _FIRST_WITH_DISABLED
        return ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
    if any(topic.name is not None and topic.topic_id is not None for topic in request.topics):
        return ErrorCode.INVALID_REQUEST
    return None


def _row(context: Context, asked: DeletableTopic, ids: dict[TopicId, str], sender: Sender) -> DeletedTopic:
    """Return the topic's row, without an error if it is to be marked. The first matching rule decides."""
    topic_id = asked.topic_id
    name = asked.name if topic_id is None else ids.get(topic_id)
    if topic_id is not None:
        if name is None:
            return DeletedTopic(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not sender.allows(Action(AclOperation.DESCRIBE, ResourceType.TOPIC, name)):
            return DeletedTopic(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name is None or not may_change(sender, ApiKey.DELETE_TOPICS, name):
        return DeletedTopic(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    cluster = context.cluster
    if not cluster.is_shown(name):
        return DeletedTopic(name, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    pattern = protection.protecting_pattern(context, name)
    if pattern is not None:
        return DeletedTopic(name, topic_id, ErrorCode.POLICY_VIOLATION, _protected(name, pattern))
    return DeletedTopic(name, topic_id, ErrorCode.NONE)


def _protected(name: str, pattern: str) -> str:
    if name in INTERNAL_TOPICS:
        return f"Topic '{name}' is internal to Kafka, and is never deleted."
    return f"Topic '{name}' is protected by the pattern {pattern} of {PROTECTED_TOPICS}."


def _marking(topic: MarkedTopic) -> tuple[Operation, ...]:
    orders = DeletionOrders(topic_czxid=topic.created_zxid)
    return (
        Check(paths.topic(topic.name), ANY_VERSION),
        Create(paths.delete_topic(topic.name), znodes.encode_deletion_marker(orders)),
    )


def on_requested_markers_written(
    step: StepContext, task: RequestedMarkersWritten, outcomes: Sequence[GroupOutcome]
) -> None:
    """List the markers, and wait for brokers."""
    errors = {topic.name: _error(step, topic.name, each) for topic, each in zip(task.topics, outcomes, strict=True)}
    response = DeleteTopicsResponse(tuple(_with_error(row, errors) for row in task.rows))
    dropped = [TopicDropped(*topic) for topic in task.topics if errors[topic.name] == ErrorCode.NONE]
    if not dropped:
        requests.answer(step, task.key, response)
        return
    marks.deletions_requested(step)
    timeout_ms = requests.asked(step.context, task.key, DeleteTopicsRequest).timeout_ms
    client_waits.wait(step, task.key, response, dropped, timeout_ms)


def _with_error(row: DeletedTopic, errors: Mapping[str, ErrorCode]) -> DeletedTopic:
    """Return the row with what became of its topic, if it was to be marked."""
    if row.error != ErrorCode.NONE or row.name is None:
        return row
    return row._replace(error=errors[row.name])


def _error(step: StepContext, name: str, outcome: GroupOutcome) -> ErrorCode:
    match outcome:
        case GroupDone() | GroupFailed(index_in_group=1, error=ZkError.NODE_EXISTS):
            return ErrorCode.NONE
        case GroupFailed(index_in_group=0, error=ZkError.NO_NODE):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        case _:
            step.refuse(f"topic/{name}", _WHAT, str(outcome))
            return ErrorCode.UNKNOWN_SERVER_ERROR
