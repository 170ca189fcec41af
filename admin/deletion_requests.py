"""Reads and writes the pause of all deletions, and the order to delete a topic with an unreadable znode.

Only Lethe's controller obeys either. The order is the data of the topic's marker. Controllers watch the list of markers
and not their data, so an existing marker is deleted and created again, in one multi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Create,
    Delete,
    GetChildren,
    GetData,
    MultiFailed,
    Operation,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    DeletionsPaused,
    MalformedZnode,
    decode_deletion_marker,
    decode_deletions_paused,
    encode_deletion_marker,
    encode_deletions_paused,
)
from lethe.survey.znodes import ZnodeUnreadable, data_of, read_data, topic_of


@dataclass(frozen=True, slots=True)
class TopicReadability:
    """A topic as far as it can be read: `problem` says why its znode cannot be understood, None where it can."""

    name: str
    problem: str | None
    partitions: tuple[str, ...]
    """The children of its `/partitions`."""
    is_marked: bool
    is_ordered: bool
    """Its marker orders the deletion already."""


async def deletions_paused(session: ZooKeeperSession) -> DeletionsPaused | None:
    """Return the pause; None where deletions are not paused."""
    data = await read_data(session, paths.DELETIONS_PAUSED)
    return None if data is None else decode_deletions_paused(data.data)


async def pause_deletions(session: ZooKeeperSession, now_ms: int, reason: str) -> tuple[DeletionsPaused, Outcome]:
    """Pause deletions, and return the pause. An existing pause keeps its time and gets the new reason."""
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.LETHE,))
    path = paths.DELETIONS_PAUSED
    wanted = DeletionsPaused(now_ms, reason)
    for _ in range(MAX_ATTEMPTS):
        data = await read_data(session, path)
        operation: Operation = Create(path, encode_deletions_paused(wanted))
        if data is not None:
            before = decode_deletions_paused(data.data)
            if not reason or before.reason == reason:
                return before, Outcome(path, was_done=True)
            wanted = DeletionsPaused(before.since_ms, reason)
            operation = SetData(path, encode_deletions_paused(wanted), data.stat.version)
        outcome = await session.multi([operation])
        if is_conflict(outcome):
            continue
        answer = outcome_of(
            path, outcome, act="pause deletions", done="deletions are paused", was_done=data is not None
        )
        return wanted, answer
    return wanted, given_up(path, path)


async def resume_deletions(session: ZooKeeperSession) -> tuple[DeletionsPaused | None, Outcome]:
    """End the pause, and return it; None where there was none."""
    path = paths.DELETIONS_PAUSED
    before = await deletions_paused(session)
    if before is None:
        return None, Outcome(path, was_done=True)
    outcome = await session.multi([Delete(path)])
    if outcome == MultiFailed(0, ZkError.NO_NODE):
        return before, Outcome(path)
    return before, outcome_of(path, outcome, act="resume deletions", done="deletions are resumed")


async def look_at_unreadable(session: ZooKeeperSession, names: Sequence[str]) -> list[TopicReadability]:
    """Return the existing ones of these topics as far as they can be read, in the order of the names."""
    reads = [
        read
        for name in names
        for read in (
            GetData(paths.topic(name)),
            GetChildren(paths.topic_partitions(name)),
            GetData(paths.delete_topic(name)),
        )
    ]
    outcomes = await session.read(reads)
    found = []
    for name, topic, children, mark in zip(names, outcomes[::3], outcomes[1::3], outcomes[2::3], strict=True):
        try:
            if topic_of(topic, name) is None:
                continue
            problem = None
        except (MalformedZnode, ZnodeUnreadable) as error:
            problem = str(error)
        marker = data_of(mark, paths.delete_topic(name))
        below = children.names if isinstance(children, Children) else ()
        ordered = marker is not None and decode_deletion_marker(marker.data).unreadable
        found.append(TopicReadability(name, problem, below, marker is not None, ordered))
    return found


async def order_unreadable(session: ZooKeeperSession, names: Sequence[str]) -> list[Outcome]:
    """Mark each topic with the order to delete it despite its unreadable znode; return the outcomes."""
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.DELETE_TOPICS,))
    return [await _order(session, name) for name in names]


async def _order(session: ZooKeeperSession, name: str) -> Outcome:
    path = paths.delete_topic(name)
    create = Create(path, encode_deletion_marker(DeletionOrders(unreadable=True)))
    for _ in range(MAX_ATTEMPTS):
        marker = await read_data(session, path)
        if marker is not None and decode_deletion_marker(marker.data).unreadable:
            return Outcome(name, was_done=True)
        outcome = await session.multi([create] if marker is None else [Delete(path, marker.stat.version), create])
        if is_conflict(outcome):
            continue
        act, done = f"mark topic {name} for deletion", f"topic {name} is marked for deletion"
        return outcome_of(name, outcome, act=act, done=done)
    return given_up(name, f"the marker of topic {name}")
