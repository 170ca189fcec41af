"""Reads and commits the offsets of consumer groups, as their coordinator stores them.

A broker coordinates the groups of the partitions of `__consumer_offsets` that it leads. It hides some of them without
an error: see `hiding_problem`. It also hides, without an error, what a group has committed for a topic that the client
may not DESCRIBE. So nothing is read from a coordinator that may hide groups, and nothing of topics that one may hide.

A broker that has not carried out the loss of such a partition still lists the partition's groups, with the offsets from
before. So each group's offsets are those of the partition's leader by the controller's memory:

    the group is listed by                            its offsets
    ------------------------------------------------  -----------------------------------------------------------
    the leader of its partition, and perhaps others   are those of the leader
    others only                                       are unseen: the others may count with fewer partitions, as
                                                      brokers do that have not restarted since some were added

Only a group without members takes offsets from others. An offset that a group has committed itself is never
overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final, NamedTuple, cast

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.adapters.kafka.missing_rights import (
    GRANT_DESCRIBE_CLUSTER,
    answer_words,
    grant_on_group,
    grant_on_topic,
)
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import (
    HAS_MEMBERS,
    CommittedOffset,
    FetchedTopic,
    GroupOffsets,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetToCommit,
    TopicToCommit,
    coordinator_partition,
)
from lethe.protocol.kafka.queries import (
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from lethe.protocol.security.acls import Operation
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, BrokerId

FIRST_WITH_OPERATIONS: Final = 8
LAST_WITH_OPERATIONS: Final = 10
"""The Metadata versions with the authorized operations on the cluster."""
DESCRIBE: Final = 1 << 8
"""Bit of the operation DESCRIBE."""
PARTITIONS_PER_COMMIT: Final = 1_000
"""A coordinator stores the offsets of a request in one batch, which must fit into a message."""
_ONLY_FROM_MEMBERS: Final = (22, 25, 27)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS."""


class GroupsUnseen(Exception):
    """The broker may hide groups, or does not give their offsets; the message says why."""


class ListedOffsets(NamedTuple):
    """What one broker has answered about groups."""

    broker: BrokerId
    groups: frozenset[str]
    """The groups that it lists of the partitions that it leads."""
    others: Mapping[str, int]
    """The other groups that it lists, and the partitions of `__consumer_offsets` that they are of."""
    offsets: Mapping[str, GroupOffsets]
    """What `groups` have committed, by topic."""
    hidden: Mapping[str, str]
    """The topics of which it may hide that, and why."""


async def coordinator_metadata(connection: KafkaConnection, topics: Collection[str] = ()) -> MetadataResponse:
    """Ask for `__consumer_offsets`, these topics, and the authorized operations. Raises ClientError and
    ProtocolError."""
    common = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    version = min(common, LAST_WITH_OPERATIONS)
    if version < FIRST_WITH_OPERATIONS:
        raise ClientError("it is older than Kafka 2.3 and does not say whether it hides groups")
    request = MetadataRequest(
        tuple(map(MetadataRequestTopic, dict.fromkeys((GROUP_METADATA_TOPIC, *topics)))),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
    )
    return cast(MetadataResponse, await connection.request(request, version))


def hiding_problem(broker: BrokerId, answer: MetadataResponse, led: Mapping[int, int], principal: str) -> str | None:
    """Return why a broker's list of groups may be incomplete, by its own answer. `led` are the leader epochs of its
    partitions of `__consumer_offsets` in ZooKeeper; `principal` is who has asked."""
    of = f"consumer groups of broker {broker}"
    if not answer.cluster_authorized_operations & DESCRIBE:
        return f"{of}: it may hide groups, because its authorizer does not let {principal} DESCRIBE the cluster"
    topic = next((topic for topic in answer.topics if topic.name == GROUP_METADATA_TOPIC), None)
    if topic is None or topic.error != ErrorCode.NONE:
        describe = grant_on_topic(Operation.DESCRIBE, GROUP_METADATA_TOPIC)
        why = "it does not know the topic" if topic is None else answer_words(topic.error, principal, describe)
        return f"{of}: it does not show which partitions it leads of {GROUP_METADATA_TOPIC}: {why}"
    believed = {each.partition: each.leader_epoch for each in topic.partitions if each.leader == broker}
    if missing := sorted(number for number, epoch in led.items() if believed.get(number) != epoch):
        return f"{of}: its metadata does not show it yet as leader of partition {missing[0]} of {GROUP_METADATA_TOPIC}"
    return None


def _hidden(broker: BrokerId, answer: MetadataResponse, topics: Collection[str], principal: str) -> dict[str, str]:
    """Return for which of these topics a broker may hide what its groups have committed, and why, by its own answer."""
    errors = {topic.name: topic.error for topic in answer.topics}
    hidden: dict[str, str] = {}
    for name in topics:
        if name not in errors:
            hidden[name] = f"consumer groups of broker {broker}: it does not say whether it hides those of topic {name}"
        elif errors[name] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            hidden[name] = (
                f"consumer groups of broker {broker}: it hides what they have committed for topic {name}, because its "
                f"authorizer does not let {principal} DESCRIBE the topic"
            )
    return hidden


