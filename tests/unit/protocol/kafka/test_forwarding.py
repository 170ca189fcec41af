"""What is read of frames that are passed on: where they end, and whether an answer comes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.kafka.codec_primitives import Malformed
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import (
    HEAD_BYTES,
    NEVER_PASSED_ON,
    MoreBytesNeeded,
    gets_answer,
    merged_versions,
    request_head,
)
from lethe.protocol.kafka.queries import ApiVersion, ApiVersionsResponse, FinalizedFeature
from lethe.protocol.kafka.versions import VersionRange

TEXT = st.none() | st.text(max_size=20) | st.just("x" * 32_767)


def produce(version: int, acks: int, client_id: str | None, transactional_id: str | None, tags: list[bytes]) -> bytes:
    """By hand from Kafka's schemas."""

    def text(value: str | None) -> bytes:
        data = (value or "").encode()
        return struct.pack(">h", -1 if value is None else len(data)) + data

    def uvarint(value: int) -> bytes:
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    body = struct.pack(">hhi", 0, version, 7) + text(client_id)
    if version >= 9:
        body += uvarint(len(tags)) + b"".join(uvarint(n) + uvarint(len(t)) + t for n, t in enumerate(tags))
        data = (transactional_id or "").encode()
        body += uvarint(0 if transactional_id is None else len(data) + 1) + data
    elif version >= 3:
        body += text(transactional_id)
    body += struct.pack(">hi", acks, 30_000) + b"records"
    return struct.pack(">i", len(body)) + body


@given(
    version=st.integers(0, 11),
    acks=st.sampled_from([-1, 0, 1]),
    client_id=TEXT,
    transactional_id=TEXT,
    tags=st.lists(st.binary(max_size=200), max_size=3),
)
def test_only_a_produce_without_acks_gets_no_answer(
    version: int, acks: int, client_id: str | None, transactional_id: str | None, tags: list[bytes]
) -> None:
    frame = produce(version, acks, client_id, transactional_id, tags)
    head = request_head(frame[:HEAD_BYTES])
    assert head == (len(frame) - 4, 0, version, 7)
    assert gets_answer(frame, head) is (acks != 0)


@pytest.mark.parametrize("version", range(12))
def test_whatever_is_missing_more_is_asked_for_until_the_frame_ends(version: int) -> None:
    frame = produce(version, 0, "me", "tx", [b"tag"])
    head = request_head(frame)
    said = False
    for end in range(HEAD_BYTES, len(frame)):
        try:
            assert gets_answer(frame[:end], head) is False
            said = True
        except MoreBytesNeeded:
            assert not said
    assert said
    short = frame[: HEAD_BYTES + 3]
    with pytest.raises(Malformed, match="truncated"):
        gets_answer(short, head._replace(size=len(short) - 4))


def test_other_requests_are_not_looked_into() -> None:
    head = request_head(struct.pack(">ihhi", 8, 1, 99, 5))
    assert gets_answer(b"", head)


@pytest.mark.parametrize("size", range(8))
def test_a_frame_without_a_header_is_refused(size: int) -> None:
    with pytest.raises(Malformed):
        request_head(struct.pack(">ihhi", size, 3, 1, 1))


def test_a_beginning_that_never_ends_is_refused() -> None:
    frame = struct.pack(">ihhih", 1 << 24, 0, 9, 7, -1) + b"\x01\x00\xff\xff\xff\x0f" + bytes(100)
    with pytest.raises(Malformed, match="before the records"):
        gets_answer(frame, request_head(frame))


def test_versions_are_the_brokers_with_ours_in_place() -> None:
    theirs = ApiVersionsResponse(
        0,
        (
            *(ApiVersion(0, 0, 9), ApiVersion(4, 0, 5), ApiVersion(7, 0, 2), ApiVersion(16, 1, 4)),
            *(ApiVersion(35, 7, 9), ApiVersion(60, 0, 0), ApiVersion(999, 1, 2)),
        ),
        finalized_features_epoch=3,
        finalized_features=(FinalizedFeature("f", 1, 1),),
    )
    own = {ApiKey.CONTROLLED_SHUTDOWN: VersionRange(0, 3), ApiKey.ALTER_PARTITION: VersionRange(0, 3)}
    instead = {
        ApiKey.LIST_GROUPS: VersionRange(0, 3),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 4),
        ApiKey.LIST_TRANSACTIONS: VersionRange(0, 1),
    }
    merged = merged_versions(theirs, own, instead)
    assert merged.apis == (
        *(ApiVersion(0, 0, 9), ApiVersion(7, 0, 3), ApiVersion(16, 1, 3), ApiVersion(56, 0, 3)),
        *(ApiVersion(60, 0, 0), ApiVersion(999, 1, 2)),
    )
    assert merged.finalized_features == theirs.finalized_features
    assert ApiKey.LEADER_AND_ISR in NEVER_PASSED_ON
    assert 58 in NEVER_PASSED_ON
