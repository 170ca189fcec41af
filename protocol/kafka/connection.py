"""Both ends of a Kafka connection without its socket: bytes in, values out; values in, buffers out.

Theory of operation. Kafka answers the requests of one connection in the order of arrival. So a client expects the
oldest unanswered correlation id, and a server returns the next request only after the previous one is answered. A
violation is a `ProtocolError`: nothing after it can be trusted, so the owner of the socket closes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec import (
    Decoded,
    EncodedBody,
    RequestHeader,
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    response_correlation_id,
    unsupported_api_versions,
)
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.forwarding import (
    HEAD_BYTES,
    MAX_CLAIMED_BYTES,
    NEVER_PASSED_ON,
    OwnApis,
    RequestHead,
    request_head,
)
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, FrameDecoder, FrameError, ProtocolError, frame_size
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Request,
    Response,
    api_of_request,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import BrokerEpoch

Buffers = Sequence[bytes | memoryview]
"""Buffers to write one after the other."""

MAX_REQUEST_BYTES: Final = 1_048_576
"""Largest request that is decoded, except for the APIs below. A row may have one byte in a frame, and takes 72 in
memory and 1.2 µs then (measured): a mebibyte is 75 MB and 1.3 s."""
MAX_NAMING_BYTES: Final = 2 * MAX_REQUEST_BYTES
"""The same for requests that name topics, with their ids, or partitions: 10,000 topics with 100,000 partitions fit."""
MAX_PLACING_BYTES: Final = 4 * MAX_REQUEST_BYTES
"""The same for requests with replicas or settings in each row: 100,000 partitions of three replicas, in 10,000 topics,
take 2.5 MB, and the throttles of their reassignment 4 MB. AlterPartition of 70,000 partitions fits."""
_MAX_BYTES: Final[Mapping[int, int]] = {
    **dict.fromkeys((ApiKey.METADATA, ApiKey.DELETE_TOPICS), MAX_NAMING_BYTES),
    **dict.fromkeys((ApiKey.ELECT_LEADERS, ApiKey.LIST_PARTITION_REASSIGNMENTS), MAX_NAMING_BYTES),
    **dict.fromkeys((ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS), MAX_PLACING_BYTES),
    **dict.fromkeys((ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS), MAX_PLACING_BYTES),
    **dict.fromkeys((ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_PARTITION), MAX_PLACING_BYTES),
}
_FROM_CONTROLLERS: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
"""They describe the whole cluster in one request, so only the limit for all requests holds."""
FROM_DAEMONS: Final[frozenset[int]] = _FROM_CONTROLLERS | {ApiKey.ALTER_PARTITION}
"""Requests of brokers and controllers that may be large. All others that may be are clients'."""

_CORRELATION_IDS: Final = 2**31
_LENGTH_BYTES: Final = 4


def _framed(payload: bytes) -> Buffers:
    return (frame_size(len(payload)), payload)


def _api_name(api_key: int) -> str:
    return next((api.name for api in ApiKey if api == api_key), f"API {api_key}")


def api_versions_response(served: Mapping[ApiKey, VersionRange]) -> ApiVersionsResponse:
    """Return a server's ApiVersions response, by rising API key."""
    return ApiVersionsResponse(
        ErrorCode.NONE, tuple(ApiVersion(api, served[api].min, served[api].max) for api in sorted(served))
    )


def highest_common_version(api: ApiKey, offered: Mapping[int, VersionRange]) -> int:
    """Return the highest version of `api` that both the peer and Lethe support. Raises ProtocolError if none."""
    theirs, ours = offered.get(api), SPOKEN[api]
    if theirs is None:
        raise ProtocolError(f"the broker does not offer {api.name}")
    version = min(theirs.max, ours.max)
    if version < max(theirs.min, ours.min):
        raise ProtocolError(f"no common version of {api.name}: the broker offers {theirs}, Lethe speaks {ours}")
    return version


