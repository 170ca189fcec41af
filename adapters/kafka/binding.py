"""Addresses that are listened on, and messages for those that cannot be."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted."""


def why_not_bound(host: str | None, port: int, error: Exception) -> str:
    """Return the failure and what to change in the configuration."""
    where = f"cannot listen on {host or 'all interfaces'}, port {port}"
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"{where}: the port is in use; stop what listens there or choose another port in `listeners`"
        # From Python 3.13 on, asyncio skips addresses that this machine lacks, and then raises without errno.
        case errno.EADDRNOTAVAIL | None if isinstance(error, OSError):
            return f"{where}: this machine does not have that address; correct the host in `listeners`"
        case errno.EACCES:
            return f"{where}: no permission; ports below 1024 need privileges, choose a higher one in `listeners`"
        case _:
            return f"{where}: {getattr(error, 'strerror', None) or error}"


def listen_at_once(server: asyncio.Server) -> None:
    """Queue connections for a server that is only bound. Until then they are refused, and the kernel may give the port
    to another process as a free one. Raises OSError."""
    for bound in server.sockets:
        with socket.socket(fileno=os.dup(bound.fileno())) as duplicate:
            duplicate.listen(BACKLOG)
