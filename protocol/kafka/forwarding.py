"""Frame heads and ApiVersions answers for a proxy that copies frames without decoding them.

Theory of operation. A proxy copies requests to a broker and responses back byte for byte, correlation ids included. It
decodes three things: the frame's size, the API, and whether the request gets a response (Produce with `acks=0` gets
none). A client chooses its versions by the ApiVersions response. That response is the broker's, with the entries of the
APIs that the proxy answers itself replaced (`merged_versions`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec_primitives import Malformed, read_uvarint
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import ApiVersion, ApiVersionsResponse, Request
from lethe.protocol.kafka.versions import VersionRange

HEAD_BYTES: Final = 12
"""Bytes of a request's frame, size prefix included, that `RequestHead` is read from."""
PRODUCE: Final = 0
ENVELOPE: Final = 58
"""A request in another client's name. Only brokers that migrate to KRaft send it, and accept it from each other."""
NEVER_PASSED_ON: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ENVELOPE})
"""A controller addresses the first three to one broker, and a broker an Envelope to its controller."""

MAX_CLAIMED_BYTES: Final = 1_048_576
"""A request that is decoded to decide whether to forward it is forwarded undecoded above this size: ZooKeeper takes no
configuration that large. To decode a megabyte of configurations takes 0.36 s (measured)."""

_HEAD: Final = struct.Struct(">ihhi")
_I16: Final = struct.Struct(">h")
_FIRST_FLEXIBLE_PRODUCE: Final = 9
_FIRST_TRANSACTIONAL_PRODUCE: Final = 3
_MAX_START_BYTES: Final = 131_072
"""Client id, tagged fields and transactional id are texts of at most 32,767 bytes each."""


class RequestHead(NamedTuple):
    """The first fields of a request. `size` is the frame's size without its own four bytes."""

    size: int
    api_key: int
    version: int
    correlation_id: int


def request_head(start: bytes) -> RequestHead:
    """Parse a frame's first HEAD_BYTES. Raises Malformed if the frame is shorter."""
    head = RequestHead(*_HEAD.unpack_from(start))
    if head.size < HEAD_BYTES - 4:
        raise Malformed(f"a request of {counted(head.size, 'byte')} has no complete header")
    return head


class MoreBytesNeeded(Exception):
    """The given beginning of the frame is too short."""


def gets_answer(start: bytes, head: RequestHead) -> bool:
    """Return whether the request gets a response, judged by the beginning of its frame (size prefix included).

    Raises MoreBytesNeeded if `start` is too short, and Malformed if the whole frame is.
    """
    if head.api_key != PRODUCE:
        return True
    try:
        return _acks(start, head.version) != 0
    except (struct.error, IndexError):
        if len(start) >= head.size + 4:
            raise Malformed(f"a Produce v{head.version} of {counted(head.size, 'byte')} is truncated") from None
        raise MoreBytesNeeded from None


def _acks(frame: bytes, version: int) -> int:
    offset = _after_string(frame, HEAD_BYTES)
    if version >= _FIRST_FLEXIBLE_PRODUCE:
        offset = _after_tags(frame, offset)
        length, offset = read_uvarint(frame, offset)
        offset += max(length - 1, 0)
    elif version >= _FIRST_TRANSACTIONAL_PRODUCE:
        offset = _after_string(frame, offset)
    _check(offset)
    return int(_I16.unpack_from(frame, offset)[0])


def _check(offset: int) -> None:
    if offset > _MAX_START_BYTES:
        raise Malformed(f"the fields before the records take more than {_MAX_START_BYTES} bytes")


def _after_string(frame: bytes, offset: int) -> int:
    (length,) = _I16.unpack_from(frame, offset)
    return offset + 2 + max(int(length), 0)


def _after_tags(frame: bytes, offset: int) -> int:
    count, offset = read_uvarint(frame, offset)
    for _ in range(count):
        _, offset = read_uvarint(frame, offset)
        length, offset = read_uvarint(frame, offset)
        offset += length
        _check(offset)
    return offset


class OwnApis(NamedTuple):
    """APIs for which a request's content decides whether the proxy's owner answers it or forwards it."""

    apis: Mapping[ApiKey, VersionRange] = MappingProxyType({})
    are_ours: Callable[[Request], bool] = lambda _: False
    mark: bytes = b""
    """Bytes that each request has that is ours. One without them is forwarded undecoded."""


# --- ApiVersions --------------------------------------------------------------------------------------------------


def merged_versions(
    theirs: ApiVersionsResponse,
    own: Mapping[ApiKey, VersionRange],
    instead: Mapping[ApiKey, VersionRange],
) -> ApiVersionsResponse:
    """Return the ApiVersions response for a proxy's client, by rising API key. `theirs` is the broker's.

    `own` APIs are offered in our versions, whether the broker has them or not. `instead` are answered by us in the
    broker's place: if the broker offers one, it is offered in the common versions. NEVER_PASSED_ON is left out.
    """
    rows = {each.api_key: each for each in theirs.apis if each.api_key not in NEVER_PASSED_ON}
    for api, (low, high) in instead.items():
        known = rows.pop(api, None)
        if known is not None and max(low, known.min_version) <= min(high, known.max_version):
            rows[api] = ApiVersion(api, max(low, known.min_version), min(high, known.max_version))
    for api, (low, high) in own.items():
        rows[api] = ApiVersion(api, low, high)
    return ApiVersionsResponse(
        theirs.error,
        tuple(rows[key] for key in sorted(rows)),
        theirs.throttle_time_ms,
        theirs.supported_features,
        theirs.finalized_features_epoch,
        theirs.finalized_features,
        theirs.zk_migration_ready,
    )
