"""Answer queries: Metadata from the cache, DescribeLogDirs from the replicas.

Errors as in Kafka 3.9 without auto-creation: a leader that is not alive is LEADER_NOT_AVAILABLE, one that is alive but
does not have the listener asked through is LISTENER_NOT_FOUND from version 6 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lethe.broker.core.duplicates import candidates
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.state import AgentState
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
from lethe.protocol.vocabulary import (
    INTERNAL_TOPICS,
    LEADER_NONE,
    NO_BROKER,
    BrokerId,
    TopicPartition,
    topic_name_problem,
)

_LISTENER_NOT_FOUND_SINCE: Final = 6


# --- Metadata -----------------------------------------------------------------------------------------------------


def answer_metadata(
    cache: MetadataCache, request: MetadataRequest, *, cluster_id: str | None, listener: str, version: int
) -> MetadataResponse:
    """The cluster from the cache, with the addresses of the listener that received the request."""
    brokers: list[MetadataBroker] = []
    for broker in cache.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            brokers.append(MetadataBroker(broker.id, endpoint.host, endpoint.port, broker.rack))
    reachable = frozenset(broker.id for broker in brokers)
    if request.topics is None:
        wanted = [MetadataRequestTopic(name) for name in sorted(cache.topics)]
    else:
        wanted = list(dict.fromkeys(request.topics))
    controller = NO_BROKER if cache.controller_id is None else BrokerId(cache.controller_id)
    topics = tuple(_topic(cache, asked, reachable, version) for asked in wanted)
    return MetadataResponse(tuple(brokers), cluster_id, controller, topics)


def _topic(
    cache: MetadataCache, asked: MetadataRequestTopic, reachable: frozenset[BrokerId], version: int
) -> MetadataTopic:
    name = asked.name
    if name is None:
        name = None if asked.topic_id is None else cache.topic_names.get(asked.topic_id)
        if name is None:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id, False, ())
    if topic_name_problem(name) is not None:
        return MetadataTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, None, False, ())
    partitions = cache.topics.get(name)
    is_internal = name in INTERNAL_TOPICS
    if partitions is None:
        return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None, is_internal, ())
    rows = tuple(_partition(cache, partitions[index], reachable, version) for index in sorted(partitions))
    return MetadataTopic(ErrorCode.NONE, name, cache.topic_ids.get(name), is_internal, rows)


def _partition(
    cache: MetadataCache, state: UpdateMetadataPartition, reachable: frozenset[BrokerId], version: int
) -> MetadataPartition:
    error, leader = ErrorCode.NONE, state.leader
    if leader not in reachable:
        alive = leader in cache.brokers and version >= _LISTENER_NOT_FOUND_SINCE
        error, leader = (ErrorCode.LISTENER_NOT_FOUND if alive else ErrorCode.LEADER_NOT_AVAILABLE), LEADER_NONE
    return MetadataPartition(
        error, state.partition, leader, state.leader_epoch, state.replicas, state.isr, state.offline_replicas
    )


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
