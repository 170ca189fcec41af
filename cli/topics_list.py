"""`lethe topics list`: names of topics, which are marked for deletion, and which are being reassigned."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, ExcludeInternal, Expressions, TopicNames, ZooKeeper, given
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import demand_expression, topics_matching, topics_meant, unknown_topic


def list_topics(
    zookeeper: ZooKeeper,
    names: Expressions = None,
    topic: TopicNames = None,
    exclude_internal: ExcludeInternal = False,
    as_json: AsJson = False,
) -> None:
    """List topics, one a line. Exit code 1 where a TOPIC means none, 3 where reassignments are unseen."""
    expressions = given(names, topic)

    async def command() -> Answer:
        for expression in expressions:
            demand_expression(expression)
        return await with_session(
            zookeeper, lambda session: listing(session, expressions, exclude_internal=exclude_internal)
        )

    finish(command, as_json=as_json)


async def listing(
    session: ZooKeeperSession, expressions: Sequence[str] = (), *, exclude_internal: bool = False
) -> Answer:
    """Return the topics of the expressions (none: all), and marks of topics that are gone."""
    there = await topic_znodes.list_topics(session)
    is_paused = await deletions_paused(session) is not None
    meant = expressions or (".*",)
    names = topics_meant(meant, there.names, exclude_internal=exclude_internal)
    marked = set(there.marked)
    moving = await topic_znodes.being_reassigned(session, names)
    gone = topics_meant(meant, [name for name in there.marked if name not in there.names])
    known = (*there.names, *there.marked)
    missing = [each for each in expressions if not topics_matching(each, known)]
    for expression in missing:
        note(f"lethe: {unknown_topic(expression, known)}")
    for unseen in dict.fromkeys(moving.unseen.values()):
        note(f"lethe: {unseen}")
    mark = "marked for deletion, which is paused" if is_paused else "marked for deletion"
    lines = []
    for name in names:
        remarks = [mark] * (name in marked) + ["being reassigned"] * (name in moving.names)
        remarks += ["whether it is being reassigned is unseen"] * (name in moving.unseen)
        lines.append(f"{name} - {', '.join(remarks)}" if remarks else name)
    lines += [f"{name} - marked for deletion, but there is no such topic" for name in gone]
    code = Exit.NO if missing else Exit.UNREACHABLE if moving.unseen else Exit.OK
    data: list[JsonValue] = [
        {
            "topic": name,
            "exists": name not in gone,
            "marked_for_deletion": name in marked,
            "deletion_paused": name in marked and is_paused and name not in gone,
            "being_reassigned": None if name in moving.unseen else name in moving.names,
        }
        for name in (*names, *gone)
    ]
    return Answer(data, tuple(lines), exit=code)
