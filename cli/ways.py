"""The two ways of a command to a cluster: through ZooKeeper, or through brokers as any client.

    --zookeeper           on the command line, or LETHE_ZOOKEEPER_CONNECT
    --bootstrap-server    on the command line, or LETHE_BOOTSTRAP_SERVER

The command line has precedence over the environment; two on one level are refused. The answer says which way was
used: a line on standard error, and "through" in each object of the JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.broker_access import reach_from
from lethe.cli.render import note
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.journal import JsonValue

if TYPE_CHECKING:
    from typer._click.core import Context

    from lethe.admin.client_cluster import ClientCluster

ZOOKEEPER: Final = "zookeeper"
BROKERS: Final = "bootstrap_server"
_IN_ZOOKEEPER: Final = "is only known in ZooKeeper, or written there: give --zookeeper, or leave it out"
NEEDS_ZOOKEEPER: Final[Mapping[str, str]] = {
    "start_index": "is for --zookeeper, where the command places replicas: give --replica-assignment instead",
    "disable_rack_aware": "is for --zookeeper; through brokers the controller places replicas, by its own rule: give "
    "--replica-assignment instead",
    **dict.fromkeys(
        (
            *("unreadable", "owe", "plan", "allow_writes", "accept_unseen", "grace", "from_candidates", "protect"),
            *("max_age", "at_once", "rate", "allow_unasked"),
        ),
        _IN_ZOOKEEPER,
    ),
}
"""Options without a meaning through brokers, by parameter, with the remedy."""
NEEDS_BROKERS: Final[Mapping[str, str]] = dict.fromkeys(
    ("client_config", "brokers_timeout_ms"), "is for --bootstrap-server, and no broker is asked here: leave it out"
)
"""Options without a meaning through ZooKeeper."""


def choose_way(ctx: Context) -> None:
    """Leave one of the two ways among the parameters. Raises BadParameter where both or none are given, or an option
    that has no meaning there. Commands with one way are left as they are."""
    if not {ZOOKEEPER, BROKERS} <= ctx.params.keys():
        return
    way = chosen_way(ctx)
    ctx.params[BROKERS if way == ZOOKEEPER else ZOOKEEPER] = None
    for name, why in (NEEDS_BROKERS if way == ZOOKEEPER else NEEDS_ZOOKEEPER).items():
        if name in ctx.params and _source(ctx, name) == "COMMANDLINE":
            raise typer.BadParameter(f"{_option(ctx, name)} {why}", ctx=ctx)


def chosen_way(ctx: Context) -> str:
    """Return the parameter that says where the cluster is. Raises BadParameter where that is not one."""
    sources = {name: _source(ctx, name) for name in (ZOOKEEPER, BROKERS) if ctx.params.get(name) is not None}
    typed = [name for name, source in sources.items() if source == "COMMANDLINE"]
    if len(typed) == 2:
        raise typer.BadParameter(
            "--zookeeper and --bootstrap-server are two ways to the same cluster: give one of them", ctx=ctx
        )
    if not typed and len(sources) == 2:
        raise typer.BadParameter(
            "LETHE_ZOOKEEPER_CONNECT and LETHE_BOOTSTRAP_SERVER are both set: give --zookeeper or --bootstrap-server, "
            "or unset one",
            ctx=ctx,
        )
    if not sources:
        raise typer.BadParameter(
            "where is the cluster? Give --zookeeper HOST:PORT, or --bootstrap-server HOST:PORT", ctx=ctx
        )
    return next(iter(typed or sources))


def demand_zookeeper_only(ctx: Context, args: list[str]) -> None:
    """Raise BadParameter for --bootstrap-server at a command that only works through ZooKeeper."""
    names = {param.name for param in ctx.command.params}
    is_given = any(each == "--bootstrap-server" or each.startswith("--bootstrap-server=") for each in args)
    if is_given and ZOOKEEPER in names and BROKERS not in names:
        raise typer.BadParameter(
            f"`{ctx.command_path}` needs --zookeeper: what it reads or writes is not known to brokers", ctx=ctx
        )


def _source(ctx: Context, name: str) -> str:
    source = ctx.get_parameter_source(name)
    return "" if source is None else source.name


def _option(ctx: Context, name: str) -> str:
    return next(max(param.opts, key=len) for param in ctx.command.params if param.name == name)


@dataclass(frozen=True, slots=True)
class Way:
    """How a command reaches the cluster. Exactly one of `zookeeper` and `brokers` is given."""

    zookeeper: str | None
    brokers: str | None
    client_config: Path | None = None
    timeout_ms: int = 30_000
    """For all that is asked of brokers."""
    quiet: bool = False
    """Do not say which way was used."""


async def through(
    way: Way,
    zookeeper: Callable[[ZooKeeperSession], Awaitable[Answer]],
    brokers: Callable[[ClientCluster], Awaitable[Answer]],
) -> Answer:
    """Run the command by its way; the answer says which. Raises ValueError before the cluster is asked, and Refusal
    where it cannot be reached."""
    if way.brokers is not None:
        return _told(await _with_brokers(way, way.brokers, brokers), "brokers")

    async def command(session: ZooKeeperSession) -> Answer:
        if not way.quiet:
            note(f"through ZooKeeper ({way.zookeeper})")
        return await zookeeper(session)

    return _told(await with_session(way.zookeeper or "", command), "zookeeper")


async def _with_brokers(way: Way, text: str, command: Callable[[ClientCluster], Awaitable[Answer]]) -> Answer:
    from lethe.adapters.kafka.bootstrap import parse_servers
    from lethe.adapters.kafka.client import ClientError, ProtocolError
    from lethe.admin.client_cluster import open_cluster

    reach = reach_from(way.client_config)
    servers = parse_servers(text, reach.protocol)
    try:
        async with open_cluster(reach, servers, timeout_ms=way.timeout_ms) as cluster:
            if not way.quiet:
                note(f"through brokers ({cluster.peer})")
            return await command(cluster)
    except (ClientError, ProtocolError) as error:
        raise Refusal(f"{error} (--bootstrap-server {text})", Exit.UNREACHABLE) from error


def _told(answer: Answer, way: str) -> Answer:
    data: Any = answer.data
    rows = data if isinstance(data, list) else [data]
    marked: list[JsonValue] = [{**row, "through": way} if isinstance(row, dict) else row for row in rows]
    return replace(answer, data=marked if isinstance(data, list) else marked[0])
