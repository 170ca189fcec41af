"""`lethe topics list`: the names of the topics, and which of them are marked for deletion."""

from __future__ import annotations

from adapters import topic_admin
from adapters.zookeeper.interface import ZooKeeperSession
from cli.answer import Answer
from cli.options import AsJson, ExcludeInternal, Expression, ZooKeeper
from cli.running import finish
from cli.zookeeper_access import with_session
from protocol.journal import JsonValue
from protocol.topic_names import topics_matching


def list_topics(
    zookeeper: ZooKeeper, topic: Expression = None, exclude_internal: ExcludeInternal = False, as_json: AsJson = False
) -> None:
    """List topics, one a line."""
    finish(
        lambda: with_session(zookeeper, lambda session: listing(session, topic, exclude_internal=exclude_internal)),
        as_json=as_json,
    )


async def listing(session: ZooKeeperSession, expression: str | None, *, exclude_internal: bool = False) -> Answer:
    """The topics that the expression means, and the marks of topics that are no longer there."""
    there = await topic_admin.list_topics(session)
    meant = ".*" if expression is None else expression
    names = topics_matching(meant, there.names, exclude_internal=exclude_internal)
    marked = set(there.marked)
    gone = topics_matching(meant, [name for name in there.marked if name not in there.names])
    lines = [f"{name} - marked for deletion" if name in marked else name for name in names]
    lines += [f"{name} - marked for deletion, but there is no such topic" for name in gone]
    data: list[JsonValue] = [{"topic": name, "exists": True, "marked_for_deletion": name in marked} for name in names]
    data += [{"topic": name, "exists": False, "marked_for_deletion": True} for name in gone]
    return Answer(data, tuple(lines))
