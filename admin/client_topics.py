"""Topics as brokers show them to a client: names, partitions, settings, reassignments.

A broker leaves topics out of its list that the client may not describe. So a topic that is not listed does not exist
only if the list is complete, or if the broker says so when it is asked by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.kafka.missing_rights import (
    GRANT_DESCRIBE,
    GRANT_DESCRIBE_CLUSTER,
    REFUSALS,
    answer_words,
    grant_on_topic,
)
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_plans import PartitionDescription, TopicDescription
from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from lethe.protocol.kafka.admin_partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import (
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)
from lethe.protocol.security.acls import Operation
from lethe.protocol.topic_names import topics_matching, unknown_topic
from lethe.protocol.vocabulary import (
    ZERO_TOPIC_ID,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
    topic_name_problem,
)

SET_FOR_THE_TOPIC: Final = 1
"""Source of a setting that the topic overrides (DYNAMIC_TOPIC_CONFIG)."""
REQUESTS_UNSEEN: Final = "brokers do not show reassignments that the controller has not begun"


@dataclass(frozen=True, slots=True)
class ShownTopics:
    """All topics that the broker lists, and why it may hide others (None: it hides none)."""

    answer: MetadataResponse
    topics: Mapping[str, MetadataTopic]
    hidden: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.topics)

    def topic_id(self, name: str) -> TopicId | None:
        """Return the id; None for a cluster that has none."""
        found = self.topics[name].topic_id
        return None if found == ZERO_TOPIC_ID else found


async def shown_topics(cluster: ClientCluster) -> ShownTopics:
    """Ask for all topics."""
    answer = await cluster.metadata()
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = {str(each.name): each for each in answer.topics if each.name is not None and each.error != gone}
    return ShownTopics(answer, dict(sorted(topics.items())), await cluster.why_hidden())


class Missing(NamedTuple):
    """An expression that matches no topic that is shown."""

    text: str
    may_exist: bool

    def refusal(self) -> Refusal:
        return Refusal(self.text, Exit.UNREACHABLE if self.may_exist else Exit.NO)


async def why_missing(cluster: ClientCluster, shown: ShownTopics, expression: str) -> Missing | None:
    """Return why the expression matches no topic; None if it matches one."""
    if topics_matching(expression, shown.names):
        return None
    if shown.hidden is None or topic_name_problem(expression) is None:
        return await why_unnamed(cluster, shown, expression)
    return Missing(
        f"no topic that is shown matches {expression!r}, and others may be hidden: {shown.hidden}", may_exist=True
    )


async def why_unnamed(cluster: ClientCluster, shown: ShownTopics, name: str) -> Missing:
    """Return why the topic of exactly this name is not shown."""
    if shown.hidden is not None:
        answer = await cluster.metadata((name,))
        if all(each.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in answer.topics):
            return Missing(f"topic {name!r} is not shown, and may exist: {shown.hidden}", may_exist=True)
    return Missing(unknown_topic(name, shown.names), may_exist=False)


async def demand_shown(
    cluster: ClientCluster, shown: ShownTopics, expressions: Sequence[str], *, if_exists: bool = False
) -> None:
    """Raise Refusal where one matches no topic. With `if_exists`, only where there may be one that is hidden."""
    for expression in expressions:
        missing = await why_missing(cluster, shown, expression)
        if missing is not None and (missing.may_exist or not if_exists):
            raise missing.refusal()


# --- reassignments ------------------------------------------------------------------------------------------------


class Moving(NamedTuple):
    """Reassignments under way, by partition, or why they are unseen."""

    partitions: Mapping[TopicPartition, MovingPartition]
    unseen: str | None = None

    def has(self, topic: str) -> bool | None:
        """Return whether a partition of the topic is moved; None: unseen."""
        return None if self.unseen is not None else any(tp.topic == topic for tp in self.partitions)


async def moving_partitions(cluster: ClientCluster) -> Moving:
    """Ask the controller for all reassignments. A failure is a value."""
    request = ListPartitionReassignmentsRequest(None, cluster.left_ms)
    try:
        answer = cast(
            ListPartitionReassignmentsResponse, await cluster.ask_controller(request, act="list reassignments")
        )
    except (ClientError, ProtocolError, Refusal) as error:
        return Moving({}, str(error))
    if answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        why = answer_words(answer.error, cluster.reach.principal, GRANT_DESCRIBE_CLUSTER)
        return Moving({}, f"ListPartitionReassignments: {why}")
    if answer.error != ErrorCode.NONE:
        return Moving({}, f"ListPartitionReassignments: {said(answer.error, answer.message)}")
    return Moving({TopicPartition(row.topic, each.partition): each for row in answer.topics for each in row.partitions})


def said_of_topic(error: int, message: str | None, principal: str, operation: Operation, topic: str) -> str:
    """Return Kafka's words for the error; where the principal lacks the right to the operation, ours."""
    if error in REFUSALS:
        # Kafka's message says no more than the error's name, or is a dump of the request.
        return answer_words(error, principal, grant_on_topic(operation, topic))
    return said(error, message)


