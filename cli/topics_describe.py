"""`lethe topics describe`: partitions, leaders, replicas and settings of topics, in kafka-topics.sh's form."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_plans import PartitionDescription, TopicDescription
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, ExcludeInternal, Expressions, IfExists, TopicNames, ZooKeeper, given
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import demand_expression, topics_matching, topics_meant, unknown_topic
from lethe.protocol.vocabulary import LEADER_NONE, topic_id_to_text

UnderReplicated = Annotated[
    bool,
    typer.Option("--under-replicated-partitions", help="Only partitions with fewer in-sync replicas than replicas."),
]
Unavailable = Annotated[
    bool, typer.Option("--unavailable-partitions", help="Only partitions whose leader is missing or not alive.")
]


def describe(
    zookeeper: ZooKeeper,
    names: Expressions = None,
    topic: TopicNames = None,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    exclude_internal: ExcludeInternal = False,
    if_exists: IfExists = False,
    as_json: AsJson = False,
) -> None:
    """Describe topics: partitions, leaders, replicas, settings.

    Exit code 1 where one does not exist or cannot be understood, 3 where pending reassignments are unseen.

    Adding and Removing Replicas are of a reassignment under way; Pending Replicas are asked for, and not begun.
    """

    expressions = given(names, topic)

    async def command() -> Answer:
        for expression in expressions:
            demand_expression(expression)
        return await with_session(
            zookeeper,
            lambda session: description(
                session,
                expressions,
                under_replicated=under_replicated,
                unavailable=unavailable,
                exclude_internal=exclude_internal,
                if_exists=if_exists,
            ),
        )

    finish(command, as_json=as_json)


async def description(
    session: ZooKeeperSession,
    expressions: Sequence[str] = (),
    *,
    under_replicated: bool = False,
    unavailable: bool = False,
    exclude_internal: bool = False,
    if_exists: bool = False,
) -> Answer:
    """Return the topics of the expressions; without any, all. A filter selects partitions, which are shown without
    headings. Raises Refusal where an expression matches none."""
    there = await topic_znodes.list_topics(session)
    names = topics_meant(expressions or (".*",), there.names, exclude_internal=exclude_internal)
    for expression in () if if_exists else expressions:
        if not topics_matching(expression, there.names, exclude_internal=exclude_internal):
            raise Refusal(unknown_topic(expression, there.names))
    topics = await topic_znodes.describe(session, names, there.marked)
    is_paused = await deletions_paused(session) is not None
    brokers, _ = await topic_znodes.live_brokers(session)
    live = {int(broker.id) for broker in brokers}
    filtered = under_replicated or unavailable
    lines: list[str] = []
    data: list[JsonValue] = []
    for topic in topics:
        partitions = [
            partition
            for partition in topic.partitions
            if not filtered
            or (under_replicated and partition.is_under_replicated)
            or (unavailable and partition.is_unavailable(live))
        ]
        if filtered and not partitions:
            continue
        if not filtered:
            lines.append(_head(topic, is_paused=is_paused))
        lines += [_line(topic, partition) for partition in partitions]
        data.append(_as_json(topic, partitions, live, is_paused=is_paused))
    unreadable = [topic for topic in topics if topic.problem is not None]
    lines += [f"Topic: {topic.name}\tProblem: {topic.problem}" for topic in unreadable]
    requests_unseen = [topic.requests_unseen for topic in topics if topic.requests_unseen is not None]
    lines += [f"Whether reassignments are pending is unseen: {why}" for why in requests_unseen[:1]]
    code = Exit.NO if unreadable else Exit.UNREACHABLE if requests_unseen else Exit.OK
    return Answer(data, tuple(lines), exit=code)


def _head(topic: TopicDescription, *, is_paused: bool) -> str:
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id is not None:
        fields.append(f"TopicId: {topic_id_to_text(topic.topic_id)}")
    fields.append(f"PartitionCount: {len(topic.partitions)}")
    fields.append(f"ReplicationFactor: {topic.replication_factor}")
    fields.append("Configs: " + ",".join(f"{name}={value}" for name, value in sorted(topic.config.items())))
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
) -> JsonValue:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else topic_id_to_text(topic.topic_id),
        "marked_for_deletion": topic.is_marked,
        "deletion_paused": topic.is_marked and is_paused,
        "being_reassigned": any(partition.assignment.is_being_reassigned for partition in topic.partitions),
        "reassignment_pending": None
        if topic.requests_unseen is not None
        else any(partition.pending is not None for partition in topic.partitions),
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "config": {name: topic.config[name] for name in sorted(topic.config)},
        "problem": topic.problem,
        "requests_unseen": topic.requests_unseen,
        "partitions": [
            {
                "partition": partition.partition,
                "leader": None if partition.leader in (None, LEADER_NONE) else partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": [*partition.assignment.replicas],
                "isr": [*partition.isr],
                "adding_replicas": [*partition.assignment.adding],
                "removing_replicas": [*partition.assignment.removing],
                "pending_replicas": None if partition.pending is None else [*partition.pending],
                "state_unseen": partition.state_unseen,
                "under_replicated": partition.is_under_replicated if partition.state_unseen is None else None,
                "unavailable": partition.is_unavailable(live) if partition.state_unseen is None else None,
            }
            for partition in partitions
        ],
    }
