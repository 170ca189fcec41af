"""State of one connection of a Kafka server, and why one ends."""

from __future__ import annotations

import asyncio
from typing import Final

from lethe.adapters.kafka.admission import OPEN, Admission
from lethe.adapters.peers import Peer
from lethe.adapters.security.refusal_counts import RefusalReason


class PeerClosed(Exception):
    """The peer has closed its end."""


class PeerLeft(Exception):
    """The connection has ended while its request waited."""


class Unfinished(Exception):
    """A request was not complete in time."""


class NotAdmitted(Exception):
    """The client is refused: its login, or what it asks before. The message says why."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: Final = reason


class NotForwarded(Exception):
    """The client's requests are not forwarded to a broker. The message says why, and what to do."""


class Connection:
    """State of one connection."""

    __slots__ = (
        "aborted",
        "admission",
        "begun_s",
        "busy",
        "closing",
        "decoding",
        "listener",
        "lost_because",
        "peer",
        "reader",
        "writer",
    )

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: Peer,
        listener: str,
        admission: Admission = OPEN,
    ) -> None:
        self.listener = listener
        self.admission = admission
        self.lost_because: str | None = None
        """The server's reason for ending it, if the peer did not cause the end."""
        self.reader = reader
        self.writer = writer
        self.peer = peer
        self.busy = False
        """A request is with the handler, or its response is being written."""
        self.closing = False
        self.aborted = asyncio.Event()
        self.decoding: asyncio.Future[None] | None = None
        """The turn that its next request waits for."""
        self.begun_s: float | None = None
        """When the first byte of an incomplete request arrived, on the event loop's clock."""

    def abort(self) -> None:
        self.closing = True
        self.aborted.set()
        if self.decoding is not None:
            self.decoding.cancel()
        self.writer.transport.abort()

    def lose(self, reason: str) -> None:
        """End it for a reason of the server."""
        self.lost_because = reason
        self.abort()
