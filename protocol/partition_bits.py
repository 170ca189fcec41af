"""Partitions of one topic as a bit set: bit 3 stands for partition 3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Bits = int
_FEW: Final = 256


def bits_of(numbers: Iterable[int]) -> Bits:
    """Return the bit set of these partitions."""
    listed = list(numbers)
    if len(listed) <= _FEW:
        found = 0
        for number in listed:
            found |= 1 << number
        return found
    # Each step above copies the integer, which would be quadratic.
    octets = bytearray(max(listed) // 8 + 1)
    for number in listed:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")
