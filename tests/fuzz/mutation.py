"""How a frame is damaged: one to four changes, each drawn from a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

MAX_BYTES: Final = 4096
"""A frame does not grow above this."""
_BYTES: Final = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_NUMBERS: Final = tuple(
    struct.pack(f">{code}", number)
    for code, bits in (("h", 16), ("i", 32), ("q", 64))
    for number in (-1, 0, 1, 127, (1 << bits - 1) - 1, -(1 << bits - 1))
)
_VARINTS: Final = (
    b"\x00",
    b"\x7f",
    b"\xff\x7f",
    b"\x80\x80\x01",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x00",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\xff\x01",
)
"""From one byte to six: lengths up to 2^35, and numbers that are longer than they need be."""
_TAGS: Final = (b"\x01\x00\x00", b"\x01\x00\x01\x00", b"\x02\x00\x00\x00\x00", b"\x01\x7f\x03abc", b"\x03\x01\x01\x00")

_CHANGES: Final = (1, 1, 1, 1, 1, 2, 2, 2, 3, 4)

Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def _place(frame: bytearray, draw: random.Random) -> int:
    return draw.randrange(len(frame) + 1)


def flip_bits(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    for _ in range(draw.randint(1, 4) if frame else 0):
        frame[draw.randrange(len(frame))] ^= 1 << draw.randrange(8)


def set_byte(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    if frame:
        frame[draw.randrange(len(frame))] = draw.choice(_BYTES)


def set_number(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    number, at = draw.choice(_NUMBERS), _place(frame, draw)
    frame[at : at + len(number)] = number


def set_varint(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    at = _place(frame, draw)
    frame[at : at + draw.randint(0, 5)] = draw.choice(_VARINTS)


def truncate(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    del frame[_place(frame, draw) :]


def extend(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    frame += draw.randbytes(draw.randint(1, 16))


def remove(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    at = _place(frame, draw)
    del frame[at : at + draw.randint(1, 8)]


def repeat(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    """Many items where one was."""
    at = _place(frame, draw)
    piece = bytes(frame[at : at + draw.randint(1, 12)])
    frame[at:at] = piece * draw.choice((1, 2, 126, 255))


def splice(frame: bytearray, draw: random.Random, others: Sequence[bytes]) -> None:
    """The end of another frame."""
    other = draw.choice(others)
    frame[_place(frame, draw) :] = other[draw.randrange(len(other) + 1) :]


def another_head(frame: bytearray, draw: random.Random, others: Sequence[bytes]) -> None:
    """API and version of another frame."""
    frame[:4] = draw.choice(others)[:4]


def another_version(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    frame[2:4] = struct.pack(">h", draw.randint(-1, 13))


def insert_tags(frame: bytearray, draw: random.Random, _others: Sequence[bytes]) -> None:
    """A section of tagged fields, most often where one ends: at a byte 0."""
    ends = [at for at, byte in enumerate(frame) if byte == 0]
    at = draw.choice(ends) if ends else _place(frame, draw)
    frame[at : at + 1] = draw.choice(_TAGS)


MUTATIONS: Final[Sequence[Mutation]] = (
    *(flip_bits, set_byte, set_number, set_varint, truncate, extend, remove, repeat, splice),
    *(another_head, another_version, insert_tags),
)


def mutated(frame: bytes, draw: random.Random, others: Sequence[bytes]) -> bytes:
    """The frame with one to four changes, most often one. `others` are whole frames to take pieces of."""
    changed = bytearray(frame)
    for mutate in draw.choices(MUTATIONS, k=draw.choice(_CHANGES)):
        mutate(changed, draw, others)
    return bytes(changed[:MAX_BYTES])


def in_a_stream(payload: bytes, draw: random.Random) -> bytes:
    """The payload as a frame of a stream, most often with its true size, and sometimes with another frame behind it."""
    chance = draw.random()
    size = len(payload) if chance < 0.9 else draw.choice((len(payload) - 1, len(payload) + 1, -1, 0, 7, 2**31 - 1))
    behind = struct.pack(">i", len(payload)) + payload if 0.6 < chance < 0.9 else b""
    return struct.pack(">i", size) + payload + behind
