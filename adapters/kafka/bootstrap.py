"""Bootstrap servers: addresses of brokers, any of which leads to the cluster.

written                 configured protocol    server
----------------------  ---------------------  --------------------------------------
b1:9093                 any                    b1:9093
SSL://b1:9093           SSL                    b1:9093, as Kafka's clients take it too
SSL://b1:9093           any other              refused
INTERNAL://b1:9093      any                    refused: the name says no protocol
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from lethe.adapters.kafka.client import ClientError, ConnectionFailed, KafkaConnection, ProtocolError
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol

CHECK_MS: Final = 5_000
"""Time for each server."""
_SERVER: Final = re.compile(r"(?:([A-Za-z0-9_-]+)://)?((\[[0-9A-Fa-f:.%]+\]|[^\s:,/\[\]]+):([0-9]{1,5}))")
_FORM: Final = "write host:port[,host:port]"


def parse_server(text: str, protocol: SecurityProtocol) -> str:
    """Return the server as `host:port` or `[IPv6]:port`. `protocol`: the configured one. Raises Unusable."""
    match = _SERVER.fullmatch(text)
    if match is None or not 0 < int(match[4]) < 65_536:
        raise Unusable(f"{text!r} is no host:port", _FORM)
    named, server = match[1], match[2]
    if named is None or named.upper() == protocol.name:
        return server
    if named.upper() not in SecurityProtocol.__members__:
        raise Unusable(f"{text!r} names a listener, which does not say its protocol", f"write {server}")
    raise Unusable(
        f"{text!r} is a listener of {named.upper()}, and the configured security protocol is {protocol.name}",
        "name a listener of that protocol, or configure the other one (security.protocol)",
    )


def parse_servers(
    text: str, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, option: str = "--bootstrap-server"
) -> tuple[str, ...]:
    """Return the servers in the text, each once. Raises ValueError naming the option and the wrong server."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{option} names no broker: {_FORM}")
    try:
        return tuple(dict.fromkeys(parse_server(part, protocol) for part in parts))
    except Unusable as error:
        raise ValueError(f"{option}: {error}") from error


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
    reasons = []
    for server in servers:
        host, port = _address(server)
        endpoint = Endpoint(reach.listener or "BOOTSTRAP", host, port, reach.protocol)
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
