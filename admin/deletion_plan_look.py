"""Looks at topics for the plan of their deletion, and marks them all at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.candidates_look import CurrentTopic, look_now
from lethe.admin.controller_identity import acting_controller
from lethe.admin.debt_forecast import DebtForecast, forecast
from lethe.admin.deletion_plan import (
    UNREAD,
    PlannedDebt,
    PlannedGroup,
    PlannedPartition,
    PlannedTopic,
    TopicDeletionPlan,
)
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.hold_causes import held_back
from lethe.admin.last_writes import ask_last_writes
from lethe.admin.outcomes import Outcome, outcome_of
from lethe.admin.topic_usage import LeaderQuery, TopicUsage, ask_readers, connector
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import Broker, BrokerId, TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Exists,
    GetData,
    MultiDone,
    MultiFailed,
    Operation,
    Present,
    ReadOutcome,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import DeletionOrders, MalformedZnode, encode_deletion_marker
from lethe.survey.brokers import AskAbout
from lethe.survey.causes import ObservedCause, sentence
from lethe.survey.znodes import ZnodeUnreadable, topic_of
from lethe.survey.zookeeper import read_cluster_id

NO_ORDERS: Final = DeletionOrders()
_CHANGED: Final = "has changed while the topics were to be marked"
_CREATED_AGAIN: Final = (
    "was created again, or brought back from the trash, while the topics were marked, so the mark names another znode"
)
_KEPT: Final = "a controller of Lethe drops the mark, which names the planned topic, and one of Kafka deletes the topic"
_DELETED: Final = "a controller of Kafka deletes the topic, whichever one the mark names"


async def look(session: ZooKeeperSession, reach: BrokerReach, names: Sequence[str], ask: AskAbout) -> TopicDeletionPlan:
    """Return the plan for these topics by the present state, without those that do not exist. `ask` is for debts."""
    now_ms = time.time_ns() // 1_000_000
    found, unread, brokers = await look_now(session, reach, names)
    leaders = _leaders(found.values())
    usage = await ask_readers(
        session, reach, brokers, {each: LeaderQuery(led, now_ms) for each, led in leaders.items()}
    )
    writes = await ask_last_writes(
        brokers, {each: led for each, led in leaders.items() if led >= 0}, now_ms, connector(reach)
    )
    debts = await forecast(session, sorted(found), ask)
    blockers, unseen = await _blockers(session)
    topics = (_topic(topic, usage, writes, brokers) for _, topic in sorted(found.items()))
    unseen += tuple(f"{name} {UNREAD}: {why}" for name, why in sorted(unread.items()))
    unseen += tuple(f"which brokers have {name}: {why}" for name, why in sorted(debts.unseen.items()))
    registered = tuple(sorted(int(broker.id) for broker in brokers))
    return TopicDeletionPlan(
        await read_cluster_id(session), now_ms, registered, tuple(topics), _debts(debts), blockers, unseen
    )


def _leaders(topics: Iterable[CurrentTopic]) -> dict[TopicPartition, int]:
    """Return the leader of each partition; -1 where there is none."""
    return {
        TopicPartition(topic.description.name, each.partition): -1 if each.leader is None else each.leader
        for topic in topics
        for each in topic.description.partitions
    }


def _debts(expected: DebtForecast) -> tuple[PlannedDebt, ...]:
    return tuple(
        PlannedDebt(
            debt.broker,
            len(debt.partitions),
            sum(debt.sizes.values()) if len(debt.sizes) == len(debt.partitions) else None,
        )
        for debt in expected.debts
    )


async def _blockers(session: ZooKeeperSession) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what every deletion waits for, and what about that could not be seen."""
    held = await held_back(session)
    causes = list(held.causes)
    if (paused := await deletions_paused(session)) is not None and not held.acting.is_kafka:
        causes.append(ObservedCause(CauseKind.RESUMPTION, detail=paused.reason or None))
    # Without times: they are not part of what is compared.
    texts = tuple(_text(replace(cause, since_ms=None), "") for cause in causes)
    return texts, () if held.unasked is None else (f"what holds deletions back: {held.unasked}",)


def _topic(
    found: CurrentTopic, usage: TopicUsage, writes: Mapping[TopicPartition, int | None], brokers: Sequence[Broker]
) -> PlannedTopic:
    topic = found.description
    where = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    offsets = [usage.offsets.get(each) for each in where]
    groups = usage.groups.get(topic.name, ())
    newest = [at_ms for each in where if (at_ms := writes.get(each)) is not None]
    partitions = (
        PlannedPartition(
            each.partition,
            tuple(map(int, each.assignment.replicas)),
            None if known is None else known.first,
            None if known is None else known.end,
        )
        for each, known in zip(topic.partitions, offsets, strict=True)
    )
    return PlannedTopic(
        topic.name,
        None if topic.topic_id is None else topic_id_to_text(topic.topic_id),
        found.czxid,
        tuple(partitions),
        found.segment_bytes,
        max(newest) if newest and all(each in writes for each in where) else None,
        None
        if usage.unasked
        else tuple(PlannedGroup(group.name, group.state, bool(group.members)) for group in groups),
        tuple(_topic_blockers(found, brokers)),
        tuple(_topic_unseen(found, usage, where)),
    )


