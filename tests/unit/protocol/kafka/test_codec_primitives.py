import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.kafka.codec_primitives import (
    Malformed,
    Unencodable,
    encode_length,
    encode_string,
    encode_uvarint,
    int32_array,
    read_uvarint,
    skip_tagged_fields,
    string,
)


@pytest.mark.parametrize(
    "value, data",
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_383, "ff7f"), (16_384, "808001")],
)
def test_varints_are_seven_bits_per_byte_lowest_first(value: int, data: str) -> None:
    assert encode_uvarint(value).hex() == data
    assert read_uvarint(b"x" + bytes.fromhex(data), 1) == (value, 1 + len(data) // 2)


@given(st.integers(0, 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    data = encode_uvarint(value)
    assert read_uvarint(data, 0) == (value, len(data))


def test_a_varint_of_six_bytes_is_malformed() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x07", 0) == (2**31 - 1, 5)
    with pytest.raises(Malformed, match="more than five bytes at offset 0"):
        read_uvarint(b"\xff\xff\xff\xff\xff\x07", 0)


@pytest.mark.parametrize("flexible", [True, False])
@given(text=st.text(max_size=20) | st.just("é" * 100) | st.none())
def test_strings_come_back(flexible: bool, text: str | None) -> None:
    layout = string(flexible, nullable=True)
    chunks: list[bytes] = []
    layout.write(text, chunks.append)
    data = b"".join(chunks)
    assert layout.read(data, 0) == (text, len(data))


def test_a_string_has_at_most_32767_bytes() -> None:
    assert len(encode_string("x" * 32_767, flexible=False)) == 32_769
    with pytest.raises(Unencodable, match="32,768 bytes"):
        encode_string("é" * 16_384, flexible=True)


@pytest.mark.parametrize("flexible", [True, False])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 127, 200])
def test_arrays_of_numbers_come_back(flexible: bool, length: int) -> None:
    layout = int32_array(flexible, nullable=False)
    chunks: list[bytes] = []
    layout.write(range(length), chunks.append)
    data = b"".join(chunks)
    assert data.startswith(encode_length(length, flexible))
    assert layout.read(data, 0) == (tuple(range(length)), len(data))


def test_unknown_tagged_fields_are_passed_over_and_lies_are_not() -> None:
    assert skip_tagged_fields(bytes.fromhex("02 00 01 ff 05 00 77"), 0) == 6
    with pytest.raises(Malformed, match="9 bytes announced"):
        skip_tagged_fields(bytes.fromhex("01 00 09 ff"), 0)
    with pytest.raises(IndexError):
        skip_tagged_fields(bytes.fromhex("02 00 01 ff"), 0)
