"""Reads the metadata cache and the log directories of live brokers, for all commands.

An error, a refusal and silence are values (`UnansweredQuestion`), and never the same as an empty answer:

    the broker answers                            cache or log directories
    --------------------------------------------  -------------------------------------
    the topic is unknown to it                    seen, without the topic
    TOPIC_AUTHORIZATION_FAILED                    unseen (REFUSED)
    DescribeLogDirs with an error                 unseen (REFUSED or ERROR)
    DescribeLogDirs without any log directory     unseen (REFUSED): a broker has one or more
    Metadata of all topics, and PROBE is refused  unseen (REFUSED): it leaves topics out (`why_incomplete`)
    Metadata with another error for a topic       unseen (ERROR)
    Metadata without the requested topic          unseen (ERROR)
    no answer in time; connection lost            unseen (SILENT; UNREACHABLE)
    no listener; login or certificate refused     unseen (UNASKED)
    a log directory with KAFKA_STORAGE_ERROR      that directory is unseen, the others are seen
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from lethe.adapters.kafka.client import AccessFailed, ClientError, KafkaConnection, RequestTimedOut
from lethe.adapters.kafka.metadata import ask_metadata, why_incomplete
from lethe.adapters.kafka.missing_rights import GRANT_DESCRIBE, GRANT_DESCRIBE_CLUSTER, REFUSALS, answer_words
from lethe.adapters.kafka.reach import BrokerReach
from lethe.protocol.kafka.cached_topics import cached_topics, undecided_topics
from lethe.protocol.kafka.directory_names import FUTURE_SUFFIX, DirectoryKind
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, ProtocolError
from lethe.protocol.kafka.queries import (
    DescribableTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirTopic,
    MetadataResponse,
)
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, TopicPartition
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Directory,
    LogDirSource,
    LogDirView,
    UnansweredQuestion,
)

T = TypeVar("T")

AskBroker = Callable[[Broker], Awaitable[BrokerAnswers]]
"""Asks one live broker; the broker's failures never raise."""

CLIENT_ID: Final = "lethe-survey"
MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024
MAX_AT_ONCE: Final = 16
"""Brokers that are asked at the same time."""
MAX_AT_ONCE_BRIEFLY: Final = 64
"""The same for small answers: silent brokers must not delay the others."""
NAMES_NO_LOG_DIR: Final = "DescribeLogDirs: it names no log directory"
"""How the reason begins where a broker answers without an error, and with no log directory."""


@dataclass(frozen=True, slots=True)
class QueryScope:
    """What brokers are asked about."""

    topics: Collection[str] | None = None
    """None: all topics."""
    partitions: Mapping[str, Sequence[int]] | None = None
    """Partitions of every topic in `topics`; brokers measure only these. If those of one topic are unknown, leave it
    None: brokers then describe all replicas, and other topics' are dropped."""


AskAbout = Callable[[QueryScope], AskBroker]
"""Returns an AskBroker for one scope."""


def broker_asker(
    reach: BrokerReach,
    *,
    connect_timeout_ms: int = 5_000,
    request_timeout_ms: int = 30_000,
    topics: Collection[str] | None = None,
) -> AskBroker:
    """Return an AskBroker that uses a new connection per broker, and the highest common versions. With `topics`, it
    asks only about these."""

    async def ask(broker: Broker) -> BrokerAnswers:
        connection = await _open(broker, reach, connect_timeout_ms, request_timeout_ms)
        if isinstance(connection, UnansweredQuestion):
            return BrokerAnswers(broker.id, unseen=(connection,))
        async with connection:
            return await _ask(connection, broker.id, QueryScope(topics))

    return ask


@asynccontextmanager
async def reused_connections(reach: BrokerReach, *, timeout_ms: int = 5_000) -> AsyncIterator[AskAbout]:
    """Yield an AskAbout that works as `broker_asker` and keeps connections open until the context ends. `timeout_ms`
    limits connecting and each answer."""
    kept: dict[tuple[BrokerId, BrokerEpoch], KafkaConnection] = {}

    def about(scope: QueryScope) -> AskBroker:
        async def ask(broker: Broker) -> BrokerAnswers:
            key = (broker.id, broker.epoch)
            if (found := kept.get(key)) is None or not found.is_open:
                opened = await _open(broker, reach, timeout_ms, timeout_ms)
                if found is not None:
                    await kept.pop(key).close()
                if isinstance(opened, UnansweredQuestion):
                    return BrokerAnswers(broker.id, unseen=(opened,))
                found = kept[key] = opened
            return await _ask(found, broker.id, scope)

        return ask

    try:
        yield about
    finally:
        for connection in kept.values():
            await connection.close()


async def ask_all(
    brokers: Collection[Broker], ask: Callable[[Broker], Awaitable[T]], *, at_once: int = MAX_AT_ONCE
) -> list[T]:
    """Return the answers of all brokers, in order; `at_once` limits concurrency."""
    limit = asyncio.Semaphore(at_once)

    async def one(broker: Broker) -> T:
        async with limit:
            return await ask(broker)

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(one(broker), name=f"ask-broker-{broker.id}") for broker in brokers]
    return [task.result() for task in asked]


