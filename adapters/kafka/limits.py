"""What the peers of Kafka servers may take of this process: connections, memory, time.

Each connection pays for what it takes, but many may pay a little each: thirty unfinished requests of 40 MB are 1.2 GB.
So what is unfinished is counted for all connections of the process together. Where it exceeds the limit, the connection
whose request began first is closed, until it does not. A request in good progress is complete within a moment; what has
been unfinished for longest comes from a peer that stands still, or that was meant to do harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lethe.protocol.counting import counted
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES

CHUNK_BYTES: Final = 128 * 1024
"""Read at once, and kept at most twice for a connection whose request is being answered."""
DEFAULT_MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one peer, and all together, may take."""

    max_request_bytes: int = DEFAULT_MAX_FRAME_BYTES
    """`socket.request.max.bytes`"""
    max_connections: int = 10_000
    """`max.connections`"""
    max_idle_ms: int = 600_000
    """`connections.max.idle.ms`: also how long a peer may take to read an answer."""
    max_queued_bytes: int = DEFAULT_MAX_QUEUED_BYTES
    """`queued.max.request.bytes`: of all unfinished requests together; 0 is no limit."""
    max_receive_ms: int = 30_000
    """`lethe.request.receive.timeout.ms`: from the first byte of a request to its last."""


class Holder(Protocol):
    """A connection with an unfinished request."""

    def lose(self, reason: str) -> None:
        """Close it for this reason."""


class ServerLoad:
    """What the servers of one process have open and hold. They share one, so that the limits are of all of them."""

    def __init__(self, limits: ServerLimits) -> None:
        self.connections = 0
        self.queued_bytes = 0
        """Of all unfinished requests."""
        # One request, and what may have arrived behind it, always has room.
        room_for_one = limits.max_request_bytes + 2 * CHUNK_BYTES
        self._max_queued_bytes = max(limits.max_queued_bytes, room_for_one) if limits.max_queued_bytes > 0 else None
        self._held: dict[Holder, int] = {}
        """Oldest unfinished request first."""

    def hold(self, holder: Holder, count: int) -> None:
        """The connection has so many bytes of an unfinished request now, 0 where it has none."""
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
