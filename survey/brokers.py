"""What one live broker says of itself: its metadata cache and its log directories, over Kafka's own protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from adapters.kafka.client import ClientError, KafkaConnection
from protocol.kafka.errors import ErrorCode, error_name
from protocol.kafka.framing import ProtocolError
from protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirTopic,
    MetadataRequest,
    MetadataResponse,
)
from protocol.vocabulary import ZERO_TOPIC_ID, Broker, BrokerId, SecurityProtocol, TopicPartition
from survey.directories import FUTURE_SUFFIX
from survey.views import BrokerAnswers, CachedTopic, Directory, DirectoryKind, LogDirView, Problem, Source

AskBroker = Callable[[Broker], Awaitable[BrokerAnswers]]
"""Asks one live broker; never raises for what a broker does or does not do."""

CLIENT_ID: Final = "lethe-survey"
MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024


def broker_asker(*, connect_timeout_ms: int = 5_000, request_timeout_ms: int = 30_000) -> AskBroker:
    """Asks through the broker's PLAINTEXT listener, in the highest versions that both sides speak."""

    async def ask(broker: Broker) -> BrokerAnswers:
        where = f"broker {broker.id}"
        endpoint = next((e for e in broker.endpoints if e.protocol is SecurityProtocol.PLAINTEXT), None)
        if endpoint is None:
            listeners = ", ".join(e.listener for e in broker.endpoints)
            problem = Problem(where, f"it has no PLAINTEXT listener to ask it by (it has {listeners or 'none'})")
            return BrokerAnswers(broker.id, problems=(problem,))
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
            return BrokerAnswers(broker.id, problems=(Problem(where, str(error)),))
        async with connection:
            return await _ask(connection, broker.id)

    return ask


async def _ask(connection: KafkaConnection, broker: BrokerId) -> BrokerAnswers:
    problems: list[Problem] = []
    metadata: MetadataResponse | None = None
    log_dirs: tuple[LogDirView, ...] | None = None
    try:
        answer = await connection.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        metadata = answer if isinstance(answer, MetadataResponse) else None
        described = await connection.ask(DescribeLogDirsRequest())
        if isinstance(described, DescribeLogDirsResponse):
            log_dirs = _log_dirs(broker, described, problems)
    except (ClientError, ProtocolError) as error:
        problems.append(Problem(f"broker {broker}", str(error)))
    return BrokerAnswers(
        broker,
        None if metadata is None else _cache(metadata),
        None if metadata is None else metadata.controller_id,
        log_dirs,
        tuple(problems),
    )


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
    broker: BrokerId, described: DescribeLogDirsResponse, problems: list[Problem]
) -> tuple[LogDirView, ...] | None:
    if described.error != ErrorCode.NONE:
        problems.append(Problem(f"broker {broker}", f"DescribeLogDirs: {error_name(described.error)}"))
        return None
    return tuple(_log_dir(broker, log_dir) for log_dir in sorted(described.log_dirs, key=lambda d: d.path))


def _log_dir(broker: BrokerId, log_dir: LogDir) -> LogDirView:
    problem = None if log_dir.error == ErrorCode.NONE else f"the broker says {error_name(log_dir.error)}"
    directories = tuple(directory for topic in log_dir.topics for directory in _directories(topic))
    return LogDirView(broker, log_dir.path, Source.BROKER, directories, problem)


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
