"""A broker of real sockets that answers control requests, or breaks in the way that the test asks for."""

from __future__ import annotations

import asyncio
import enum
import struct
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Self, cast

from lethe.protocol.kafka.codec import decode_request, encode_response
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.framing import FrameDecoder
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    Response,
)
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, NO_BROKER, BrokerEpoch, Endpoint


class Act(enum.Enum):
    """What the broker does with one request."""

    ANSWER = "answers"
    HOLD = "answers when it is released"
    CLOSE = "closes the connection"
    TRUNCATE = "closes in the middle of the answer"
    GARBAGE = "answers with bytes that are no answer"
    HUGE = "announces an answer of 2 GB"
    OTHER_NUMBER = "answers with another correlation id"
    TRAILING = "answers with bytes behind the end"


class Seen(NamedTuple):
    """One request as it arrived."""

    payload: bytes
    client_id: str | None
    version: int
    broker_epoch: BrokerEpoch
    request: ControlRequest


def healthy_answer(request: ControlRequest) -> ControlResponse:
    """NONE for everything."""
    match request:
        case LeaderAndIsrRequest():
            rows = tuple(
                TopicIdError(topic.topic if topic.topic_id is None else None, topic.topic_id, row.partition, 0)
                for topic in request.topics
                for row in topic.partitions
            )
            return LeaderAndIsrResponse.of_rows(0, rows)
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(0)
        case StopReplicaRequest():
            stopped = (
                TopicError(topic.topic, row.partition, 0) for topic in request.topics for row in topic.partitions
            )
            return StopReplicaResponse.of_rows(0, tuple(stopped))


def _told(request: object) -> Response | None:
    """The answer to a question; None to an order. Its metadata cache shows nothing."""
    match request:
        case ApiVersionsRequest():
            spoken = tuple(ApiVersion(key, versions.min, versions.max) for key, versions in SPOKEN.items())
            return ApiVersionsResponse(0, spoken)
        case MetadataRequest():
            return MetadataResponse((), None, NO_BROKER, ())
        case _:
            return None


class FakeBroker:
    """Listens on a port of its own while its context is entered. Acts are used up one per request, then it answers."""

    def __init__(self, acts: Iterable[Act] = (), port: int = 0, host: str = "127.0.0.1") -> None:
        self.acts = deque(acts)
        self.seen: list[Seen] = []
        self.connections = 0
        self.open_connections = 0
        self.released = asyncio.Event()
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("PLAINTEXT", self._host, self._port)

    @property
    def requests(self) -> list[ControlRequest]:
        return [seen.request for seen in self.seen]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def hang_up(self) -> None:
        """Close every connection, as a broker does with idle ones."""
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        self._writers[writer] = None
        decoder = FrameDecoder()
        try:
            while data := await reader.read(1 << 16):
                decoder.feed(data)
                for payload in decoder.frames():
                    if not await self._act(payload, writer):
                        return
        except OSError:
            return
        finally:
            self.open_connections -= 1
            del self._writers[writer]
            writer.close()

    async def _act(self, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        """False where the connection is to be closed."""
        header, value = decode_request(payload)
        if (told := _told(value)) is not None:
            # Questions use up no act: the tests that count acts are about orders.
            body = encode_response(header.api, header.version, header.correlation_id, told)
            writer.write(struct.pack(">i", len(body)) + body)
            await writer.drain()
            return True
        addressed = cast(Addressed, value)
        request = addressed.request
        self.seen.append(Seen(payload, header.client_id, header.version, addressed.broker_epoch, request))
        act = self.acts.popleft() if self.acts else Act.ANSWER
        number = header.correlation_id + 1000 * (act is Act.OTHER_NUMBER)
        answer = encode_response(header.api, header.version, number, healthy_answer(request))
        if act is Act.TRAILING:
            answer += b"behind"
        if act is Act.HOLD:
            await self.released.wait()
        frame = struct.pack(">i", len(answer)) + answer
        match act:
            case Act.CLOSE:
                return False
            case Act.TRUNCATE:
                writer.write(frame[:-1])
                await writer.drain()
                return False
            case Act.GARBAGE:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            case Act.HUGE:
                writer.write(struct.pack(">i", 2**31 - 1))
            case _:
                writer.write(frame)
        await writer.drain()
        return True


class ErringBroker(FakeBroker):
    """Answers every question, and every order to delete, with an error."""

    async def _act(self, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        header, value = decode_request(payload)
        answer: Response
        if isinstance(value, ApiVersionsRequest):
            answer = ApiVersionsResponse(ErrorCode.UNKNOWN_SERVER_ERROR, ())
        else:
            answer = _erring(cast(Addressed, value).request)
        body = encode_response(header.api, header.version, header.correlation_id, answer)
        writer.write(struct.pack(">i", len(body)) + body)
        await writer.drain()
        return True


def _erring(request: ControlRequest) -> Response:
    if not isinstance(request, StopReplicaRequest):
        return healthy_answer(request)
    rows = tuple(
        TopicError(topic.topic, row.partition, ErrorCode.UNKNOWN_SERVER_ERROR if row.delete else 0)
        for topic in request.topics
        for row in topic.partitions
    )
    return StopReplicaResponse.of_rows(0, rows)


class TombstoneRefuser(FakeBroker):
    """Answers every tombstone with this error for the whole request, and obeys otherwise."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__()
        self._error = error

    async def _act(self, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        header, value = decode_request(payload)
        answer: Response
        if isinstance(value, ApiVersionsRequest):
            answer = ApiVersionsResponse(ErrorCode.UNKNOWN_SERVER_ERROR, ())
        else:
            request = cast(Addressed, value).request
            answer = UpdateMetadataResponse(self._error) if _is_tombstone(request) else healthy_answer(request)
        body = encode_response(header.api, header.version, header.correlation_id, answer)
        writer.write(struct.pack(">i", len(body)) + body)
        await writer.drain()
        return True


def _is_tombstone(request: ControlRequest) -> bool:
    return isinstance(request, UpdateMetadataRequest) and any(
        row.leader == LEADER_DURING_DELETE for topic in request.topics for row in topic.partitions
    )
