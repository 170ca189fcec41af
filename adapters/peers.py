"""The other end of a connection, and how listeners of all protocols accept connections."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from lethe.protocol.security.authorizer import Authorizer, Client, Sender, host_address
from lethe.protocol.security.principals import ANONYMOUS, Principal

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


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


async def accept(listening: socket.socket, make_room: Callable[[OSError], Awaitable[None]]) -> socket.socket:
    """Return the next connection. `make_room` is awaited where the process may open no more files, then it is tried
    again; a client that is gone already is left out."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno in _NO_ROOM:
                await make_room(error)
        else:
            return accepted


def peer_of_socket(accepted: socket.socket) -> Peer:
    """Return the other end of an accepted socket."""
    try:
        return peer_of(accepted.getpeername())
    except OSError:
        return peer_of(None)


def peer_of(address: object) -> Peer:
    """Return the peer at a socket's address."""
    match address:
        case (str(host), int(port), *_):
            return Peer(host, port)
        case _:
            # The peer was gone before its address was read.
            return Peer("unknown", 0)
