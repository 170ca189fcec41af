"""Asks the brokers of `lethe pipeline stream --kafka` before Spark starts, which would take minutes to give up, and
after it has given up, since Spark names neither broker nor remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from lethe.adapters.kafka.aiokafka_options import why_unreachable
from lethe.adapters.kafka.bootstrap import CHECK_MS, connect_once, open_first, parse_servers
from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.adapters.properties import ConfigError
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.broker_access import reach_from
from lethe.protocol.vocabulary import SecurityProtocol

CLIENT_ID: Final = "lethe-pipeline"


def require_broker(bootstrap: str, protocol: SecurityProtocol, *, timeout_ms: int = CHECK_MS) -> None:
    """Return once one of the servers answers; all are asked at once. Each has `timeout_ms` to accept the connection,
    and as long again to answer.

    With TLS or SASL it only has to accept a connection, since Spark's consumers log in on their own.
    Raises ValueError for a wrong address, and Refusal that says of each server why it does not answer.
    """
    servers = parse_servers(bootstrap, protocol, "--kafka")
    reasons = asyncio.run(_failures(servers, protocol is not SecurityProtocol.PLAINTEXT, timeout_ms))
    if len(reasons) == len(servers):
        remedy = "start one of them, or name others (--kafka HOST:PORT,HOST:PORT)"
        raise Refusal(f"no broker of --kafka answers: {'; '.join(reasons)}; {remedy}", Exit.UNREACHABLE)


def why_refused(bootstrap: str, command_config: Path | None) -> str:
    """Return a clause with what the brokers say to Lethe's own client with the same file; empty if they let it in, or
    if only Java can use the file."""
    if command_config is None:
        return ""
    try:
        reach = load_client_reach(command_config)
    except ConfigError:
        return ""
    why = asyncio.run(why_unreachable(reach, parse_servers(bootstrap, reach.protocol, "--kafka"), CLIENT_ID))
    return "" if why is None else f" ({why})"


async def _failures(servers: tuple[str, ...], is_secured: bool, timeout_ms: int) -> list[str]:
    """Return why servers do not answer, in their order; at most some of them where one answers."""
    asked = [asyncio.create_task(_ask(server, is_secured, timeout_ms), name=f"ask-{server}") for server in servers]
    try:
        waiting = {*asked}
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() is None for task in done):
                break
        return [reason for task in asked if task.done() and (reason := task.result()) is not None]
    finally:
        for task in asked:
            task.cancel()


async def _ask(server: str, is_secured: bool, timeout_ms: int) -> str | None:
    """Return why the server does not answer; None if it does."""
    try:
        if is_secured:
            await connect_once(server, timeout_ms)
        else:
            opened = await open_first(
                reach_from(None), (server,), CLIENT_ID, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
            )
            await opened.close()
    except (ClientError, ProtocolError) as error:
        return str(error)
    return None