def _topic_blockers(found: CurrentTopic, brokers: Sequence[Broker]) -> Iterator[str]:
    topic = found.description
    if topic.is_marked:
        yield "is marked for deletion"
    moving = tuple(p.partition for p in topic.partitions if p.assignment.is_being_reassigned or p.pending)
    if moving:
        yield _text(ObservedCause(CauseKind.REASSIGNMENT, partitions=moving), topic.name)
    registered = {int(broker.id) for broker in brokers}
    absent = sorted({int(b) for p in topic.partitions for b in p.assignment.replicas} - registered)
    for broker in absent:
        yield _text(ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(broker)), topic.name)


def _topic_unseen(found: CurrentTopic, usage: TopicUsage, where: Sequence[TopicPartition]) -> Iterator[str]:
    topic = found.description
    if topic.problem is not None:
        yield f"its znodes: {topic.problem}"
    if topic.requests_unseen is not None:
        yield f"whether it is being reassigned: {topic.requests_unseen}"
    if found.segment_bytes is None:
        yield f"its size: {found.unseen}"
    yield from (f"its readers: {why}" for why in usage.unasked)
    for each in where:
        if each not in usage.offsets:
            yield f"the offsets of partition {each.partition}: {usage.unknown.get(each, 'no answer names them')}"


def _text(cause: ObservedCause, topic: str) -> str:
    return sentence(cause, topic, 0).removeprefix(topic).strip()


# --- carrying it out ----------------------------------------------------------------------------------------------


async def mark_as_planned(
    session: ZooKeeperSession, plan: TopicDeletionPlan, orders: DeletionOrders = NO_ORDERS
) -> list[Outcome]:
    """Mark all topics of the plan in one multi, which fails if the znode of one has changed; return the outcomes.

    The user may have thought for a while since the look, so partitions and replicas are compared once more. The multi
    cannot check that a topic was not created again meanwhile: its version is 0 again. So the markers name the topics
    that are meant, for Lethe's controller (`controller.core.named_incarnation`).

    Raises NoCluster under a KRaft controller."""
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.DELETE_TOPICS,))
    names = [topic.topic for topic in plan.topics]
    znodes = await session.read([GetData(paths.topic(name)) for name in names])
    operations: list[Operation] = []
    for topic, found in zip(plan.topics, znodes, strict=True):
        if (why := _change(topic, found)) is not None or not isinstance(found, Data):
            return [Outcome(name, f"{topic.topic} {why}: nothing was done") for name in names]
        operations.append(Check(paths.topic(topic.topic), found.stat.version))
    operations += (
        Create(paths.delete_topic(topic.topic), encode_deletion_marker(replace(orders, topic_czxid=topic.czxid)))
        for topic in plan.topics
    )
    outcome = await session.multi(operations)
    if isinstance(outcome, MultiFailed) and outcome.error in (
        ZkError.BAD_VERSION,
        ZkError.NO_NODE,
        ZkError.NODE_EXISTS,
    ):
        changed = names[outcome.index % len(names)]
        problem = f"{changed} has changed while the topics were marked ({outcome.error.name}): nothing was done"
        return [Outcome(name, problem) for name in names]
    act, done = "mark the topics of the plan for deletion", "topics of the plan were marked for deletion"
    others = await _others(session, plan, outcome.zxid) if isinstance(outcome, MultiDone) else {}
    return [
        Outcome(name, others[name]) if name in others else outcome_of(name, outcome, act=act, done=done)
        for name in names
    ]


async def _others(session: ZooKeeperSession, plan: TopicDeletionPlan, marked_zxid: int) -> dict[str, str]:
    """Return the topics that were created again before their names were marked, and what becomes of them.

    A topic that was created after the mark is no such topic: the planned one is deleted already."""
    znodes = await session.read([Exists(paths.topic(topic.topic)) for topic in plan.topics])
    others = [
        topic.topic
        for topic, found in zip(plan.topics, znodes, strict=True)
        if isinstance(found, Present) and found.stat.czxid != topic.czxid and found.stat.czxid < marked_zxid
    ]
    if not others:
        return {}
    acting = await acting_controller(session)
    follows = _DELETED if acting.is_kafka else _KEPT
    return {name: f"{name} {_CREATED_AGAIN}; {acting.text}: {follows}" for name in others}


def _change(topic: PlannedTopic, found: ReadOutcome) -> str | None:
    """Return why the topic is not as it was planned; None if it is."""
    if is_absent(found) or (isinstance(found, Data) and found.stat.czxid != topic.czxid):
        return _CHANGED
    try:
        znode = topic_of(found, topic.topic)
    except (MalformedZnode, ZnodeUnreadable):
        return f"{UNREAD}, so it may have changed"
    there = {} if znode is None else znode.assignments
    now = {int(number): sorted(map(int, each.replicas)) for number, each in there.items()}
    return None if now == {each.partition: sorted(each.replicas) for each in topic.partitions} else _CHANGED
