"""Limits on connections, memory and time that the peers of Kafka servers may take.

Many connections may add up: thirty unfinished requests of 40 MB are 1.2 GB. So all unfinished requests of the process
have one common limit. Above it, the connection whose request began first is closed, until the rest is below the limit.
A normal request is complete within a moment; the oldest one belongs to a peer that has stalled, or to an attacker.

    limit 256 MB, unfinished requests by age: A 100 MB, B 90 MB, C 80 MB (270 MB)  ->  A is closed, 170 MB remain
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lethe.protocol.counting import counted
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES

CHUNK_BYTES: Final = 128 * 1024
"""Bytes of one read; a connection whose request is being answered holds at most twice this."""
DEFAULT_MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024


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
