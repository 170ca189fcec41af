"""Reads and commits the offsets of consumer groups, as their coordinator stores them.

A broker coordinates the groups of the partitions of `__consumer_offsets` that it leads. It lists only those groups, and
hides some without an error: see `hiding_problem`. It also hides, without an error, what a group has committed for a
topic that the client may not DESCRIBE. So nothing is read from a coordinator that may hide groups or topics.

Only a group without members takes offsets from others. An offset that a group has committed itself is never
overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final, cast

from lethe.adapters.kafka.client import ClientError, KafkaConnection
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
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
)
from lethe.protocol.kafka.queries import (
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
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
        why = "it does not know the topic" if topic is None else error_name(topic.error)
        return f"{of}: it does not show which partitions it leads of {GROUP_METADATA_TOPIC}: {why}"
    believed = {each.partition: each.leader_epoch for each in topic.partitions if each.leader == broker}
    if missing := sorted(number for number, epoch in led.items() if believed.get(number) != epoch):
        return f"{of}: its metadata does not show it yet as leader of partition {missing[0]} of {GROUP_METADATA_TOPIC}"
    return None


def _topic_problem(broker: BrokerId, answer: MetadataResponse, topics: Collection[str], principal: str) -> str | None:
    """Return why a broker may hide what its groups have committed for these topics, by its own answer."""
    errors = {topic.name: topic.error for topic in answer.topics}
    for name in topics:
        if name not in errors:
            return f"consumer groups of broker {broker}: it does not say whether it hides those of topic {name}"
        if errors[name] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return (
                f"consumer groups of broker {broker}: it hides what they have committed for topic {name}, because its "
                f"authorizer does not let {principal} DESCRIBE the topic"
            )
    return None


async def read_offsets(
    connection: KafkaConnection, broker: BrokerId, led: Mapping[int, int], topics: Collection[str]
) -> dict[str, dict[str, dict[int, CommittedOffset]]]:
    """Return what the broker's groups have committed for these topics: by topic, group and partition.

    Raises GroupsUnseen, ClientError and ProtocolError."""
    answer = await coordinator_metadata(connection, topics)
    principal = connection.principal
    problem = hiding_problem(broker, answer, led, principal) or _topic_problem(broker, answer, topics, principal)
    if problem is not None:
        raise GroupsUnseen(problem)
    listed = cast(ListGroupsResponse, await connection.ask(ListGroupsRequest()))
    if listed.error != ErrorCode.NONE:
        raise GroupsUnseen(f"consumer groups of broker {broker}: {error_name(listed.error)}")
    wanted = frozenset(topics)
    found: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
    for name in sorted({group.group for group in listed.groups}):
        for topic in await _committed(connection, name):
            offsets = _offsets_of(topic, name) if topic.topic in wanted else {}
            if offsets:
                found.setdefault(topic.topic, {})[name] = offsets
    return found


async def _committed(connection: KafkaConnection, group: str) -> tuple[FetchedTopic, ...]:
    answer = cast(OffsetFetchResponse, await connection.ask(OffsetFetchRequest(group)))
    if answer.error != ErrorCode.NONE:
        raise GroupsUnseen(f"consumer group {group}: {error_name(answer.error)}")
    return answer.topics


async def committed_topics(connection: KafkaConnection, group: str) -> frozenset[str]:
    """Return the topics of which the group has committed offsets. Raises GroupsUnseen, ClientError, ProtocolError."""
    return frozenset(topic.topic for topic in await _committed(connection, group) if _offsets_of(topic, group))


def _offsets_of(topic: FetchedTopic, group: str) -> dict[int, CommittedOffset]:
    for each in topic.partitions:
        if each.error != ErrorCode.NONE:
            raise GroupsUnseen(f"consumer group {group}, {topic.topic}-{each.partition}: {error_name(each.error)}")
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
    known = {topic.topic: _offsets_of(topic, group) for topic in await _committed(connection, group)}
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
                problems[topic] = _commit_problem(error)
    return problems


def _commit_problem(error: int | None) -> str:
    if error is None:
        return "the answer does not list a partition"
    return HAS_MEMBERS if error in _ONLY_FROM_MEMBERS else error_name(error)


def merged(parts: Collection[Mapping[str, GroupOffsets]]) -> dict[str, dict[str, Mapping[int, CommittedOffset]]]:
    """Return the offsets of several coordinators as one."""
    found: dict[str, dict[str, Mapping[int, CommittedOffset]]] = {}
    for topic, group, offsets in _rows(parts):
        found.setdefault(topic, {})[group] = offsets
    return found


def _rows(parts: Collection[Mapping[str, GroupOffsets]]) -> Iterator[tuple[str, str, Mapping[int, CommittedOffset]]]:
    return (
        (topic, group, offsets) for part in parts for topic, groups in part.items() for group, offsets in groups.items()
    )
