"""The controller's memory of the pace at which deletions begin; `pace` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import BrokerId

MICRO: Final = 1_000_000
"""Buckets count in millionths of a topic or byte: a rate in thousandths per second adds that many in a millisecond."""


class PaceLimits(NamedTuple):
    """Limits in thousandths of a topic and of a byte per second; 0: no limit."""

    topics: int = 0
    bytes: int = 0

    @property
    def is_nothing(self) -> bool:
        return not any(self)


NO_LIMITS: Final = PaceLimits()


@dataclass(slots=True)
class Bucket:
    """A token bucket. It holds what one second adds, at least one token, and is full when it is first used."""

    level: int | None = None
    """In millionths; negative: a debt. None: not used yet, which means full."""
    at_ms: int = 0
    """When `level` held."""

    def fill(self, rate: int, now_ms: int) -> None:
        """Add what the time since then gives, up to the capacity. `rate` is in thousandths per second."""
        capacity = bucket_capacity(rate)
        level = capacity if self.level is None else self.level + rate * max(0, now_ms - self.at_ms)
        self.level, self.at_ms = min(capacity, level), now_ms

    def wait_ms(self, cost: int, rate: int) -> int:
        """Return how long after `at_ms` the cost can be paid; 0: now. A cost above the capacity needs a full bucket."""
        missing = min(cost, bucket_capacity(rate)) - (self.level or 0)
        return 0 if missing <= 0 else -(-missing // rate)


def bucket_capacity(rate: int) -> int:
    """Return what a bucket of this rate holds, in millionths."""
    return max(rate * 1_000, MICRO)


@dataclass(slots=True)
class SizeQuestion:
    """Requests for the sizes of some topics, one for each broker that has replicas of them."""

    asked_at_ms: int
    sizes: dict[str, int | None]
    """Bytes that were answered so far; None where an answer lacks a replica."""
    brokers: dict[str, tuple[BrokerId, ...]]
    """Brokers that have replicas of the topic."""
    outstanding: dict[int, BrokerId] = field(default_factory=dict)
    """Brokers that have not answered, by id of the request."""


@dataclass(slots=True)
class Pacing:
    """Which deletions wait for their turn."""

    topics: Bucket = field(default_factory=Bucket)
    bytes: Bucket = field(default_factory=Bucket)
    line: dict[str, None] = field(default_factory=dict)
    """Marked topics that wait, in order. Some may have lost their marker since."""
    paid: dict[str, None] = field(default_factory=dict)
    """Topics whose turn has come, and that are not queued yet."""
    sizes: dict[str, int | None] = field(default_factory=dict)
    """Bytes of all replicas of topics in the line on registered brokers; None: could not be seen."""
    question: SizeQuestion | None = None

    def leave(self, name: str) -> None:
        """Drop a topic from the line."""
        self.line.pop(name, None)
        self.sizes.pop(name, None)
        self.paid.pop(name, None)