async def open_connection(
    broker: Broker,
    reach: BrokerReach,
    *,
    connect_timeout_ms: int,
    request_timeout_ms: int,
    client_id: str = CLIENT_ID,
    max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES,
) -> KafkaConnection:
    """Connect to the listener that the configuration chooses, and log in. Raises ClientError; NoListener as such."""
    return await reach.open(
        reach.endpoint_of(broker),
        client_id,
        connect_timeout_ms=connect_timeout_ms,
        request_timeout_ms=request_timeout_ms,
        max_response_bytes=max_response_bytes,
    )


async def _open(
    broker: Broker, reach: BrokerReach, connect_timeout_ms: int, request_timeout_ms: int
) -> KafkaConnection | UnansweredQuestion:
    try:
        return await open_connection(
            broker,
            reach,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_response_bytes=MAX_ANSWER_BYTES,
        )
    except ClientError as error:
        return UnansweredQuestion(_failure(error), str(error))


async def _ask(connection: KafkaConnection, broker: BrokerId, scope: QueryScope) -> BrokerAnswers:
    unseen: list[UnansweredQuestion] = []
    metadata: MetadataResponse | None = None
    log_dirs: tuple[LogDirView, ...] | None = None
    try:
        answer = await _metadata(connection, scope.topics)
        if isinstance(answer, UnansweredQuestion):
            unseen.append(answer)
        else:
            metadata = answer
        described = await _log_dirs(connection, broker, scope)
        if isinstance(described, UnansweredQuestion):
            unseen.append(described)
        else:
            log_dirs = described
    except (ClientError, ProtocolError) as error:
        unseen.append(UnansweredQuestion(_failure(error), str(error), None if metadata is None else BrokerPlace.LOGS))
    return BrokerAnswers(
        broker,
        None if metadata is None else cached_topics(metadata.topics),
        None if metadata is None else metadata.controller_id,
        log_dirs,
        tuple(unseen),
    )


def _failure(error: ClientError | ProtocolError) -> BrokerFailure:
    match error:
        case RequestTimedOut():
            return BrokerFailure.SILENT
        case ProtocolError():
            return BrokerFailure.ERROR
        case AccessFailed():
            # Nothing follows from it for the broker's process.
            return BrokerFailure.UNASKED
        case _:
            return BrokerFailure.UNREACHABLE


async def _metadata(
    connection: KafkaConnection, topics: Collection[str] | None
) -> MetadataResponse | UnansweredQuestion:
    answer = await ask_metadata(connection, topics)
    for topic in undecided_topics(answer.topics):
        if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            # Metadata omits a topic that the client may not describe, unless the request names the topic.
            why = f"Metadata: it does not let {connection.principal} ask about topic {topic.name}, nor perhaps others"
            return UnansweredQuestion(BrokerFailure.REFUSED, f"{why}; {GRANT_DESCRIBE}", BrokerPlace.CACHE)
        if topic.error == ErrorCode.NONE:
            return UnansweredQuestion(
                BrokerFailure.ERROR,
                f"Metadata: it does not say whether it has topic {topic.name}",
                BrokerPlace.CACHE,
            )
        return UnansweredQuestion(
            BrokerFailure.ERROR, f"Metadata: {error_name(topic.error)} for topic {topic.name}", BrokerPlace.CACHE
        )
    if topics is None and (incomplete := await why_incomplete(connection)) is not None:
        return UnansweredQuestion(BrokerFailure.REFUSED, f"Metadata: {incomplete}", BrokerPlace.CACHE)
    return answer


async def _log_dirs(
    connection: KafkaConnection, broker: BrokerId, scope: QueryScope
) -> tuple[LogDirView, ...] | UnansweredQuestion:
    partitions = None
    if scope.partitions is not None:
        partitions = tuple(DescribableTopic(topic, tuple(numbers)) for topic, numbers in scope.partitions.items())
    described = cast(DescribeLogDirsResponse, await connection.ask(DescribeLogDirsRequest(partitions)))
    if described.error != ErrorCode.NONE:
        why = f"DescribeLogDirs: {answer_words(described.error, connection.principal, GRANT_DESCRIBE_CLUSTER)}"
        failure = BrokerFailure.REFUSED if described.error in REFUSALS else BrokerFailure.ERROR
        return UnansweredQuestion(failure, why, BrokerPlace.LOGS)
    if not described.log_dirs:
        # Brokers before 3.0 answer an unauthorized client like this, without an error.
        why = f"{NAMES_NO_LOG_DIR}; does it let {connection.principal} ask? {GRANT_DESCRIBE_CLUSTER}"
        return UnansweredQuestion(BrokerFailure.REFUSED, why, BrokerPlace.LOGS)
    ordered = sorted(described.log_dirs, key=lambda log_dir: log_dir.path)
    return tuple(_log_dir(broker, log_dir, scope.topics) for log_dir in ordered)


def _log_dir(broker: BrokerId, log_dir: LogDir, topics: Collection[str] | None) -> LogDirView:
    problem = None if log_dir.error == ErrorCode.NONE else f"the broker says {error_name(log_dir.error)}"
    wanted = (topic for topic in log_dir.topics if topics is None or topic.topic in topics)
    directories = tuple(directory for topic in wanted for directory in _directories(topic))
    has_failed = log_dir.error == ErrorCode.KAFKA_STORAGE_ERROR
    return LogDirView(broker, log_dir.path, LogDirSource.BROKER, directories, problem, has_failed)


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
