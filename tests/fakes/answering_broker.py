"""A broker of real sockets that answers Metadata, DescribeLogDirs and DescribeConfigs, with what a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.protocol.kafka.admin_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaRequest, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol, TopicId

SSL = Endpoint("SSL", "127.0.0.1", 1, SecurityProtocol.SSL)


@dataclass
class AnsweringBroker:
    """What it has, and how it fails. `asked` is what it was asked, in order."""

    cached: dict[str, TopicId | None] = field(default_factory=dict)
    stored: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Partitions by topic, all in its second log directory."""
    failed_dirs: tuple[str, ...] = ()
    may_describe: frozenset[str] | None = None
    """Topics that its authorizer lets the client describe; None: all. It leaves others out of a list, and refuses to
    speak of one that is named."""
    metadata_error: int = ErrorCode.NONE
    """The error with which it answers for every topic that it is asked about by name."""
    log_dirs_error: int = ErrorCode.NONE
    names_no_log_dir: bool = False
    hangs_up: bool = False
    command_error: int = ErrorCode.STALE_CONTROLLER_EPOCH
    """Its answer to a controller's StopReplica."""
    config: dict[str, str] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        return self.answer(request)

    def answer(self, request: Request) -> Response | Close:
        """Return the response; Close closes the connection."""
        self.asked.append(request)
        if self.hangs_up:
            return Close("told to")
        match request:
            case MetadataRequest(topics=topics):
                names = [str(topic.name) for topic in topics or ()]
                if topics is None:
                    names = [name for name in self.cached if self._may_describe(name)]
                return MetadataResponse((), None, BrokerId(-1), tuple(map(self._metadata, names)))
            case DescribeLogDirsRequest():
                return self._log_dirs()
            case Addressed(request=StopReplicaRequest()):
                return StopReplicaResponse(self.command_error, ())
            case DescribeConfigsRequest(resources=(resource, *_)):
                wanted = resource.names or ()
                entries = tuple(ConfigEntry(name, self.config[name]) for name in wanted if name in self.config)
                described = DescribedConfigs(0, None, resource.resource_type, resource.resource_name, entries)
                return DescribeConfigsResponse((described,))
            case _:
                return Close(f"unexpected {request}")

    def _may_describe(self, name: str) -> bool:
        return self.may_describe is None or name in self.may_describe

    def _metadata(self, name: str) -> MetadataTopic:
        if not self._may_describe(name):
            return MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, None, False, ())
        if self.metadata_error:
            return MetadataTopic(self.metadata_error, name, None, False, ())
        if name not in self.cached:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None, False, ())
        row = MetadataPartition(ErrorCode.LEADER_NOT_AVAILABLE, 0, -1, 0, (1,), (1,))
        return MetadataTopic(ErrorCode.NONE, name, self.cached[name], False, (row,))

    def _log_dirs(self) -> DescribeLogDirsResponse:
        if self.log_dirs_error or self.names_no_log_dir:
            return DescribeLogDirsResponse((), self.log_dirs_error)
        failed = (LogDir(ErrorCode.KAFKA_STORAGE_ERROR, path, ()) for path in self.failed_dirs)
        stored = tuple(
            LogDirTopic(topic, tuple(LogDirPartition(number, 10, 0, False) for number in numbers))
            for topic, numbers in self.stored.items()
        )
        return DescribeLogDirsResponse((*failed, LogDir(0, "/a", ()), LogDir(0, "/b", stored)))


@asynccontextmanager
async def served(
    handler: AnsweringBroker, number: int = 1, versions: Mapping[ApiKey, VersionRange] = SPOKEN
) -> AsyncIterator[Broker]:
    """The broker as it registers while it listens; its first listener cannot be used."""
    server = KafkaServer(handler, versions)
    address = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(), name="server")
        await server.started()
        plain = Endpoint("PLAINTEXT", "127.0.0.1", address.port)
        yield Broker(BrokerId(number), BrokerEpoch(9), (SSL, plain))
        server.stop(0)
