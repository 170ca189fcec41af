"""Limits on connections, memory and time that the peers of Kafka servers may take.

Many connections may add up: thirty unfinished requests of 40 MB are 1.2 GB. So all unfinished requests of the process
have one common limit. Above it, the connection whose request began first is closed, until the rest is below the limit.
A normal request is complete within a moment; the oldest one belongs to a peer that has stalled, or to an attacker.

    limit 256 MB, unfinished requests by age: A 100 MB, B 90 MB, C 80 MB (270 MB)  ->  A is closed, 170 MB remain

A request takes up to 72 times its size once it is decoded (`protocol.kafka.connection`). So clients' requests are
decoded in the order of their completion, as many as have MAX_DECODED_BYTES together. Until its turn, a request counts
as unfinished. Room is given back with the answer, or where a request begins to wait for brokers.

    limit 4 MiB, in the handler: 3 MiB; complete: D 2 MiB, E 1 MiB  ->  D waits for 1 MiB, E for D
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from lethe.protocol.counting import counted
from lethe.protocol.kafka.connection import MAX_PLACING_BYTES
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES

CHUNK_BYTES: Final = 128 * 1024
"""Bytes of one read; a connection whose request is being answered holds at most twice this."""
DEFAULT_MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
MAX_DECODED_BYTES: Final = MAX_PLACING_BYTES
"""Sum over the requests of clients that are decoded and not answered: the largest one fits."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits for one peer and for all together."""

    max_request_bytes: int = DEFAULT_MAX_FRAME_BYTES
    """`socket.request.max.bytes`"""
    max_connections: int = 10_000
    """`max.connections`"""
    max_idle_ms: int = 600_000
    """`connections.max.idle.ms`: also limits how long a peer may take to read a response."""
    max_queued_bytes: int = DEFAULT_MAX_QUEUED_BYTES
    """`queued.max.request.bytes`: sum over all unfinished requests; 0 is no limit."""
    max_receive_ms: int = 30_000
    """`lethe.request.receive.timeout.ms`: from the first byte of a request to its last."""


class LimitedConnection(Protocol):
    """A connection with an unfinished request."""

    def lose(self, reason: str) -> None:
        """Close the connection for this reason."""


class DecodedRequests:
    """The requests of clients that are decoded and not answered, and those that wait to be decoded."""

    def __init__(self, max_bytes: int) -> None:
        """A request above `max_bytes` is decoded alone."""
        self.bytes = 0
        """Sum over the decoded ones."""
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def turn(self, count: int) -> asyncio.Future[None]:
        """Return the turn of a request of `count` bytes: done once it may be decoded. Cancel it to give it up; once it
        is done, `give_back` is due."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        self._next()
        return turn

    def give_back(self, count: int) -> None:
        """The request of `count` bytes takes no memory any more."""
        self.bytes -= count
        self._next()

    def _next(self) -> None:
        while self._waiting:
            count, turn = self._waiting[0]
            if not turn.cancelled():
                if self.bytes and self.bytes + count > self._max_bytes:
                    return
                self.bytes += count
                turn.set_result(None)
            self._waiting.popleft()


class ServerLoad:
    """Open connections and unfinished requests. The servers of one process share one instance, hence the limits."""

    def __init__(self, limits: ServerLimits) -> None:
        self.connections = 0
        self.queued_bytes = 0
        """Sum over all unfinished requests."""
        # One complete request, and bytes that arrived after it, always fit.
        room_for_one = limits.max_request_bytes + 2 * CHUNK_BYTES
        self._max_queued_bytes = max(limits.max_queued_bytes, room_for_one) if limits.max_queued_bytes > 0 else None
        self._held: dict[LimitedConnection, int] = {}
        """Oldest unfinished request first."""
        self.decoded: Final = DecodedRequests(MAX_DECODED_BYTES)

    def hold(self, holder: LimitedConnection, count: int) -> None:
        """Set the connection's number of unfinished bytes, 0 for none; close the oldest connections above the limit."""
        self.queued_bytes += count - self._held.get(holder, 0)
        if count:
            self._held[holder] = count
        else:
            self._held.pop(holder, None)
        limit = self._max_queued_bytes
        while limit is not None and self.queued_bytes > limit:
            oldest = next(iter(self._held))
            reason = (
                f"unfinished requests hold {counted(self.queued_bytes, 'byte')}, {limit:,} are the limit "
                f"(queued.max.request.bytes), and its own has been unfinished for longest"
            )
            self.queued_bytes -= self._held.pop(oldest)
            oldest.lose(reason)