class Reply(NamedTuple):
    """A response with the identity of its request."""

    correlation_id: int
    api: ApiKey
    version: int
    value: Response


class ClientConnection:
    """The client's side. Correlation ids start at 0 and increase by one."""

    __slots__ = ("_client_id", "_decoder", "_next_id", "_unanswered")

    def __init__(self, client_id: str, max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._client_id = client_id
        self._decoder = FrameDecoder(max_response_bytes, "the limit for responses")
        self._next_id = 0
        self._unanswered: deque[tuple[int, ApiKey, int]] = deque()

    @property
    def unanswered(self) -> int:
        """Number of requests without a response."""
        return len(self._unanswered)

    def send(self, request: Request, version: int) -> Buffers:
        """Return the buffers of one request. Raises Unencodable and UnsupportedVersion; then the request does not count
        as sent."""
        payload = encode_request(request, version, self._next_id, self._client_id)
        self._expect(api_of_request(request), version)
        return _framed(payload)

    def send_body(self, body: EncodedBody, broker_epoch: BrokerEpoch) -> Buffers:
        """Return the buffers of a control request that was encoded once for many brokers."""
        buffers = body.frame(self._next_id, self._client_id, broker_epoch)
        self._expect(body.api, body.version)
        return buffers

    def _expect(self, api: ApiKey, version: int) -> None:
        self._unanswered.append((self._next_id, api, version))
        self._next_id = (self._next_id + 1) % _CORRELATION_IDS

    def receive(self, data: bytes) -> list[Reply]:
        """Return the responses that are complete with these bytes. Raises ProtocolError."""
        self._decoder.feed(data)
        return [self._reply(payload) for payload in self._decoder.frames()]

    def _reply(self, payload: bytes) -> Reply:
        correlation_id = response_correlation_id(payload)
        if not self._unanswered:
            raise ProtocolError(f"an answer with correlation id {correlation_id} came, and nothing was asked")
        expected, api, version = self._unanswered[0]
        if correlation_id != expected:
            raise ProtocolError(
                f"the answer to {api.name} has correlation id {correlation_id} instead of {expected}: "
                f"answers are lost or mixed up"
            )
        _, value = decode_response(api, version, payload)
        self._unanswered.popleft()
        return Reply(correlation_id, api, version, value)

    def end_of_stream(self) -> None:
        """Handle the broker's end of stream. Raises FrameError inside a response."""
        self._decoder.end_of_stream()


class ServerConnection:
    """The server's side. `served` lists the supported APIs and their versions.

    Without `passes_on`, ApiVersions is answered here. With it, `next_request` returns ApiVersions too, and requests of
    other APIs can be forwarded as raw bytes (`foreign_head`, `peek`, `take`). For the APIs of `claims`, the content
    of a request decides between the two.
    """

    __slots__ = ("_claims", "_current", "_decoder", "_passes_on", "_served", "request_bytes")

    def __init__(
        self,
        served: Mapping[ApiKey, VersionRange] = SPOKEN,
        max_request_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        *,
        passes_on: bool = False,
        claims: OwnApis = OwnApis(),  # noqa: B008 - frozen
    ) -> None:
        self._served = {**served, **claims.apis}
        self._claims = claims
        self._decoder = FrameDecoder(max_request_bytes)
        self._passes_on = passes_on
        self._current: RequestHeader | None = None
        self.request_bytes = 0
        """Size of the request returned last, its length prefix included."""

    def receive(self, data: bytes) -> None:
        """Add received bytes; `next_request` returns complete requests."""
        self._decoder.feed(data)

    @property
    def pending_bytes(self) -> int:
        """Number of received bytes that were not returned yet."""
        return self._decoder.pending_bytes

    def next_request(self) -> Decoded | Buffers | None:
        """Return the next request, or None if it is incomplete or the previous one is not answered yet.

        Buffers are the response to a request that needs no handler: ApiVersions, also in an unsupported version. Raises
        ProtocolError.
        """
        if self._current is not None or self.complete_head() is None:
            return None
        payload = self._decoder.next_frame()
        if payload is None:
            return None
        self.request_bytes = _LENGTH_BYTES + len(payload)
        try:
            request = decode_request(payload, self._served)
        except UnsupportedVersion as error:
            if error.api is not ApiKey.API_VERSIONS:
                raise
            return _framed(unsupported_api_versions(self._served, error.correlation_id))
        self._current = request.header
        if isinstance(request.value, ApiVersionsRequest) and not self._passes_on:
            return self.reply(api_versions_response(self._served))
        return request

    def limit(self, max_request_bytes: int, limit_name: str) -> None:
        """Set the largest request from now on; `limit_name` is the property to raise if one is larger."""
        self._decoder.limit(max_request_bytes, limit_name)

    def next_head(self) -> RequestHead | None:
        """Return the head of the next request; None if it is incomplete. Raises FrameError and Malformed."""
        self._decoder.check_size()
        start = self._decoder.peek(HEAD_BYTES)
        if len(start) < _LENGTH_BYTES:
            return None
        # With the size alone, it is checked whether there can be a head.
        head = request_head(start.ljust(HEAD_BYTES, b"\0"))
        return head if len(start) == HEAD_BYTES else None

    def complete_head(self) -> RequestHead | None:
        """Return the head of the next request, which is to be decoded; None if the request is incomplete.

        Raises FrameError if it is too large for its API, as soon as the head is there, and Malformed."""
        head = self.next_head()
        if head is None:
            return None
        limit = _MAX_BYTES.get(head.api_key, MAX_REQUEST_BYTES)
        if head.size > limit and head.api_key not in _FROM_CONTROLLERS:
            raise FrameError(
                f"{_api_name(head.api_key)} of {counted(head.size, 'byte')} exceeds the limit of "
                f"{counted(limit, 'byte')} for this request; send several smaller ones"
            )
        return head if self.pending_bytes >= head.size + _LENGTH_BYTES else None

    def foreign_head(self) -> RequestHead | None:
        """Return the head of the next request if it is to be forwarded; None if it is not, or if it is incomplete.

        Raises FrameError and Malformed.
        """
        if not self._passes_on or self._current is not None:
            return None
        head = self.next_head()
        if head is None:
            return None
        if head.api_key in self._claims.apis:
            return self._unless_claimed(head)
        return None if head.api_key in self._served or head.api_key in NEVER_PASSED_ON else head

    def _unless_claimed(self, head: RequestHead) -> RequestHead | None:
        """Return the head if the request is to be forwarded; None if it is ours to answer, or incomplete."""
        if head.size > MAX_CLAIMED_BYTES:
            return head
        if self.pending_bytes < head.size + 4:
            return None
        frame = self._decoder.peek(head.size + 4)
        if self._claims.mark not in frame:
            return head
        try:
            request = decode_request(frame[4:], self._claims.apis)
        except ProtocolError:
            # The broker answers malformed requests better than we can.
            return head
        return None if self._claims.are_ours(request.value) else head

    def peek(self, count: int) -> bytes:
        """Return up to `count` raw bytes without consuming them."""
        return self._decoder.peek(count)

    def take(self, count: int) -> bytes:
        """Return up to `count` raw bytes and consume them, for forwarding."""
        return self._decoder.take(count)

    def reply(self, response: Response) -> Buffers:
        """Return the response's buffers for the last request. Raises Unencodable; RuntimeError without open request."""
        if self._current is None:
            raise RuntimeError("there is no request to reply to")
        header, self._current = self._current, None
        return _framed(encode_response(header.api, header.version, header.correlation_id, response))

    def end_of_stream(self) -> None:
        """Handle the client's end of stream. Raises FrameError inside a request."""
        self._decoder.end_of_stream()
