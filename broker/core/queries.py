"""Answer queries: Metadata and DescribeCluster from the cache, DescribeLogDirs from the replicas.

Errors and order of checks as in Kafka 3.9 (`KafkaApis.handleTopicMetadataRequest`, `ZkMetadataCache`):

    the request names                  answer
    a topic of the cache               its partitions; a leader that is not alive: LEADER_NOT_AVAILABLE, one without the
                                       client's listener: LISTENER_NOT_FOUND (version 6 and later)
    a topic that it has not            UNKNOWN_TOPIC_OR_PARTITION, or what became of its creation
    a name that no topic may have      INVALID_TOPIC_EXCEPTION
    an id that it has not              UNKNOWN_TOPIC_ID
    an id or no name before version 12 INVALID_REQUEST for every topic, and no brokers

A request that names ids is about these only. What the sender may not describe is hidden afterwards, by the process's
authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lethe.broker.core.duplicates import candidates
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.control import UpdateMetadataPartition
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)
from lethe.protocol.security.authorized_operations import cluster_operations, topic_operations
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import (
    INTERNAL_TOPICS,
    LEADER_NONE,
    NO_BROKER,
    BrokerId,
    TopicPartition,
    topic_name_problem,
)

_LISTENER_NOT_FOUND_SINCE: Final = 6
_IDS_SINCE: Final = 12
_CLUSTER_OPERATIONS: Final = range(8, 11)
"""Versions of Metadata that carry what may be done to the cluster; later ones leave it to DescribeCluster."""
_TOPIC_OPERATIONS_SINCE: Final = 8
NOTHING_CREATED: Final[Mapping[str, int]] = {}


class RequestContext(NamedTuple):
    """How a request arrived: the listener, the request's version, who sent it."""

    listener: str
    version: int
    sender: Sender


# --- Metadata -----------------------------------------------------------------------------------------------------


def answer_metadata(
    cache: MetadataCache,
    request: MetadataRequest,
    context: RequestContext,
    *,
    cluster_id: str | None,
    created: Mapping[str, int] = NOTHING_CREATED,
) -> MetadataResponse:
    """The cluster from the cache, with the addresses of the listener that received the request.

    `created`: the error of each topic that was to be created because the request names it.
    """
    wanted = _wanted(cache, request)
    if request.topics is not None and context.version < _IDS_SINCE and any(_needs_ids(each) for each in wanted):
        return MetadataResponse((), None, NO_BROKER, tuple(map(_invalid, wanted)))
    brokers = live_nodes(cache, context.listener)
    reachable = frozenset(broker.id for broker in brokers)
    controller = NO_BROKER if cache.controller_id is None else BrokerId(cache.controller_id)
    topics = (_topic(cache, asked, reachable, context, created) for asked in wanted)
    if request.include_topic_authorized_operations and context.version >= _TOPIC_OPERATIONS_SINCE:
        topics = (_with_operations(topic, context.sender) for topic in topics)
    operations = NO_AUTHORIZED_OPERATIONS
    if request.include_cluster_authorized_operations and context.version in _CLUSTER_OPERATIONS:
        operations = cluster_operations(context.sender)
    return MetadataResponse(brokers, cluster_id, controller, tuple(topics), cluster_authorized_operations=operations)


def live_nodes(cache: MetadataCache, listener: str) -> tuple[MetadataBroker, ...]:
    """Return the live brokers that have the listener, with its addresses."""
    return tuple(
        MetadataBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
        for broker in cache.brokers.values()
        if (endpoint := broker.endpoint(listener)) is not None
    )


def _wanted(cache: MetadataCache, request: MetadataRequest) -> list[MetadataRequestTopic]:
    if request.topics is None:
        return [MetadataRequestTopic(name) for name in sorted(cache.topics)]
    named = list(dict.fromkeys(request.topics))
    by_id = [asked for asked in named if asked.topic_id is not None]
    return by_id or named


