"""Brokers of real sockets that share topics, and do what clients ask of a controller."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.admin.client_cluster import ClientCluster, open_cluster
from lethe.protocol.kafka.admin import (
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrowableTopic,
    GrownTopic,
    TopicRequest,
    topic_error_response,
)
from lethe.protocol.kafka.admin_configs import (
    AlterableResource,
    AlterConfigsResponse,
    AlteredResource,
    AlterOperation,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingTopic,
)
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.control import ApiKey
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
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import BrokerId, TopicId

Said = tuple[int, str | None]
"""An error of Kafka and its words."""


@dataclass(frozen=True)
class ServedTopic:
    topic_id: TopicId
    replicas: tuple[tuple[int, ...], ...]
    config: Mapping[str, str] = field(default_factory=dict)
    error: int = ErrorCode.NONE


def topic(number: int, *replicas: tuple[int, ...], **config: str) -> ServedTopic:
    """A topic with an id made of the number."""
    return ServedTopic(TopicId(uuid.UUID(int=number << 96)), replicas, config)


@dataclass
class ServedCluster:
    """What the brokers have, and how they fail. `asked` is what they were asked, in order, with the broker's id."""

    topics: dict[str, ServedTopic] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    """Topics that the authorizer hides; with any of them, it hides what is not known as well."""
    refusals: dict[str, Said] = field(default_factory=dict)
    """What the controller says of a topic that it shall create, delete or add partitions to."""
    settings_unseen: frozenset[str] = frozenset()
    """Topics whose settings the client may not describe."""
    settings_refused: dict[str, Said] = field(default_factory=dict)
    """What brokers say of new settings of a topic."""
    settings_failed: dict[str, Said] = field(default_factory=dict)
    """The same, where they were not only to check them."""
    stuck: frozenset[str] = frozenset()
    """Topics whose deletion takes longer than any request."""
    still_stored: dict[int, str] = field(default_factory=dict)
    """The topic that a broker has on its disk, by broker, besides those that there are."""
    no_log_dirs: dict[int, int] = field(default_factory=dict)
    """Brokers that name no log directory, with the error that they answer instead."""
    not_controller: int = 0
    """How many requests are answered with NOT_CONTROLLER."""
    loses_control: bool = False
    """The controller changes what it is asked to, and answers NOT_CONTROLLER, once."""
    mute_after_change: bool = False
    """Once something was changed, brokers answer Metadata requests no more."""
    controller: int = 1
    moving: tuple[MovingTopic, ...] = ()
    moving_error: int = ErrorCode.NONE
    leaderless: bool = False
    loses_answers: bool = False
    """The controller closes the connection instead of answering."""
    loses_partitions: bool = False
    """The same, only where partitions are to be added."""
    on_create: Callable[[], None] = lambda: None
    """Called where topics are created, before the answer."""
    changes: int = 0
    """How many requests were for a change, and not only checked."""
    asked: list[tuple[int, Request]] = field(default_factory=list)
    ports: dict[int, int] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def requests(self, kind: type[Request]) -> list[Request]:
        return [request for _, request in self.asked if isinstance(request, kind)]

    def answer(self, broker: int, request: Request) -> Response | Close:
        self.asked.append((broker, request))
        match request:
            case MetadataRequest() if self.mute_after_change and self.changes:
                return Close("told to")
            case MetadataRequest(topics=wanted):
                names = [name for name in self.topics if name not in self.hidden]
                if wanted is not None:
                    names = [str(each.name) for each in wanted]
                brokers = tuple(MetadataBroker(BrokerId(n), "127.0.0.1", port) for n, port in self.ports.items())
                return MetadataResponse(brokers, "here", BrokerId(self.controller), tuple(map(self._metadata, names)))
            case DescribeConfigsRequest(resources=resources):
                return DescribeConfigsResponse(tuple(self._configs(each.resource_name) for each in resources))
            case IncrementalAlterConfigsRequest(resources=to_alter, validate_only=is_trial):
                return self._alter(to_alter, is_trial)
            case DescribeLogDirsRequest():
                return self._log_dirs(broker)
            case CreateTopicsRequest() | DeleteTopicsRequest() | CreatePartitionsRequest():
                return self._administer(broker, request)
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(self.moving, self.moving_error)
            case _:
                return Close(f"unexpected {request}")

    def _metadata(self, name: str) -> MetadataTopic:
        found = self.topics.get(name)
        if name in self.hidden or (found is None and self.hidden):
            return MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, None, False, ())
        if found is None:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None, False, ())
        leads = not self.leaderless
        rows = tuple(
            MetadataPartition(
                ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE,
                *(number, ids[0] if leads else -1, 0, ids, ids),
            )
            for number, ids in enumerate(found.replicas)
        )
        return MetadataTopic(found.error, name, found.topic_id, False, rows)

    def _configs(self, name: str) -> DescribedConfigs:
        if name not in self.topics:
            return DescribedConfigs(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, 2, name, ())
        if name in self.settings_unseen:
            return DescribedConfigs(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, 2, name, ())
        own = (ConfigEntry(key, value, source=1) for key, value in self.topics[name].config.items())
        return DescribedConfigs(0, None, 2, name, (*own, ConfigEntry("cleanup.policy", "delete", source=5)))

    def _alter(self, resources: tuple[AlterableResource, ...], is_trial: bool) -> Response | Close:
        if self.loses_answers and not is_trial:
            return Close("told to")
        self.changes += not is_trial
        refusals = self.settings_refused if is_trial else {**self.settings_refused, **self.settings_failed}
        rows = []
        for each in resources:
            said = refusals.get(each.name, (ErrorCode.NONE, None))
            rows.append(AlteredResource(*said, *each.resource))
            if not is_trial and said[0] == ErrorCode.NONE:
                config = dict(self.topics[each.name].config)
                for name, value, operation in each.configs:
                    if operation == AlterOperation.DELETE:
                        config.pop(name, None)
                    else:
                        config[name] = value or ""
                self.topics[each.name] = replace(self.topics[each.name], config=config)
        return AlterConfigsResponse(tuple(rows))

    def _log_dirs(self, broker: int) -> DescribeLogDirsResponse:
        if broker in self.no_log_dirs:
            return DescribeLogDirsResponse((), error=self.no_log_dirs[broker])
        names = [name for name, each in self.topics.items() if any(broker in ids for ids in each.replicas)]
        names += [self.still_stored[broker]] if broker in self.still_stored else []
        rows = tuple(LogDirTopic(name, (LogDirPartition(0, 10, 0, False),)) for name in names)
        return DescribeLogDirsResponse((LogDir(0, "/data", rows),))

    def _administer(self, broker: int, request: TopicRequest) -> Response | Close:
        is_growth = isinstance(request, CreatePartitionsRequest) and not request.validate_only
        if self.loses_answers or (self.loses_partitions and is_growth):
            return Close("told to")
        if broker != self.controller or self.not_controller:
            self.not_controller = max(self.not_controller - 1, 0)
            return topic_error_response(request, ErrorCode.NOT_CONTROLLER)
        answer = self._answer_of_controller(request)
        if getattr(request, "validate_only", False):
            return answer
        self.changes += 1
        is_lost, self.loses_control = self.loses_control, False
        return topic_error_response(request, ErrorCode.NOT_CONTROLLER) if is_lost else answer

    def _answer_of_controller(self, request: TopicRequest) -> Response:
        match request:
            case CreateTopicsRequest(topics=to_create, validate_only=is_trial):
                return CreateTopicsResponse(tuple(self._create(each, is_trial) for each in to_create))
            case DeleteTopicsRequest(topics=to_delete):
                return DeleteTopicsResponse(tuple(map(self._delete, to_delete)))
            case CreatePartitionsRequest(topics=to_grow, validate_only=is_trial):
                return CreatePartitionsResponse(tuple(self._grow(each, is_trial) for each in to_grow))

    def _create(self, wanted: CreatableTopic, is_trial: bool) -> CreatedTopic:
        if wanted.name in self.refusals:
            return CreatedTopic(wanted.name, *self.refusals[wanted.name])
        if wanted.name in self.topics:
            said = f"Topic '{wanted.name}' already exists."
            return CreatedTopic(wanted.name, ErrorCode.TOPIC_ALREADY_EXISTS, said)
        named = tuple(each.brokers for each in wanted.assignments)
        replicas = named or tuple((1,) for _ in range(wanted.num_partitions))
        made = replace(topic(len(self.topics) + 100, *replicas), config={k: v or "" for k, v in wanted.configs})
        if not is_trial:
            self.on_create()
            self.topics[wanted.name] = made
        return CreatedTopic(wanted.name, 0, None, made.topic_id, len(replicas), len(replicas[0]))

    def _delete(self, wanted: DeletableTopic) -> DeletedTopic:
        names = (each for each, found in self.topics.items() if found.topic_id == wanted.topic_id)
        name = wanted.name if wanted.name is not None else next(names, None)
        if name is None or name not in self.topics:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
            return DeletedTopic(wanted.name, wanted.topic_id, unknown, "unknown")
        if name in self.refusals:
            return DeletedTopic(name, wanted.topic_id, *self.refusals[name])
        if name in self.stuck:
            return DeletedTopic(name, wanted.topic_id, ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
        del self.topics[name]
        return DeletedTopic(name, wanted.topic_id, 0)

    def _grow(self, wanted: GrowableTopic, is_trial: bool) -> GrownTopic:
        if wanted.name in self.refusals:
            return GrownTopic(wanted.name, *self.refusals[wanted.name])
        found = self.topics[wanted.name]
        if wanted.total <= len(found.replicas):
            said = f"Topic already has {wanted.total} partitions."
            return GrownTopic(wanted.name, ErrorCode.INVALID_PARTITIONS, said)
        added = wanted.assignments or ((2,),) * (wanted.total - len(found.replicas))
        if not is_trial:
            self.topics[wanted.name] = replace(found, replicas=(*found.replicas, *added))
        return GrownTopic(wanted.name, 0)


@dataclass
class _Handler:
    cluster: ServedCluster
    broker: int

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        return self.cluster.answer(self.broker, request)


OLD: Final = {**SPOKEN, ApiKey.DELETE_TOPICS: VersionRange(0, 5)}
"""The versions of brokers that delete topics by name only."""


@asynccontextmanager
async def serving(
    cluster: ServedCluster, *brokers: int, versions: Mapping[ApiKey, VersionRange] = SPOKEN
) -> AsyncIterator[ServedCluster]:
    """The cluster, while its brokers (1 and 2, where none is named) listen."""
    async with AsyncExitStack() as stack:
        for number in brokers or (1, 2):
            server = KafkaServer(_Handler(cluster, number), versions)
            cluster.ports[number] = (await server.listen("127.0.0.1", 0)).port
            task = asyncio.create_task(server.serve(), name=f"broker-{number}")
            await server.started()
            stack.push_async_callback(_ended, server, task)
        yield cluster


@asynccontextmanager
async def cluster_of(
    kafka: ServedCluster,
    *brokers: int,
    timeout_ms: int = 20_000,
    versions: Mapping[ApiKey, VersionRange] = SPOKEN,
) -> AsyncIterator[ClientCluster]:
    """The same, as a command sees it."""
    async with serving(kafka, *brokers, versions=versions):
        servers = kafka.servers.split(",")
        async with open_cluster(PLAINTEXT_REACH, servers, timeout_ms=timeout_ms) as cluster:
            yield cluster


async def _ended(server: KafkaServer, task: asyncio.Task[None]) -> None:
    server.stop(0)
    await task