def said(error: int, message: str | None) -> str:
    """Return Kafka's words for the error, after its name."""
    return error_name(error) if not message else f"{error_name(error)}: {message}"


# --- settings -----------------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """The settings that a topic overrides, or why they are unseen."""

    config: Mapping[str, str]
    unseen: str | None = None

    @property
    def shown(self) -> Mapping[str, str] | None:
        return self.config if self.unseen is None else None


async def read_settings(cluster: ClientCluster, names: Sequence[str]) -> dict[str, Settings]:
    """Return what each topic overrides; a topic that is missing in the answer is unseen."""
    found = dict.fromkeys(names, Settings({}, "DescribeConfigs does not answer for it"))
    if not names:
        return found
    wanted = tuple(DescribableConfigs(TOPIC_RESOURCE, name) for name in names)
    answer = cast(DescribeConfigsResponse, await cluster.ask(DescribeConfigsRequest(wanted)))
    for result in answer.results:
        if result.error != ErrorCode.NONE:
            asked = (cluster.reach.principal, Operation.DESCRIBE_CONFIGS, result.resource_name)
            why = said_of_topic(result.error, result.error_message, *asked)
            found[result.resource_name] = Settings({}, f"DescribeConfigs: {why}")
            continue
        mine = {each.name: each.value or "" for each in result.entries if each.source == SET_FOR_THE_TOPIC}
        found[result.resource_name] = Settings(mine)
    return found


# --- descriptions -------------------------------------------------------------------------------------------------


async def describe_shown(cluster: ClientCluster, shown: ShownTopics, names: Sequence[str]) -> list[TopicDescription]:
    """Return the topics in the order of the names; what brokers do not show is None."""
    moving = await moving_partitions(cluster)
    settings = await read_settings(cluster, names)
    principal = cluster.reach.principal
    return [_description(name, shown, settings[name], moving, principal) for name in names]


def _description(name: str, shown: ShownTopics, settings: Settings, moving: Moving, principal: str) -> TopicDescription:
    topic = shown.topics[name]
    rows = sorted(topic.partitions, key=lambda each: each.partition)
    partitions = tuple(_partition(each, moving.partitions.get(TopicPartition(name, each.partition))) for each in rows)
    problem = None
    if topic.error != ErrorCode.NONE:
        problem = f"the broker answers {answer_words(topic.error, principal, GRANT_DESCRIBE)}"
    return TopicDescription(
        name,
        shown.topic_id(name),
        None,
        settings.config,
        partitions,
        problem,
        requests_unseen=REQUESTS_UNSEEN,
        config_unseen=settings.unseen,
        moving_unseen=moving.unseen,
    )


def _partition(shown: MetadataPartition, moving: MovingPartition | None) -> PartitionDescription:
    assignment = ReplicaAssignment(shown.replicas)
    if moving is not None:
        assignment = ReplicaAssignment(moving.replicas, moving.adding, moving.removing)
    return PartitionDescription(shown.partition, shown.leader, shown.leader_epoch, shown.isr, assignment)
