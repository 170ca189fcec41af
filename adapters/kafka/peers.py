"""The other end of a connection, and what a handler returns for its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.security.authorizer import Authorizer, Client, Sender, host_address
from lethe.protocol.security.principals import ANONYMOUS, Principal


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int
    principal: Principal = ANONYMOUS
    """As whom it has authenticated."""
    authorizer: Authorizer | None = None
    """Its rights at the moment of a request. None: there is no authorizer, or no request yet."""

    @property
    def sender(self) -> Sender:
        """The client as an authorizer sees it."""
        try:
            host = host_address(self.host)
        except ValueError:
            host = self.host
        return Sender(Client(self.principal, host), self.authorizer)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Close(NamedTuple):
    """Returned by a handler instead of a response: close the connection. The reason goes to the log."""

    reason: str


Handler = Callable[[RequestHeader, Request, Peer], Awaitable[Response | Close]]
"""Answer one request. If it raises, the connection is closed and the error logged with its traceback."""


def peer_of(address: object) -> Peer:
    """Return the peer at a socket's address."""
    match address:
        case (str(host), int(port), *_):
            return Peer(host, port)
        case _:
            # The peer was gone before its address was read.
            return Peer("unknown", 0)
