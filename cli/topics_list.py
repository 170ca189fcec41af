"""`lethe topics list`: names of topics, which are marked for deletion, and which are being reassigned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.options import (
    AsJson,
    BootstrapServer,
    BrokersTimeoutMs,
    CommandConfig,
    ExcludeInternal,
    Expressions,
    TopicNames,
    ZooKeeperOrBrokers,
    given,
)
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.ways import Way, through
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import demand_expression, topics_matching, topics_meant, unknown_topic

if TYPE_CHECKING:
    from lethe.admin.client_cluster import ClientCluster

NOT_SHOWN: Final = ("marked_for_deletion", "deletion_paused")
"""Fields that an answer through brokers cannot have."""


class ListedTopic(NamedTuple):
    """One line. None: unseen."""

    name: str
    is_marked: bool | None = False
    is_paused: bool | None = False
    is_moving: bool | None = False
    exists: bool = True
    moving_unseen: str | None = None
    """Why `is_moving` is None."""


def list_topics(
    zookeeper: ZooKeeperOrBrokers = None,
    bootstrap_server: BootstrapServer = None,
    names: Expressions = None,
    topic: TopicNames = None,
    exclude_internal: ExcludeInternal = False,
    brokers_timeout_ms: BrokersTimeoutMs = 30_000,
    client_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List topics, one a line. Exit code 1 where a TOPIC means none, 3 where reassignments, or other topics, are
    unseen."""
    expressions = given(names, topic)

    async def command() -> Answer:
        for expression in expressions:
            demand_expression(expression)
        return await through(
            Way(zookeeper, bootstrap_server, client_config, brokers_timeout_ms),
            lambda session: listing(session, expressions, exclude_internal=exclude_internal),
            lambda cluster: shown_listing(cluster, expressions, exclude_internal=exclude_internal),
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
    rows = [
        ListedTopic(
            name,
            is_marked=name in marked,
            is_paused=name in marked and is_paused,
            is_moving=None if name in moving.unseen else name in moving.names,
            moving_unseen=moving.unseen.get(name),
        )
        for name in names
    ]
    rows += [ListedTopic(name, exists=False, is_marked=True) for name in gone]
    return _answer(rows, Exit.NO if missing else Exit.UNREACHABLE if moving.unseen else Exit.OK)


async def shown_listing(
    cluster: ClientCluster, expressions: Sequence[str] = (), *, exclude_internal: bool = False
) -> Answer:
    """`listing` by what brokers show."""
    from lethe.admin.client_topics import moving_partitions, shown_topics, why_missing

    shown = await shown_topics(cluster)
    names = topics_meant(expressions or (".*",), shown.names, exclude_internal=exclude_internal)
    reasons = [reason for each in expressions if (reason := await why_missing(cluster, shown, each)) is not None]
    missing = [reason.text for reason in reasons]
    is_absent = any(not reason.may_exist for reason in reasons)
    moving = await moving_partitions(cluster)
    unseen = [f"whether topics are being reassigned is unseen: {moving.unseen}"] if moving.unseen else []
    if shown.hidden is not None and not all(each in shown.names for each in expressions or (".*",)):
        unseen.append(f"other topics may be hidden: {shown.hidden}")
    for line in (*missing, *unseen):
        note(f"lethe: {line}")
    note(f"not shown by brokers: {', '.join(NOT_SHOWN)}")
    rows = [ListedTopic(name, None, None, moving.has(name), moving_unseen=moving.unseen) for name in names]
    code = Exit.NO if is_absent else Exit.UNREACHABLE if unseen else Exit.OK
    return _answer(rows, code, not_shown=NOT_SHOWN)


def _answer(rows: Sequence[ListedTopic], code: Exit, not_shown: Sequence[str] = ()) -> Answer:
    data: list[JsonValue] = []
    for row in rows:
        body: dict[str, JsonValue] = {
            "topic": row.name,
            "exists": row.exists,
            "marked_for_deletion": row.is_marked,
            "deletion_paused": row.is_paused,
            "being_reassigned": row.is_moving,
            "reassignment_unseen": row.moving_unseen,
        }
        data.append({**body, "not_shown": [*not_shown]} if not_shown else body)
    return Answer(data, tuple(_line(row) for row in rows), exit=code)


def _line(row: ListedTopic) -> str:
    if not row.exists:
        return f"{row.name} - marked for deletion, but there is no such topic"
    remarks = []
    if row.is_marked:
        remarks.append("marked for deletion, which is paused" if row.is_paused else "marked for deletion")
    if row.is_moving is not False:
        remarks.append("being reassigned" if row.is_moving else "whether it is being reassigned is unseen")
    return f"{row.name} - {', '.join(remarks)}" if remarks else row.name
