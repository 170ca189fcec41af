import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, FrameDecoder, FrameError, frame_size


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(payloads=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(1, 30), max_size=60))
def test_however_the_stream_is_cut_the_payloads_are_the_same(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame_size(len(payload)) + payload for payload in payloads)
    decoder = FrameDecoder()
    received: list[bytes] = []
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        decoder.feed(piece)
        received += decoder.frames()
    assert received == payloads
    assert decoder.pending_bytes == 0
    decoder.end_of_stream()


def test_a_size_is_four_bytes_big_endian() -> None:
    assert frame_size(258) == b"\x00\x00\x01\x02"


def test_a_frame_at_the_limit_passes_and_one_byte_more_is_refused() -> None:
    decoder = FrameDecoder(max_bytes=10)
    decoder.feed(frame(b"x" * 10))
    assert decoder.next_frame() == b"x" * 10
    decoder.feed(struct.pack(">i", 11))
    with pytest.raises(
        FrameError, match=r"frame of 11 bytes exceeds the limit of 10 bytes.*socket\.request\.max\.bytes"
    ):
        decoder.next_frame()


def test_too_large_a_size_is_refused_before_its_bytes_arrive() -> None:
    decoder = FrameDecoder()
    decoder.feed(struct.pack(">i", DEFAULT_MAX_FRAME_BYTES + 1))
    with pytest.raises(FrameError, match="104,857,601 bytes exceeds the limit of 104,857,600"):
        decoder.next_frame()


def test_an_announced_size_reserves_no_memory() -> None:
    decoder = FrameDecoder()
    decoder.feed(struct.pack(">i", DEFAULT_MAX_FRAME_BYTES) + b"abc")
    assert decoder.next_frame() is None
    assert decoder.pending_bytes == 7


def test_a_negative_size_is_refused() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\xff\xff\xff\xff")
    with pytest.raises(FrameError, match="-1 is negative"):
        decoder.next_frame()


def test_text_of_another_protocol_is_named() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(FrameError, match="the text 'GET ' is no frame: the peer does not speak Kafka's protocol"):
        decoder.next_frame()


def test_an_end_inside_a_frame_is_told() -> None:
    decoder = FrameDecoder()
    decoder.feed(frame(b"whole") + frame(b"half")[:6])
    assert list(decoder.frames()) == [b"whole"]
    with pytest.raises(FrameError, match="ended inside a frame, after 6 of its bytes"):
        decoder.end_of_stream()


def test_a_payload_beyond_four_bytes_of_size_cannot_be_framed() -> None:
    with pytest.raises(ValueError, match="2,147,483,648 bytes cannot be sent"):
        frame_size(2**31)