def _needs_ids(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id is not None


def _invalid(asked: MetadataRequestTopic) -> MetadataTopic:
    return MetadataTopic(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id, False, ())


def _with_operations(topic: MetadataTopic, sender: Sender) -> MetadataTopic:
    if topic.name is None or topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic
    return topic._replace(authorized_operations=topic_operations(sender, topic.name))


def _topic(
    cache: MetadataCache,
    asked: MetadataRequestTopic,
    reachable: frozenset[BrokerId],
    context: RequestContext,
    created: Mapping[str, int],
) -> MetadataTopic:
    name = asked.name
    if asked.topic_id is not None or name is None:
        name = None if asked.topic_id is None else cache.topic_names.get(asked.topic_id)
        if name is None:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id, False, ())
    partitions = cache.topics.get(name)
    is_internal = name in INTERNAL_TOPICS
    if partitions is None:
        if name not in created and topic_name_problem(name) is not None:
            return MetadataTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, None, is_internal, ())
        return MetadataTopic(created.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name, None, is_internal, ())
    rows = tuple(_partition(cache, partitions[index], reachable, context.version) for index in sorted(partitions))
    return MetadataTopic(ErrorCode.NONE, name, cache.topic_ids.get(name), is_internal, rows)


def _partition(
    cache: MetadataCache, state: UpdateMetadataPartition, reachable: frozenset[BrokerId], version: int
) -> MetadataPartition:
    error, leader = ErrorCode.NONE, state.leader
    replicas, isr = state.replicas, state.isr
    if version == 0:
        # Clients of this version take replicas without an address for a fault.
        replicas = tuple(each for each in state.replicas if each in reachable)
        isr = tuple(each for each in state.isr if each in reachable)
        if (replicas, isr) != (state.replicas, state.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    if leader not in reachable:
        alive = leader in cache.brokers and version >= _LISTENER_NOT_FOUND_SINCE
        error, leader = (ErrorCode.LISTENER_NOT_FOUND if alive else ErrorCode.LEADER_NOT_AVAILABLE), LEADER_NONE
    return MetadataPartition(error, state.partition, leader, state.leader_epoch, replicas, isr, state.offline_replicas)


# --- DescribeLogDirs ----------------------------------------------------------------------------------------------


def answer_describe_log_dirs(
    state: AgentState, request: DescribeLogDirsRequest, space: Mapping[str, tuple[int, int]]
) -> DescribeLogDirsResponse:
    """Each log directory with its replicas and their sizes; `space` maps it to (total bytes, usable bytes).

    A replica's size is that of its segments, as in Kafka; indexes and checkpoints do not count.
    Directories that wait for removal or are quarantined are not listed, as in Kafka. Of several directories of one
    partition each is listed in its log directory.
    """
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    rows: dict[str, dict[str, list[LogDirPartition]]] = {
        log_dir: {} for log_dir, error in state.log_dirs.items() if error is None
    }
    for topic_partition in state.replicas:
        if wanted is not None and topic_partition not in wanted:
            continue
        for replica in candidates(state, topic_partition):
            if replica.state is not ReplicaState.OFFLINE and replica.log_dir is not None:
                row = LogDirPartition(topic_partition.partition, replica.segment_bytes, 0, False)
                rows[replica.log_dir].setdefault(topic_partition.topic, []).append(row)
    log_dirs: list[LogDir] = []
    for log_dir, error in state.log_dirs.items():
        if error is not None:
            log_dirs.append(LogDir(ErrorCode.KAFKA_STORAGE_ERROR, log_dir, ()))
            continue
        topics = tuple(LogDirTopic(topic, tuple(sorted(found))) for topic, found in sorted(rows[log_dir].items()))
        log_dirs.append(LogDir(ErrorCode.NONE, log_dir, topics, *space.get(log_dir, (-1, -1))))
    return DescribeLogDirsResponse(tuple(log_dirs))
