"""Bootstrap servers: addresses of brokers, any of which leads to the cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from lethe.adapters.kafka.client import ClientError, ConnectionFailed, KafkaConnection, ProtocolError
from lethe.adapters.kafka.reach import BrokerReach
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES
from lethe.protocol.vocabulary import Endpoint

CHECK_MS: Final = 5_000
"""Time for each server."""
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:,/\[\]]+):([0-9]{1,5})")


def is_server(text: str) -> bool:
    """Return True for `host:port` and `[IPv6]:port`."""
    match = _SERVER.fullmatch(text)
    return match is not None and 0 < int(match[2]) < 65_536


def parse_servers(text: str, option: str = "--bootstrap-server") -> tuple[str, ...]:
    """Return the servers of `host:port[,host:port]`, each once. Raises ValueError naming the option and the wrong
    server."""
    servers = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not servers:
        raise ValueError(f"{option} names no broker: write host:port[,host:port]")
    for server in servers:
        if not is_server(server):
            raise ValueError(f"{option}: {server!r} is no host:port; write host:port[,host:port]")
    return servers


async def open_first(
    reach: BrokerReach,
    servers: Sequence[str],
    client_id: str,
    *,
    connect_timeout_ms: int = CHECK_MS,
    request_timeout_ms: int = CHECK_MS,
    max_response_bytes: int = DEFAULT_MAX_FRAME_BYTES,
) -> KafkaConnection:
    """Return a connection to the first server that tells its versions. The reach has one security protocol.

    Raises ConnectionFailed that says of each server why it cannot be reached.
    """
    ((protocol, _),) = reach.security.items()
    reasons = []
    for server in servers:
        host, port = _address(server)
        endpoint = Endpoint(reach.listener or "BOOTSTRAP", host, port, protocol)
        try:
            opened = await reach.open(
                endpoint,
                client_id,
                connect_timeout_ms=connect_timeout_ms,
                request_timeout_ms=request_timeout_ms,
                max_response_bytes=max_response_bytes,
            )
        except (ClientError, ProtocolError) as error:
            reasons.append(str(error))
            continue
        try:
            await opened.offered_versions(min(connect_timeout_ms, request_timeout_ms))
        except (ClientError, ProtocolError) as error:
            reasons.append(str(error))
            await opened.close()
        except BaseException:
            await opened.close()
            raise
        else:
            return opened
    raise ConnectionFailed("; ".join(reasons))


async def connect_once(server: str, timeout_ms: int = CHECK_MS) -> None:
    """Open a connection to the server and close it. Raises ConnectionFailed that says why it cannot be reached."""
    host, port = _address(server)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise ConnectionFailed(f"{server} did not accept a connection within {timeout_ms} ms") from error
    except OSError as error:
        raise ConnectionFailed(f"cannot connect to {server}: {error.strerror or error}") from error
    writer.close()


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
