"""CreateTopics: checks the topics, writes them, brings them into service and waits until brokers show them.

    the row                                              error
    ---------------------------------------------------  ------------------------------------------------------------
    fails a check                                        `topic_creation_rules`; nothing of it is written
    the request is refused as a whole (`topic_policy`)   POLICY_VIOLATION
    exceeds the client's quota                           THROTTLING_QUOTA_EXCEEDED (`mutation_quotas`)
    its topic was created by another process meanwhile   TOPIC_ALREADY_EXISTS
    its marker is unseen, or its write failed otherwise  UNKNOWN_SERVER_ERROR, and the reason is recorded
    is written                                           what `client_waits` says

A topic is one multi, like Kafka's two writes: the configuration, then the topic's znode with its id. A configuration
that an earlier topic of this name left behind is replaced. The marker is read before, since this controller may hear
later than a client that a topic is marked. A topic that cannot be written does not hold up the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from lethe.controller.core import client_waits, mutation_quotas, requests
from lethe.controller.core.client_wait_memory import PartitionsLed
from lethe.controller.core.context import Context
from lethe.controller.core.drawing import draw_below, fresh_topic_id
from lethe.controller.core.replica_assignment import BrokerRack
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadTopics
from lethe.controller.core.tasks_clients import (
    CreateRequestedTopics,
    NewTopic,
    NewTopicsLookedUp,
    NewTopicsWritten,
)
from lethe.controller.core.topic_creation_rules import (
    Assignment,
    Surroundings,
    TopicNames,
    already_exists,
    check_topic,
    configs_of,
    marked_for_deletion,
)
from lethe.protocol.client_rows import RowRefused, check_size
from lethe.protocol.kafka.admin import (
    BROKERS_DEFAULT,
    CreatableTopic,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import error_response
from lethe.protocol.kafka.topic_defaults import effective_configs
from lethe.protocol.security.acls import Operation as AclOperation
from lethe.protocol.security.acls import ResourceType
from lethe.protocol.security.authorizer import Action, Sender
from lethe.protocol.security.rights import may_change
from lethe.protocol.vocabulary import CLUSTER_METADATA_TOPIC
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Exists,
    Operation,
    Present,
    ReadOutcome,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.topic_creation import creation_of_topic

MAX_ATTEMPTS: Final = 5
_WHAT: Final = "creating the topic that a client requested"


def racks_of(context: Context) -> tuple[BrokerRack, ...]:
    """Return the registered brokers, by id: those that can host replicas of new partitions."""
    brokers = context.cluster.brokers
    return tuple(BrokerRack(broker, brokers[broker].rack) for broker in sorted(brokers))


def begin(step: StepContext, task: CreateRequestedTopics) -> None:
    """Check the topics; look the good ones up in ZooKeeper, or answer if none is to be written."""
    context = step.context
    request = requests.asked(context, task.key, CreateTopicsRequest)
    sender = requests.sender_of(context, task.key)
    if too_many := context.config.topic_policy.of_request(_partitions_of(context, request)):
        requests.answer(step, task.key, error_response(request, ErrorCode.POLICY_VIOLATION, too_many))
        return
    named = Counter(topic.name for topic in request.topics)
    around = _surroundings(context)
    rows: list[CreatedTopic] = []
    new: list[NewTopic] = []
    for topic in request.topics:
        refused = _refused_before(topic.name, named[topic.name], sender)
        if refused is not None:
            rows.append(refused)
            continue
        try:
            assignment = check_topic(topic, around)
            wanted = _new_topic(context, topic, assignment, sender)
            check_size(_writes(wanted, config_exists=False))
            if not request.validate_only:
                mutation_quotas.pay(step, task.key, len(assignment))
        except RowRefused as problem:
            rows.append(_refused(step, topic.name, problem))
            continue
        new.append(wanted)
        around.topics.add(topic.name)
    if request.validate_only or not new:
        _answer(step, task.key, (*rows, *(topic.row for topic in new)))
        return
    _look_up(step, task.key, rows, new)


def _partitions_of(context: Context, request: CreateTopicsRequest) -> int:
    """Return how many partitions the topics of the request would have; without numbers that are invalid."""
    default = context.config.new_topics.partitions
    counts = (
        len(topic.assignments) or (default if topic.num_partitions == BROKERS_DEFAULT else max(0, topic.num_partitions))
        for topic in request.topics
    )
    return sum(counts)


def _surroundings(context: Context) -> Surroundings:
    cluster = context.cluster
    trash = cluster.trash

    def reserved(name: str) -> str | None:
        found = trash.reserves(name)
        return None if found is None else found.reason

    return Surroundings(
        topics=TopicNames((*cluster.topics, *cluster.quarantined_topics)),
        cached={name: None for name in cluster.topics if cluster.is_shown(name)},
        marked={**dict.fromkeys(cluster.deletions), **dict.fromkeys(cluster.marks)},
        brokers=racks_of(context),
        defaults=context.config.new_topics,
        settings=context.broker_settings,
        draw=partial(draw_below, context),
        reserved=reserved,
        policy=context.config.topic_policy,
    )


def _refused_before(name: str, times: int, sender: Sender) -> CreatedTopic | None:
    """Return the row of a topic that is refused before it is looked at, in Kafka's order; None if it is not."""
    hidden = ErrorCode.NONE if _may_describe(sender, name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name == CLUSTER_METADATA_TOPIC:
        return CreatedTopic(name, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if times > 1:
        return CreatedTopic(
            name, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.", config_error=hidden
        )
    if not may_change(sender, ApiKey.CREATE_TOPICS, name):
        return CreatedTopic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.", config_error=hidden)
    return None


def _may_describe(sender: Sender, name: str) -> bool:
    return sender.allows(Action(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name))


def _new_topic(context: Context, topic: CreatableTopic, assignment: Assignment, sender: Sender) -> NewTopic:
    topic_id = fresh_topic_id(context) if context.config.ibp.creates_topic_ids else None
    replicas = tuple(assignment[number] for number in sorted(assignment))
    configs = configs_of(topic)
    row = CreatedTopic(topic.name, ErrorCode.NONE, config_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if _may_describe(sender, topic.name):
        tiered = context.config.new_topics.tiered_storage
        entries = effective_configs(configs, context.broker_settings, tiered_storage=tiered)
        counts = len(replicas), len(replicas[0])
        row = CreatedTopic(topic.name, ErrorCode.NONE, None, None, *counts, entries)
    return NewTopic(row, topic_id, replicas, tuple(configs.items()))


# --- writing ----------------------------------------------------------------------------------------------------------


def _writes(topic: NewTopic, *, config_exists: bool) -> tuple[Operation, ...]:
    what = topic.name, topic.topic_id, topic.assignment, dict(topic.configs)
    return creation_of_topic(*what, config_exists=config_exists)


def _look_up(
    step: StepContext,
    key: int,
    rows: Sequence[CreatedTopic],
    new: Sequence[NewTopic],
    created: Sequence[NewTopic] = (),
    attempts: int = 1,
) -> None:
    """Read whether these topics are marked, and whether they have configurations."""
    named = (topic.name for topic in new)
    reads = (Exists(path) for name in named for path in (paths.delete_topic(name), paths.config_topic(name)))
    step.read(reads, NewTopicsLookedUp(key, tuple(rows), tuple(new), tuple(created), attempts))


def on_new_topics_looked_up(step: StepContext, task: NewTopicsLookedUp, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the topics that are not marked."""
    rows, new = list(task.rows), []
    groups: list[tuple[Operation, ...]] = []
    for topic, marker, config in zip(task.topics, outcomes[::2], outcomes[1::2], strict=True):
        if is_absent(marker):
            new.append(topic)
            groups.append(_writes(topic, config_exists=isinstance(config, Present)))
        elif isinstance(marker, Present):
            rows.append(_refused(step, topic.name, marked_for_deletion(topic.name)))
        else:
            why = f"reading {paths.delete_topic(topic.name)}: {marker}"
            rows.append(_refused(step, topic.name, RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=why)))
    if groups:
        step.write(groups, NewTopicsWritten(task, tuple(rows), tuple(new)))
    else:
        _end(step, task.key, rows, task.created)


def on_new_topics_written(step: StepContext, task: NewTopicsWritten, outcomes: Sequence[GroupOutcome]) -> None:
    """Read the written topics, and wait for brokers; look up topics again whose configuration has come or gone."""
    before = task.before
    rows, created = list(task.rows), list(before.created)
    again: list[NewTopic] = []
    for topic, outcome in zip(task.topics, outcomes, strict=True):
        match outcome:
            case GroupDone():
                created.append(topic)
                # Kafka reads the id only for clients that may see the configuration.
                is_shown = topic.row.config_error == ErrorCode.NONE
                rows.append(topic.row._replace(topic_id=topic.topic_id) if is_shown else topic.row)
            case GroupFailed(index_in_group=1, error=ZkError.NODE_EXISTS):
                rows.append(_refused(step, topic.name, already_exists(topic.name)))
            case GroupFailed(index_in_group=0, error=ZkError.NODE_EXISTS | ZkError.NO_NODE) if (
                before.attempts < MAX_ATTEMPTS
            ):
                again.append(topic)
            case _:
                rows.append(_refused(step, topic.name, RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(outcome))))
    if again:
        _look_up(step, before.key, rows, again, created, before.attempts + 1)
    else:
        _end(step, before.key, rows, created)


def _end(step: StepContext, key: int, rows: Sequence[CreatedTopic], created: Sequence[NewTopic]) -> None:
    """Answer at once if nothing was written, otherwise after brokers show the topics."""
    if not created:
        _answer(step, key, rows)
        return
    request = requests.asked(step.context, key, CreateTopicsRequest)
    step.do(ReadTopics(tuple(topic.name for topic in created)))
    led = (PartitionsLed(topic.name, topic.topic_id, tuple(range(len(topic.assignment)))) for topic in created)
    client_waits.wait(step, key, _response(request, rows), led, request.timeout_ms)


# --- answers ----------------------------------------------------------------------------------------------------------


def _answer(step: StepContext, key: int, rows: Sequence[CreatedTopic]) -> None:
    requests.answer(step, key, _response(requests.asked(step.context, key, CreateTopicsRequest), rows))


def _response(request: CreateTopicsRequest, rows: Sequence[CreatedTopic]) -> CreateTopicsResponse:
    """Return the response with the rows in the order of the request. Rows of one name are alike."""
    by_name = {row.name: row for row in rows}
    return CreateTopicsResponse(tuple(by_name[topic.name] for topic in request.topics))


def _refused(step: StepContext, name: str, problem: RowRefused) -> CreatedTopic:
    if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
        step.refuse(f"topic/{name}", _WHAT, str(problem))
    return CreatedTopic(name, problem.error, problem.message)
