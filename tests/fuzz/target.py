"""What a target of the fuzzer is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class Wrong(Exception):
    """The bytes were understood, and what came of it is wrong. The message says what."""


def _unchanged(data: bytes, _draw: random.Random) -> bytes:
    return data


@dataclass(frozen=True, slots=True)
class Target:
    """One parser, or what stands behind one."""

    name: str
    run: Callable[[bytes], bool]
    """Takes bytes from a peer; whether they were understood. Raises `refusals` and Wrong; others are findings."""
    refusals: tuple[type[Exception], ...]
    """What the server answers to by closing the connection."""
    weight: int
    """How often it is fed, beside the others."""
    make_seeds: Callable[[random.Random], Sequence[bytes]]
    """What is damaged."""
    wrap: Callable[[bytes, random.Random], bytes] = _unchanged
    """Applied to what is damaged."""
    base_s: float = 0.05
    """CPU time that it may take for a small frame."""
    base_bytes: int = 65_536
    """Memory that it may take for a small frame."""