async def read_offsets(
    connection: KafkaConnection, broker: BrokerId, led: Mapping[int, int], partitions: int, topics: Collection[str]
) -> ListedOffsets:
    """Return what the broker's groups have committed for those of these topics that it does not hide.

    `partitions`: how many `__consumer_offsets` has. Raises GroupsUnseen, ClientError and ProtocolError."""
    answer = await coordinator_metadata(connection, topics)
    principal = connection.principal
    problem = hiding_problem(broker, answer, led, principal)
    if problem is not None:
        raise GroupsUnseen(problem)
    hidden = _hidden(broker, answer, topics, principal)
    listed = cast(ListGroupsResponse, await connection.ask(ListGroupsRequest()))
    if listed.error != ErrorCode.NONE:
        why = answer_words(listed.error, principal, GRANT_DESCRIBE_CLUSTER)
        raise GroupsUnseen(f"consumer groups of broker {broker}: {why}")
    partition_of = {each.group: coordinator_partition(each.group, partitions) for each in listed.groups}
    groups = frozenset(name for name, number in partition_of.items() if number in led)
    others = {name: number for name, number in partition_of.items() if name not in groups}
    wanted = frozenset(topics) - hidden.keys()
    found: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
    for name in sorted(groups):
        for topic in await _committed(connection, name):
            offsets = _offsets_of(topic, name, principal) if topic.topic in wanted else {}
            if offsets:
                found.setdefault(topic.topic, {})[name] = offsets
    return ListedOffsets(broker, groups, others, found, hidden)


async def _committed(connection: KafkaConnection, group: str) -> tuple[FetchedTopic, ...]:
    answer = cast(OffsetFetchResponse, await connection.ask(OffsetFetchRequest(group)))
    if answer.error != ErrorCode.NONE:
        why = answer_words(answer.error, connection.principal, grant_on_group(Operation.DESCRIBE, group))
        raise GroupsUnseen(f"consumer group {group}: {why}")
    return answer.topics


async def committed_topics(connection: KafkaConnection, group: str) -> frozenset[str]:
    """Return the topics of which the group has committed offsets. Raises GroupsUnseen, ClientError, ProtocolError."""
    who = connection.principal
    return frozenset(topic.topic for topic in await _committed(connection, group) if _offsets_of(topic, group, who))


def _offsets_of(topic: FetchedTopic, group: str, principal: str) -> dict[int, CommittedOffset]:
    for each in topic.partitions:
        if each.error != ErrorCode.NONE:
            why = answer_words(each.error, principal, grant_on_topic(Operation.DESCRIBE, topic.topic))
            raise GroupsUnseen(f"consumer group {group}, {topic.topic}-{each.partition}: {why}")
    return {
        each.partition: CommittedOffset(each.offset, each.leader_epoch, each.metadata)
        for each in topic.partitions
        if each.offset >= 0
    }


async def commit_offsets(
    connection: KafkaConnection, group: str, topics: Mapping[str, Mapping[int, CommittedOffset]]
) -> dict[str, str]:
    """Commit offsets where the group has none. Return, by topic, why some are not committed.

    Raises GroupsUnseen, ClientError and ProtocolError: then some may be committed."""
    principal = connection.principal
    known = {topic.topic: _offsets_of(topic, group, principal) for topic in await _committed(connection, group)}
    missing = [
        (topic, OffsetToCommit(number, *offset))
        for topic, offsets in topics.items()
        for number, offset in offsets.items()
        if number not in known.get(topic, {})
    ]
    problems: dict[str, str] = {}
    rows = iter(missing)
    while chunk := list(islice(rows, PARTITIONS_PER_COMMIT)):
        by_topic: dict[str, list[OffsetToCommit]] = {}
        for topic, offset in chunk:
            by_topic.setdefault(topic, []).append(offset)
        asked = tuple(TopicToCommit(topic, tuple(offsets)) for topic, offsets in by_topic.items())
        answer = cast(OffsetCommitResponse, await connection.ask(OffsetCommitRequest(group, asked)))
        answered = {(topic.topic, row.partition): row.error for topic in answer.topics for row in topic.partitions}
        for topic, offset in chunk:
            error = answered.get((topic, offset.partition))
            if error != ErrorCode.NONE:
                problems[topic] = _commit_problem(error, principal, group, topic)
    return problems


def _commit_problem(error: int | None, principal: str, group: str, topic: str) -> str:
    if error is None:
        return "the answer does not list a partition"
    if error in _ONLY_FROM_MEMBERS:
        return HAS_MEMBERS
    is_of_group = error == ErrorCode.GROUP_AUTHORIZATION_FAILED
    grant = grant_on_group(Operation.READ, group) if is_of_group else grant_on_topic(Operation.READ, topic)
    return answer_words(error, principal, grant)


def merged(parts: Collection[ListedOffsets]) -> dict[str, dict[str, Mapping[int, CommittedOffset]]]:
    """Return the offsets of all coordinators as one. Raises GroupsUnseen where a group's coordinator does not list it,
    but another broker does."""
    groups = frozenset[str]().union(*(part.groups for part in parts))
    found: dict[str, dict[str, Mapping[int, CommittedOffset]]] = {}
    for part in parts:
        if unseen := sorted(part.others.keys() - groups):
            raise GroupsUnseen(
                f"consumer group {unseen[0]}: broker {part.broker} lists it, but the leader of partition "
                f"{part.others[unseen[0]]} of {GROUP_METADATA_TOPIC}, which coordinates it, does not"
            )
        for topic, offsets in part.offsets.items():
            found.setdefault(topic, {}).update(offsets)
    return found


def hidden_by(parts: Collection[ListedOffsets]) -> dict[str, str]:
    """Return the topics of which any coordinator may hide offsets, and why the first one does."""
    return {topic: why for part in reversed(tuple(parts)) for topic, why in part.hidden.items()}
