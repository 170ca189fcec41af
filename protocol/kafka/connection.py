"""Both ends of a Kafka connection without its socket: bytes in, values out; values in, buffers out.

Theory of operation. Kafka answers the requests of one connection in the order in which they came. So a client expects
the oldest unanswered correlation id and no other, and a server takes the next request only when the one before it is
answered. Whatever breaks that order is a `ProtocolError`: after it nothing on the connection can be trusted, and the
owner of the socket closes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, FrameDecoder, ProtocolError, frame_size
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Request,
    Response,
    api_of_request,
)
from lethe.protocol.kafka.relaying import (
    HEAD_BYTES,
    MAX_CLAIMED_BYTES,
    NEVER_PASSED_ON,
    Claims,
    RequestHead,
    request_head,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import BrokerEpoch

Buffers = Sequence[bytes | memoryview]
"""To be written one after the other."""

_CORRELATION_IDS: Final = 2**31
_LENGTH_BYTES: Final = 4


def _framed(payload: bytes) -> Buffers:
    return (frame_size(len(payload)), payload)


def api_versions_response(served: Mapping[ApiKey, VersionRange]) -> ApiVersionsResponse:
    """What a server says that it serves, by rising API key."""
    return ApiVersionsResponse(
        ErrorCode.NONE, tuple(ApiVersion(api, served[api].min, served[api].max) for api in sorted(served))
    )


def highest_common_version(api: ApiKey, offered: Mapping[int, VersionRange]) -> int:
    """The highest version of `api` that the peer offers and Lethe speaks. Raises ProtocolError where there is none."""
    theirs, ours = offered.get(api), SPOKEN[api]
    if theirs is None:
        raise ProtocolError(f"the broker does not offer {api.name}")
    version = min(theirs.max, ours.max)
    if version < max(theirs.min, ours.min):
        raise ProtocolError(f"no common version of {api.name}: the broker offers {theirs}, Lethe speaks {ours}")
    return version


class Reply(NamedTuple):
    """An answer, and the request that it answers."""

    correlation_id: int
    api: ApiKey
    version: int
    value: Response


class ClientConnection:
    """The side that asks. Correlation ids start at 0 and go up by one."""

    __slots__ = ("_client_id", "_decoder", "_next_id", "_unanswered")

    def __init__(self, client_id: str, max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._client_id = client_id
        self._decoder = FrameDecoder(max_response_bytes, "the limit for responses")
        self._next_id = 0
        self._unanswered: deque[tuple[int, ApiKey, int]] = deque()

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answer."""
        return len(self._unanswered)

    def send(self, request: Request, version: int) -> Buffers:
        """The buffers of one request. Raises Unencodable and UnsupportedVersion; nothing was sent then."""
        payload = encode_request(request, version, self._next_id, self._client_id)
        self._expect(api_of_request(request), version)
        return _framed(payload)

    def send_body(self, body: EncodedBody, broker_epoch: BrokerEpoch) -> Buffers:
        """The buffers of a control request that was encoded once for many brokers."""
        buffers = body.frame(self._next_id, self._client_id, broker_epoch)
        self._expect(body.api, body.version)
        return buffers

    def _expect(self, api: ApiKey, version: int) -> None:
        self._unanswered.append((self._next_id, api, version))
        self._next_id = (self._next_id + 1) % _CORRELATION_IDS

    def receive(self, data: bytes) -> list[Reply]:
        """The answers that are complete with these bytes. Raises ProtocolError."""
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
        """The broker closed. Raises FrameError where it did so inside an answer."""
        self._decoder.end_of_stream()


class ServerConnection:
    """The side that answers. `served` says which APIs and versions; ApiVersions is answered from it here, unless it
    `passes_on`: then it is given out like other requests, and what is not served may be passed on to somebody else,
    by its raw bytes (`foreign_head`, `peek`, `take`). What is claimed is given out or passed on by what it asks for."""

    __slots__ = ("_claims", "_current", "_decoder", "_passes_on", "_served", "request_bytes")

    def __init__(
        self,
        served: Mapping[ApiKey, VersionRange] = SPOKEN,
        max_request_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        *,
        passes_on: bool = False,
        claims: Claims = Claims(),  # noqa: B008 - frozen
    ) -> None:
        self._served = {**served, **claims.apis}
        self._claims = claims
        self._decoder = FrameDecoder(max_request_bytes)
        self._passes_on = passes_on
        self._current: RequestHeader | None = None
        self.request_bytes = 0
        """What the request given out last took on the connection, its length included."""

    def receive(self, data: bytes) -> None:
        """Take what arrived; `next_request` gives out what is complete."""
        self._decoder.feed(data)

    @property
    def pending_bytes(self) -> int:
        """What arrived and was not given out yet."""
        return self._decoder.pending_bytes

    def next_request(self) -> Decoded | Buffers | None:
        """The next request to be answered, or None until one is complete or while one is being answered.

        Buffers are the answer to a request that needs no handler: ApiVersions, also in a version that is not known.
        Raises ProtocolError.
        """
        if self._current is not None:
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

    def foreign_head(self) -> RequestHead | None:
        """The head of the next request where it is one to be passed on; None where it is not, or not known yet.

        Raises FrameError and Malformed."""
        if not self._passes_on or self._current is not None:
            return None
        self._decoder.check_size()
        start = self._decoder.peek(HEAD_BYTES)
        if len(start) < HEAD_BYTES:
            return None
        head = request_head(start)
        if head.api_key in self._claims.apis:
            return self._unless_claimed(head)
        return None if head.api_key in self._served or head.api_key in NEVER_PASSED_ON else head

    def _unless_claimed(self, head: RequestHead) -> RequestHead | None:
        """The head where the request is not ours to answer; None where it is, or is not there as a whole yet."""
        if head.size > MAX_CLAIMED_BYTES:
            return head
        frame = self._decoder.peek(head.size + 4)
        if len(frame) < head.size + 4:
            return None
        try:
            request = decode_request(frame[4:], self._claims.apis)
        except ProtocolError:
            # Whatever is wrong with it, the broker knows better.
            return head
        return None if self._claims.are_ours(request.value) else head

    def peek(self, count: int) -> bytes:
        """The next raw bytes, at most so many, which stay."""
        return self._decoder.peek(count)

    def take(self, count: int) -> bytes:
        """The next raw bytes, at most so many, to be passed on."""
        return self._decoder.take(count)

    def reply(self, response: Response) -> Buffers:
        """The buffers that answer the request given out last. Raises Unencodable; RuntimeError where none is open."""
        if self._current is None:
            raise RuntimeError("there is no request to reply to")
        header, self._current = self._current, None
        return _framed(encode_response(header.api, header.version, header.correlation_id, response))

    def end_of_stream(self) -> None:
        """The client closed. Raises FrameError where it did so inside a request."""
        self._decoder.end_of_stream()
