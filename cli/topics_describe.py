"""`lethe topics describe`: partitions, leaders, replicas and settings of topics, in kafka-topics.sh's form."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_plans import PartitionDescription, TopicDescription
from lethe.cli.answer import Answer
from lethe.cli.options import (
    AsJson,
    BootstrapServer,
    BrokersTimeoutMs,
    CommandConfig,
    ExcludeInternal,
    Expressions,
    IfExists,
    TopicNames,
    ZooKeeperOrBrokers,
    given,
)
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.ways import Way, through
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import demand_expression, topics_matching, topics_meant, unknown_topic
from lethe.protocol.vocabulary import LEADER_NONE, topic_id_to_text

if TYPE_CHECKING:
    from lethe.admin.client_cluster import ClientCluster

UnderReplicated = Annotated[
    bool,
    typer.Option("--under-replicated-partitions", help="Only partitions with fewer in-sync replicas than replicas."),
]
Unavailable = Annotated[
    bool, typer.Option("--unavailable-partitions", help="Only partitions whose leader is missing or not alive.")
]

NOT_SHOWN: Final = ("marked_for_deletion", "deletion_paused", "reassignment_pending")
"""Fields that an answer through brokers cannot have."""


class Filters(NamedTuple):
    """Selects topics and partitions. Selected partitions are shown without headings."""

    under_replicated: bool = False
    unavailable: bool = False
    exclude_internal: bool = False
    if_exists: bool = False


NO_FILTERS: Final = Filters()


def describe(
    zookeeper: ZooKeeperOrBrokers = None,
    bootstrap_server: BootstrapServer = None,
    names: Expressions = None,
    topic: TopicNames = None,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    exclude_internal: ExcludeInternal = False,
    if_exists: IfExists = False,
    brokers_timeout_ms: BrokersTimeoutMs = 30_000,
    client_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Describe topics: partitions, leaders, replicas, settings.

    Exit code 1 where one does not exist or cannot be understood, 3 where ZooKeeper refuses to show one or pending
    reassignments are unseen; with --bootstrap-server, which never shows those: 3 where topics may be hidden, or their
    settings or moves are unseen.

    Adding and Removing Replicas are of a reassignment under way; Pending Replicas are asked for, and not begun.
    """

    expressions = given(names, topic)

    async def command() -> Answer:
        for expression in expressions:
            demand_expression(expression)
        filters = Filters(under_replicated, unavailable, exclude_internal, if_exists)
        return await through(
            Way(zookeeper, bootstrap_server, client_config, brokers_timeout_ms),
            lambda session: description(session, expressions, filters),
            lambda cluster: shown_description(cluster, expressions, filters),
        )

    finish(command, as_json=as_json)


async def description(
    session: ZooKeeperSession, expressions: Sequence[str] = (), filters: Filters = NO_FILTERS
) -> Answer:
    """Return the topics of the expressions; without any, all. Raises Refusal where an expression matches none."""
    there = await topic_znodes.list_topics(session)
    names = topics_meant(expressions or (".*",), there.names, exclude_internal=filters.exclude_internal)
    for expression in () if filters.if_exists else expressions:
        if not topics_matching(expression, there.names, exclude_internal=filters.exclude_internal):
            raise Refusal(unknown_topic(expression, there.names))
    topics = await topic_znodes.describe(session, names, there.marked)
    is_paused = await deletions_paused(session) is not None
    brokers, _ = await topic_znodes.live_brokers(session)
    answer = _answer(topics, {int(broker.id) for broker in brokers}, filters, is_paused=is_paused)
    requests_unseen = [topic.requests_unseen for topic in topics if topic.requests_unseen is not None]
    lines = [f"Whether reassignments are pending is unseen: {why}" for why in requests_unseen[:1]]
    code = Exit.UNREACHABLE if requests_unseen and answer.exit is Exit.OK else answer.exit
    return replace(answer, lines=(*answer.lines, *lines), exit=code)


async def shown_description(
    cluster: ClientCluster, expressions: Sequence[str] = (), filters: Filters = NO_FILTERS
) -> Answer:
    """`description` by what brokers show."""
    from lethe.admin.client_topics import demand_shown, describe_shown, shown_topics

    shown = await shown_topics(cluster)
    names = topics_meant(expressions or (".*",), shown.names, exclude_internal=filters.exclude_internal)
    await demand_shown(cluster, shown, expressions, if_exists=filters.if_exists)
    topics = await describe_shown(cluster, shown, names)
    unseen = [f"settings of topic {each.name}: {each.config_unseen}" for each in topics if each.config_unseen]
    unseen += list(dict.fromkeys(f"reassignments: {each.moving_unseen}" for each in topics if each.moving_unseen))
    if shown.hidden is not None and not all(expression in shown.names for expression in expressions or (".*",)):
        unseen.append(f"other topics: {shown.hidden}")
    note(f"not shown by brokers: {', '.join(NOT_SHOWN)}")
    answer = _answer(topics, {int(each.id) for each in shown.answer.brokers}, filters, not_shown=NOT_SHOWN)
    code = Exit.UNREACHABLE if unseen and answer.exit is Exit.OK else answer.exit
    return replace(answer, lines=(*answer.lines, *(f"Unseen: {why}" for why in unseen)), exit=code)


