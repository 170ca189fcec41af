"""Progress of reassignments: `--list`, `--verify`, and waiting.

A partition is in one of these states:

    state        condition
    requested    only `/admin/reassign_partitions` names it
    moving       its topic's znode has replicas that are added or removed
    done         the partition has exactly the requested replicas
    otherwise    nothing moves, and it has other replicas
    gone         the partition does not exist
    unseen       its topic's znode, or the request that may move it, cannot be read or understood
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.partition_names import Selector
from lethe.admin.partition_views import PartitionViews, selection, view_partitions
from lethe.admin.reassignment_plans import Move
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.cli.progress import wait_for_all
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths

COLUMNS = ("topic", "partition", "replicas", "target", "state", "waits for")


class PartitionProgress(NamedTuple):
    """State of one partition."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    state: str
    """One of the states above."""
    waits_for: str

    @property
    def is_settled(self) -> bool:
        return self.state in ("done", "otherwise", "gone")


async def list_reassignments(session: ZooKeeperSession, selectors: Sequence[Selector] = ()) -> Answer:
    """Return the reassignments requested or in progress, of all partitions or the selected ones."""
    views = await view_partitions(session, {selector.topic for selector in selectors} or None)
    chosen = set(selection(views, selectors))
    unknown = [tp for tp in views.requested if tp not in views.assignments] if not selectors else []
    found = []
    for tp in [*(tp for tp in views.assignments if tp in chosen), *unknown]:
        assignment = views.assignments.get(tp)
        if assignment is not None and assignment.is_being_reassigned:
            found.append(_standing(views, tp, views.requested.get(tp, assignment.target)))
        elif tp in views.requested:
            found.append(_standing(views, tp, views.requested[tp]))
    is_unseen = (
        views.requests_unseen is not None
        or any(name in views.problems for name in views.there.names)
        or any(one.partition in views.states_unseen for one in found)
    )
    as_far = ", as far as can be seen" if is_unseen else ""
    lines = [f"{counted(len(found), 'partition is', 'partitions are')} being reassigned, or asked to be{as_far}."]
    lines += [f"{where}: {problem}" for where, problem in views.problems.items()]
    code = Exit.UNREACHABLE if is_unseen else Exit.OK
    return Answer([_as_json(one) for one in found], tuple(lines), _tables(found), code)


async def verification(session: ZooKeeperSession, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answer:
    """Return the results of the moves."""
    views = await view_partitions(session, {tp.topic for tp in targets})
    return _answer([_standing(views, tp, target) for tp, target in targets.items()])


async def wait_until_moved(session: ZooKeeperSession, moves: Sequence[Move], *, timeout_ms: int, quiet: bool) -> Answer:
    """Wait until each partition has its replicas or no longer moves."""
    targets = {move.partition: move.target for move in moves}
    topics = {tp.topic for tp in targets}
    standings: list[PartitionProgress] = []

    async def look() -> int:
        views = await view_partitions(session, topics)
        standings[:] = [_standing(views, tp, target) for tp, target in targets.items()]
        return sum(one.is_settled for one in standings)

    await wait_for_all(look, len(targets), "partitions moved", timeout_ms=timeout_ms, quiet=quiet)
    return _answer(standings)


def _standing(views: PartitionViews, partition: TopicPartition, target: tuple[int, ...]) -> PartitionProgress:
    assignment = views.assignments.get(partition)
    if assignment is None:
        problem = views.problems.get(partition.topic)
        if problem is not None:
            return PartitionProgress(partition, (), target, "unseen", problem)
        return PartitionProgress(partition, (), target, "gone", "there is no such partition")
    replicas = assignment.replicas
    if assignment.is_being_reassigned:
        if assignment.target != target and partition in views.requested:
            return PartitionProgress(partition, replicas, target, "requested", _waits(views, partition, target))
        if assignment.target != target:
            words = f"it is being moved to {list(assignment.target)} instead"
            return PartitionProgress(partition, replicas, target, "moving", words)
        return PartitionProgress(partition, replicas, target, "moving", _waits(views, partition, target))
    if replicas == target:
        return PartitionProgress(partition, replicas, target, "done", "")
    if partition in views.requested and views.requested[partition] == target:
        return PartitionProgress(partition, replicas, target, "requested", "the controller to begin")
    if views.requests_unseen is not None:
        words = f"whether it is to be moved is not known: {views.requests_unseen}"
        return PartitionProgress(partition, replicas, target, "unseen", words)
    return PartitionProgress(
        partition, replicas, target, "otherwise", "nothing moves it: was it cancelled, or refused?"
    )


def _waits(views: PartitionViews, partition: TopicPartition, target: tuple[int, ...]) -> str:
    if (unseen := views.unseen(partition)) is not None:
        return f"its state is unseen: {unseen}"
    if partition not in views.states:
        return f"its ISR is not known: {paths.partition_state(*partition)} does not exist"
    origin = views.assignments[partition].origin
    adding = [broker for broker in target if broker not in origin]
    isr = views.isr(partition)
    has_leader = views.leader(partition) is not None
    parts = [] if has_leader else [f"a leader (in sync: brokers {_ids(isr)})"]
    if adding:
        parts.append(f"{sum(broker in isr for broker in adding)} of {counted(len(adding), 'adding replica')} in sync")
    outside = [broker for broker in target if broker not in isr]
    unread = [b for b in outside if b not in views.brokers and paths.broker_id(BrokerId(b)) in views.problems]
    missing = [broker for broker in outside if broker not in views.brokers and broker not in unread]
    if missing:
        parts.append(f"brokers {_ids(missing)} are not registered")
    if unread:
        parts.append(f"the registrations of brokers {_ids(unread)} cannot be understood")
    lagging = [broker for broker in outside if broker in views.brokers]
    if lagging and has_leader:
        parts.append(f"brokers {_ids(lagging)} to catch up")
    if not outside and has_leader:
        parts.append("the controller to finish it")
    return "; ".join(parts)


def _answer(standings: Sequence[PartitionProgress]) -> Answer:
    done = sum(one.state == "done" for one in standings)
    states = {one.state for one in standings}
    code = Exit.OK
    if states & {"otherwise", "gone"}:
        code = Exit.NO
    elif states & {"requested", "moving"}:
        code = Exit.TIMED_OUT
    elif "unseen" in states:
        code = Exit.UNREACHABLE
    rest = [one for one in standings if one.state != "done"]
    return Answer(
        [_as_json(one) for one in standings],
        (f"{done} of {counted(len(standings), 'partition has', 'partitions have')} the requested replicas.",),
        _tables(rest),
        code,
    )


def _tables(standings: Sequence[PartitionProgress]) -> tuple[Table, ...]:
    rows = tuple(
        (
            one.partition.topic,
            str(one.partition.partition),
            _ids(one.replicas),
            _ids(one.target),
            one.state,
            one.waits_for,
        )
        for one in standings
    )
    return (Table(COLUMNS, rows),) if rows else ()


def _as_json(one: PartitionProgress) -> JsonValue:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "replicas": [*one.replicas],
        "target": [*one.target],
        "state": one.state,
        "waits_for": one.waits_for or None,
    }


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
