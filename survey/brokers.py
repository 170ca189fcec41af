"""What one live broker says of itself: its metadata cache and its log directories, over Kafka's own protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final, cast

from adapters.broker_views import FIRST_WITHOUT_CREATION
from adapters.kafka.client import ClientError, KafkaConnection, RequestTimedOut
from protocol.kafka.connection import highest_common_version
from protocol.kafka.control import ApiKey
from protocol.kafka.errors import ErrorCode, error_name
from protocol.kafka.framing import ProtocolError
from protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from protocol.vocabulary import ZERO_TOPIC_ID, Broker, BrokerId, SecurityProtocol, TopicPartition
from survey.directories import FUTURE_SUFFIX
from survey.views import BrokerAnswers, CachedTopic, Directory, DirectoryKind, Failure, LogDirView, Problem, Source

AskBroker = Callable[[Broker], Awaitable[BrokerAnswers]]
"""Asks one live broker; never raises for what a broker does or does not do."""

CLIENT_ID: Final = "lethe-survey"
MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024


def broker_asker(
    *, connect_timeout_ms: int = 5_000, request_timeout_ms: int = 30_000, topics: Collection[str] | None = None
) -> AskBroker:
    """Asks through the broker's PLAINTEXT listener, in the highest versions that both sides speak. With `topics`, only
    what concerns these is asked for (or kept of the answer)."""

    async def ask(broker: Broker) -> BrokerAnswers:
        where = f"broker {broker.id}"
        endpoint = next((e for e in broker.endpoints if e.protocol is SecurityProtocol.PLAINTEXT), None)
        if endpoint is None:
            listeners = ", ".join(e.listener for e in broker.endpoints)
            problem = Problem(where, f"it has no PLAINTEXT listener to ask it by (it has {listeners or 'none'})")
            return BrokerAnswers(broker.id, problems=(problem,), failure=Failure.UNASKED)
        try:
            connection = await KafkaConnection.open(
                endpoint.host,
                endpoint.port,
                CLIENT_ID,
                connect_timeout_ms=connect_timeout_ms,
                request_timeout_ms=request_timeout_ms,
                max_response_bytes=MAX_ANSWER_BYTES,
            )
        except ClientError as error:
            return BrokerAnswers(broker.id, problems=(Problem(where, str(error)),), failure=Failure.UNREACHABLE)
        async with connection:
            return await _ask(connection, broker.id, topics)

    return ask


async def _ask(connection: KafkaConnection, broker: BrokerId, topics: Collection[str] | None) -> BrokerAnswers:
    where = f"broker {broker}"
    problems: list[Problem] = []
    failure: Failure | None = None
    metadata: MetadataResponse | None = None
    log_dirs: tuple[LogDirView, ...] | None = None
    try:
        metadata = await _metadata(connection, topics)
        if hidden := _hidden(metadata):
            # Whoever may not know of a topic is told of all topics but this one, unless he asks for it by its name.
            metadata, failure = None, Failure.ERROR
            problems.append(Problem(where, f"Metadata: nobody may ask it about topic {hidden[0]}, nor perhaps others"))
        described = await connection.ask(DescribeLogDirsRequest())
        if isinstance(described, DescribeLogDirsResponse):
            if described.error != ErrorCode.NONE:
                failure = Failure.ERROR
                problems.append(Problem(where, f"DescribeLogDirs: {error_name(described.error)}"))
            elif not described.log_dirs:
                # A broker has one or more. Old ones answer so where they do not let us ask, and name no error.
                failure = Failure.ERROR
                problems.append(Problem(where, "DescribeLogDirs: it names no log directory; may nobody ask it?"))
            else:
                log_dirs = _log_dirs(broker, described, topics)
    except (ClientError, ProtocolError) as error:
        failure = _failure(error)
        problems.append(Problem(where, str(error)))
    return BrokerAnswers(
        broker,
        None if metadata is None else _cache(metadata),
        None if metadata is None else metadata.controller_id,
        log_dirs,
        tuple(problems),
        failure,
    )


def _hidden(metadata: MetadataResponse) -> list[str]:
    """Topics that the broker has, or not, and does not tell of."""
    return [topic.name or "" for topic in metadata.topics if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def _failure(error: ClientError | ProtocolError) -> Failure:
    match error:
        case RequestTimedOut():
            return Failure.SILENT
        case ProtocolError():
            return Failure.ERROR
        case _:
            return Failure.UNREACHABLE


async def _metadata(connection: KafkaConnection, topics: Collection[str] | None) -> MetadataResponse:
    """A topic that the broker does not know must not come into being because we asked: an older broker, whose requests
    cannot say so, is asked for everything, which creates none."""
    version = highest_common_version(ApiKey.METADATA, await connection.offered_versions())
    named = None
    if topics is not None and version >= FIRST_WITHOUT_CREATION:
        named = tuple(MetadataRequestTopic(topic) for topic in topics)
    answer = cast(
        MetadataResponse,
        await connection.request(MetadataRequest(named, allow_auto_topic_creation=False), version),
    )
    if topics is None:
        return answer
    known = (t for t in answer.topics if t.name in topics and t.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return replace(answer, topics=tuple(known))


def _cache(metadata: MetadataResponse) -> dict[str, CachedTopic]:
    return {
        topic.name: CachedTopic(
            None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id,
            tuple(sorted(p.partition for p in topic.partitions)),
        )
        for topic in sorted(metadata.topics, key=lambda topic: topic.name or "")
        if topic.name is not None
    }


def _log_dirs(
    broker: BrokerId, described: DescribeLogDirsResponse, topics: Collection[str] | None
) -> tuple[LogDirView, ...]:
    return tuple(_log_dir(broker, log_dir, topics) for log_dir in sorted(described.log_dirs, key=lambda d: d.path))


def _log_dir(broker: BrokerId, log_dir: LogDir, topics: Collection[str] | None) -> LogDirView:
    problem = None if log_dir.error == ErrorCode.NONE else f"the broker says {error_name(log_dir.error)}"
    wanted = (topic for topic in log_dir.topics if topics is None or topic.topic in topics)
    directories = tuple(directory for topic in wanted for directory in _directories(topic))
    has_failed = log_dir.error == ErrorCode.KAFKA_STORAGE_ERROR
    return LogDirView(broker, log_dir.path, Source.BROKER, directories, problem, has_failed)


def _directories(topic: LogDirTopic) -> list[Directory]:
    return [
        Directory(
            f"{topic.topic}-{partition.partition}{FUTURE_SUFFIX if partition.is_future else ''}",
            DirectoryKind.FUTURE if partition.is_future else DirectoryKind.REPLICA,
            TopicPartition(topic.topic, partition.partition),
            partition.size_bytes,
        )
        for partition in topic.partitions
    ]
