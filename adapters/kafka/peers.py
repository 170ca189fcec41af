"""What a handler returns for the requests of a peer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lethe.adapters.peers import Peer
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.queries import Request, Response


class Close(NamedTuple):
    """Returned by a handler instead of a response: close the connection. The reason goes to the log."""

    reason: str


Handler = Callable[[RequestHeader, Request, Peer], Awaitable[Response | Close]]
"""Answer one request. If it raises, the connection is closed and the error logged with its traceback."""
