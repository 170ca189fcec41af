"""Accepts connections of a listener with TLS, and makes their handshakes.

asyncio's servers keep the context that they were started with. Here each connection gets the context of its time, so
that a renewed certificate is used without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

from lethe.adapters.kafka.admission import Admission
from lethe.adapters.peers import Peer, accept
from lethe.adapters.properties import ConfigError
from lethe.adapters.security.handshakes import handshake_problem, shows_refusal
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.protocol.security.principals import PrincipalRefused

_LOG: Final = logging.getLogger(__name__)
_NO_ROOM_PAUSE_S: Final = 1.0
_CLOSING_S: Final = 1.0
"""Time for the peer's part in the end of TLS."""


class HandshakeFailed(Exception):
    """The client does not get in. The message names it, the reason and the remedy."""

    def __init__(self, message: str, reason: RefusalReason = RefusalReason.TLS) -> None:
        super().__init__(message)
        self.reason: Final = reason


class Opened(NamedTuple):
    """A connection after its handshake."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    peer: Peer


class TlsDoor:
    """The sockets of one listener. `run` accepts until it is cancelled; `close` in any case."""

    def __init__(self, server: asyncio.Server, accepted: Callable[[socket.socket], None]) -> None:
        """`server` has bound the addresses and does not serve them itself."""
        self._accepted = accepted
        self._has_room = True
        self._sockets = [socket.socket(fileno=os.dup(bound.fileno())) for bound in server.sockets]
        for each in self._sockets:
            each.setblocking(False)

    async def run(self) -> None:
        """Accept connections of all addresses."""
        async with asyncio.TaskGroup() as group:
            for each in self._sockets:
                group.create_task(self._accept(each), name="tls-door")

    def close(self) -> None:
        """Stop listening."""
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            accepted = await accept(listening, self._wait_for_room)
            self._has_room = True
            self._accepted(accepted)

    async def _wait_for_room(self, error: OSError) -> None:
        if self._has_room:
            remedy = "raise the limit (ulimit -n, LimitNOFILE=), or lower max.connections"
            _LOG.error("no further connection can be accepted: %s; %s", error, remedy)
        self._has_room = False
        await asyncio.sleep(_NO_ROOM_PAUSE_S)


async def shake_hands(accepted: socket.socket, admission: Admission, peer: Peer, chunk_bytes: int) -> Opened:
    """Return the connection with TLS, and its peer with the principal of its certificate. Raises HandshakeFailed."""
    assert admission.tls is not None
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + admission.max_login_ms / 1000
    reader = asyncio.StreamReader(limit=chunk_bytes, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        context = await asyncio.to_thread(admission.tls)
    except ConfigError as error:
        accepted.close()
        raise HandshakeFailed(f"{peer}: there is no usable certificate for it: {error}") from error
    except BaseException:
        accepted.close()
        raise
    try:
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=context,
            ssl_handshake_timeout=admission.max_login_ms / 1000,
            ssl_shutdown_timeout=_CLOSING_S,
        )
    except OSError as error:
        if loop.time() >= ends_s:
            raise HandshakeFailed(
                f"{peer}: it did not finish the handshake of TLS within {admission.max_login_ms} ms",
                RefusalReason.UNFINISHED,
            ) from error
        reason = RefusalReason.TLS if shows_refusal(error) else RefusalReason.UNFINISHED
        raise HandshakeFailed(handshake_problem(error, str(peer)), reason) from error
    try:
        principal = admission.certificate_principal(transport.get_extra_info("ssl_object"))
    except PrincipalRefused as error:
        transport.abort()
        raise HandshakeFailed(f"{peer}: {error}") from error
    return Opened(reader, asyncio.StreamWriter(transport, protocol, reader, loop), peer._replace(principal=principal))
