"""CreatePartitions: checks the topics, writes their znodes, serves the partitions and waits until brokers show them.

    the row                                               error
    ----------------------------------------------------  -----------------------------------------------------------
    names a topic twice                                   INVALID_REQUEST, in one row
    may not be altered by the client                      TOPIC_AUTHORIZATION_FAILED
    its topic is marked for deletion                      INVALID_TOPIC_EXCEPTION
    fails another check                                   `partition_creation_rules`
    is refused by the policy, or the whole request is     POLICY_VIOLATION (`topic_policy`)
    exceeds the client's quota                            THROTTLING_QUOTA_EXCEEDED (`mutation_quotas`)
    its topic's znode has changed since it was read       the topic is read again, and checked anew; after some attempts
                                                          UNKNOWN_SERVER_ERROR
    is written                                            what `client_waits` says

Kafka overwrites the znode in any version; this controller does not, so that it never takes back what another process
has written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from lethe.controller.core import client_waits, mutation_quotas, requests
from lethe.controller.core.client_wait_memory import PartitionsLed
from lethe.controller.core.context import Context
from lethe.controller.core.expansion import set_topic, znode_of
from lethe.controller.core.partition_creation_rules import check_growth
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadModifiedTopics
from lethe.controller.core.tasks_clients import AddRequestedPartitions, PartitionsAdded
from lethe.controller.core.topic_creation_requests import racks_of
from lethe.controller.core.topic_creation_rules import Assignment, check_policy
from lethe.protocol.client_rows import RowRefused, check_size
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreatePartitionsResponse, GrowableTopic, GrownTopic
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import error_response
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.security.rights import may_change
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper.operations import Operation, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import TopicZnode

MAX_ATTEMPTS: Final = 5
_WHAT: Final = "adding the partitions that a client requested"


def begin(step: StepContext, task: AddRequestedPartitions) -> None:
    """Check the topics, and write those that pass; answer if none is to be written."""
    context = step.context
    request = requests.asked(context, task.key, CreatePartitionsRequest)
    sender = requests.sender_of(context, task.key)
    if task.left is not None:
        left, rows = task.left, list(task.rows)
    elif too_many := context.config.topic_policy.of_request(_new_partitions(context, request, sender)):
        requests.answer(step, task.key, error_response(request, ErrorCode.POLICY_VIOLATION, too_many))
        return
    else:
        left, rows = _first(request)
    growing: list[GrowableTopic] = []
    groups: list[tuple[Operation, ...]] = []
    led: list[PartitionsLed] = []
    for topic in left:
        try:
            added = _checked(context, topic, sender)
            znode = _grown(context, topic.name, added)
            writes = (set_topic(context, topic.name, znode),)
            check_size(writes)
            if task.attempts == 1 and not request.validate_only:
                mutation_quotas.pay(step, task.key, len(added))
        except RowRefused as problem:
            rows.append(_refused(step, topic.name, problem))
            continue
        if request.validate_only:
            rows.append(GrownTopic(topic.name, ErrorCode.NONE))
            continue
        growing.append(topic)
        groups.append(writes)
        led.append(PartitionsLed(topic.name, context.cluster.topics[topic.name].id, tuple(znode.assignments)))
    if groups:
        step.write(groups, PartitionsAdded(task, tuple(rows), tuple(growing), tuple(led)))
    else:
        _end(step, task.key, rows, task.added)


def _new_partitions(context: Context, request: CreatePartitionsRequest, sender: Sender) -> int:
    """Return how many partitions the request would add to topics that exist and that its client may alter: the answer
    must not tell the size of others."""
    topics = context.cluster.topics
    return sum(
        max(0, topic.total - len(topics[topic.name].partitions))
        for topic in request.topics
        if topic.name in topics and may_change(sender, ApiKey.CREATE_PARTITIONS, topic.name)
    )


def _first(request: CreatePartitionsRequest) -> tuple[tuple[GrowableTopic, ...], list[GrownTopic]]:
    """Return the topics to look at, and the rows of those that the request names twice."""
    named = Counter(topic.name for topic in request.topics)
    twice = [
        GrownTopic(name, ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        for name, times in named.items()
        if times > 1
    ]
    return tuple(topic for topic in request.topics if named[topic.name] == 1), twice


def _checked(context: Context, topic: GrowableTopic, sender: Sender) -> Assignment:
    cluster = context.cluster
    if not may_change(sender, ApiKey.CREATE_PARTITIONS, topic.name):
        raise RowRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed.")
    if cluster.is_queued(topic.name) or topic.name in cluster.marks:
        raise RowRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    added = check_growth(topic, _existing(context, topic.name), racks_of(context))
    check_policy(context.config.topic_policy.of_partitions(topic.name, topic.total))
    return added


def _existing(context: Context, name: str) -> Mapping[int, ReplicaAssignment]:
    return znode_of(context, name).assignments if name in context.cluster.topics else {}


def _grown(context: Context, name: str, added: Assignment) -> TopicZnode:
    znode = znode_of(context, name)
    new = {number: ReplicaAssignment(replicas) for number, replicas in added.items()}
    return TopicZnode({**znode.assignments, **new}, znode.topic_id)


def on_partitions_added(step: StepContext, then: PartitionsAdded, outcomes: Sequence[GroupOutcome]) -> None:
    """Read the written topics, which takes the partitions in; try those again that others have written."""
    task = then.task
    rows, added = list(then.rows), list(task.added)
    again: list[GrowableTopic] = []
    for topic, led, outcome in zip(then.topics, then.led, outcomes, strict=True):
        match outcome:
            case GroupDone():
                rows.append(GrownTopic(topic.name, ErrorCode.NONE))
                added.append(led)
            case GroupFailed(error=ZkError.BAD_VERSION) if task.attempts < MAX_ATTEMPTS:
                again.append(topic)
            case GroupFailed(error=ZkError.NO_NODE):
                gone = RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
                rows.append(_refused(step, topic.name, gone))
            case _:
                unexpected = RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(outcome))
                rows.append(_refused(step, topic.name, unexpected))
    read = ReadModifiedTopics(tuple(topic.name for topic in then.topics))
    if again:
        retry = AddRequestedPartitions(task.key, tuple(again), tuple(rows), tuple(added), task.attempts + 1)
        step.do(read, retry)
        return
    step.do(read)
    _end(step, task.key, rows, added)


def _end(step: StepContext, key: int, rows: Sequence[GrownTopic], added: Sequence[PartitionsLed]) -> None:
    """Answer at once if nothing was written, otherwise after brokers show the partitions."""
    request = requests.asked(step.context, key, CreatePartitionsRequest)
    by_name = {row.name: row for row in rows}
    names = dict.fromkeys(topic.name for topic in request.topics)
    response = CreatePartitionsResponse(tuple(by_name[name] for name in names))
    if added:
        client_waits.wait(step, key, response, added, request.timeout_ms)
    else:
        requests.answer(step, key, response)


def _refused(step: StepContext, name: str, problem: RowRefused) -> GrownTopic:
    if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
        step.refuse(f"topic/{name}", _WHAT, str(problem))
    return GrownTopic(name, problem.error, problem.message)
