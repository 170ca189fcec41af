"""Completion of topic names in shells: asks the cluster of the line or the environment, briefly.

A shell shows whatever is written meanwhile, so nothing is written: no name is offered where the cluster cannot be
asked, does not answer in LIMIT_S, or the line names two clusters.

A shell inserts what is offered into the line, so only names that a topic may have are offered, whatever a server says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from lethe.cli.ways import ZOOKEEPER, chosen_way
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.vocabulary import topic_name_problem

LIMIT_S: Final = 1.0
"""For all that is asked, beside the time that imports take."""
MOST: Final = 200
"""Names that are offered; a shell asks before it shows more."""


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose names begin so, without those that the line has already; none where that fails."""
    given = {str(name) for values in (ctx.params.get("names"), ctx.params.get("topic")) for name in values or ()}
    with _silence():
        try:
            found = asyncio.run(_names(ctx))
        except Exception:  # noqa: BLE001 -- a shell has no place for errors, whatever they are
            return []
    fitting = (name for name in found if name.startswith(incomplete) and name not in given)
    return [name for name in fitting if topic_name_problem(name) is None][:MOST]


async def _names(ctx: typer.Context) -> tuple[str, ...]:
    where = str(ctx.params[chosen_way(ctx)])
    if chosen_way(ctx) == ZOOKEEPER:
        return await _of_zookeeper(where)
    config = ctx.params.get("client_config") or ctx.params.get("command_config")
    return await _of_brokers(where, Path(str(config)) if config else None)


async def _of_brokers(text: str, client_config: Path | None) -> tuple[str, ...]:
    from lethe.adapters.kafka.bootstrap import parse_servers
    from lethe.admin.client_cluster import open_cluster
    from lethe.cli.broker_access import reach_from
    from lethe.protocol.kafka.codec import preload

    reach = reach_from(client_config)
    servers = parse_servers(text, reach.protocol)
    preload(ApiKey.API_VERSIONS, ApiKey.METADATA)
    async with asyncio.timeout(LIMIT_S), open_cluster(reach, servers, timeout_ms=int(LIMIT_S * 1000)) as cluster:
        answer = await cluster.metadata()
    return tuple(sorted(str(each.name) for each in answer.topics if each.name is not None))


async def _of_zookeeper(connect: str) -> tuple[str, ...]:
    from lethe.admin.topic_znodes import list_topics
    from lethe.cli.zookeeper_access import open_for_command

    opening = open_for_command(connect)
    async with asyncio.timeout(LIMIT_S), opening as session:
        return (await list_topics(session)).names


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let nothing reach standard error, by whatever library."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
            os.dup2(nothing.fileno(), 2)
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