def _answer(
    topics: Sequence[TopicDescription],
    live: Collection[int],
    filters: Filters,
    *,
    is_paused: bool = False,
    not_shown: Sequence[str] = (),
) -> Answer:
    filtered = filters.under_replicated or filters.unavailable
    lines: list[str] = []
    data: list[JsonValue] = []
    for topic in topics:
        partitions = [
            partition
            for partition in topic.partitions
            if not filtered
            or (filters.under_replicated and partition.is_under_replicated)
            or (filters.unavailable and partition.is_unavailable(live))
        ]
        if filtered and not partitions:
            continue
        if not filtered:
            lines.append(_head(topic, is_paused=is_paused))
        lines += [_line(topic, partition) for partition in partitions]
        row = _as_json(topic, partitions, live, is_paused=is_paused)
        data.append({**row, "not_shown": [*not_shown]} if not_shown else row)
    unreadable = [topic for topic in topics if topic.problem is not None]
    lines += [f"Topic: {topic.name}\tProblem: {topic.problem}" for topic in unreadable]
    return Answer(data, tuple(lines), exit=_code(unreadable))


def _code(unreadable: Sequence[TopicDescription]) -> Exit:
    if any(not topic.is_refused for topic in unreadable):
        return Exit.NO
    return Exit.UNREACHABLE if unreadable else Exit.OK


def _head(topic: TopicDescription, *, is_paused: bool) -> str:
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id is not None:
        fields.append(f"TopicId: {topic_id_to_text(topic.topic_id)}")
    is_seen = topic.are_partitions_seen
    fields.append(f"PartitionCount: {len(topic.partitions) if is_seen else 'unseen'}")
    fields.append(f"ReplicationFactor: {topic.replication_factor if is_seen else 'unseen'}")
    settings = ",".join(f"{name}={value}" for name, value in sorted(topic.config.items()))
    fields.append(f"Configs: {settings if topic.config_unseen is None else 'unseen'}")
    moving = sum(partition.assignment.is_being_reassigned for partition in topic.partitions)
    if moving:
        fields.append(f"BeingReassigned: {moving}")
    pending = sum(partition.pending is not None for partition in topic.partitions)
    if pending:
        fields.append(f"ReassignmentPending: {pending}")
    if topic.is_marked:
        fields.append("MarkedForDeletion: true")
    if topic.is_marked and is_paused:
        fields.append("DeletionPaused: true")
    return "\t".join(fields)


def _line(topic: TopicDescription, partition: PartitionDescription) -> str:
    is_seen = partition.state_unseen is None
    leader = "none" if partition.leader in (None, LEADER_NONE) else str(partition.leader)
    fields = [
        f"Topic: {topic.name}",
        f"Partition: {partition.partition}",
        f"Leader: {leader if is_seen else 'unseen'}",
        f"Replicas: {_ids(partition.assignment.replicas)}",
        f"Isr: {_ids(partition.isr) if is_seen else 'unseen'}",
    ]
    if partition.assignment.is_being_reassigned:
        fields.append(f"Adding Replicas: {_ids(partition.assignment.adding)}")
        fields.append(f"Removing Replicas: {_ids(partition.assignment.removing)}")
    if partition.pending is not None:
        fields.append(f"Pending Replicas: {_ids(partition.pending)}")
    return "\t" + "\t".join(fields + (["MarkedForDeletion: true"] if topic.is_marked else []))


def _ids(brokers: Collection[int]) -> str:
    return ",".join(str(broker) for broker in brokers)


def _as_json(
    topic: TopicDescription, partitions: list[PartitionDescription], live: Collection[int], *, is_paused: bool
) -> dict[str, JsonValue]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else topic_id_to_text(topic.topic_id),
        "marked_for_deletion": topic.is_marked,
        "deletion_paused": None if topic.is_marked is None else topic.is_marked and is_paused,
        "being_reassigned": None
        if topic.moving_unseen is not None
        else any(partition.assignment.is_being_reassigned for partition in topic.partitions),
        "reassignment_pending": None
        if topic.requests_unseen is not None or not topic.are_partitions_seen
        else any(partition.pending is not None for partition in topic.partitions),
        "partition_count": len(topic.partitions) if topic.are_partitions_seen else None,
        "replication_factor": topic.replication_factor if topic.are_partitions_seen else None,
        "config": None
        if topic.config_unseen is not None
        else {name: topic.config[name] for name in sorted(topic.config)},
        "problem": topic.problem,
        "requests_unseen": topic.requests_unseen,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": None if partition.leader in (None, LEADER_NONE) else partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": [*partition.assignment.replicas],
                "isr": [*partition.isr],
                "adding_replicas": None if topic.moving_unseen is not None else [*partition.assignment.adding],
                "removing_replicas": None if topic.moving_unseen is not None else [*partition.assignment.removing],
                "pending_replicas": None if partition.pending is None else [*partition.pending],
                "state_unseen": partition.state_unseen,
                "under_replicated": partition.is_under_replicated if partition.state_unseen is None else None,
                "unavailable": partition.is_unavailable(live) if partition.state_unseen is None else None,
            }
            for partition in partitions
        ],
    }
