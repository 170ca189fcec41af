"""The trash as commands see it: marks topics for it, waits for them, lists it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import Outcome, outcome_of
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import deletion_problem
from lethe.admin.topic_znodes import demand_zookeeper_controller, list_topics
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Exists, GetChildren, GetData, MultiFailed, ZkError, is_absent
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    MalformedZnode,
    TrashEntry,
    TrashPhase,
    decode_trash,
    encode_deletion_marker,
)
from lethe.survey.znodes import ZnodeUnreadable, children_of, data_of

POLL_MS: Final = 200


@dataclass(frozen=True, slots=True)
class TrashView:
    """A topic with an entry in the trash; `problem` says why the entry cannot be understood."""

    name: str
    entry: TrashEntry | None
    problem: str | None = None


async def read_trash(session: ZooKeeperSession, names: Sequence[str] | None = None) -> list[TrashView]:
    """Return the entries of these topics that have one, or (None) all, by name. Raises ZnodeUnreadable."""
    if names is None:
        (listed,) = await session.read([GetChildren(paths.trash())])
        names = children_of(listed, paths.trash()) or ()
    outcomes = await session.read([GetData(paths.trashed(name)) for name in names]) if names else ()
    views = []
    for name, outcome in zip(names, outcomes, strict=True):
        try:
            data = data_of(outcome, paths.trashed(name))
            if data is not None:
                views.append(TrashView(name, decode_trash(name, data.data)))
        except (MalformedZnode, ZnodeUnreadable) as problem:
            views.append(TrashView(name, None, str(problem)))
    return views


async def mark_for_trash(session: ZooKeeperSession, names: Sequence[str], grace_ms: int) -> list[Outcome]:
    """Mark each topic for deletion with this grace period; return the outcomes in the order of the names. 0: it is not
    to go into the trash, whatever the controller's configuration says.

    A topic that is marked already is refused: its deletion may have begun. Raises NoCluster under a KRaft controller,
    Refusal unless the active controller is Lethe's."""
    await demand_zookeeper_controller(session)
    acting = await acting_controller(session)
    if grace_ms and not acting.is_lethe:
        raise Refusal(
            f"--grace is an order to Lethe's controller, and {acting.text}. Kafka's would delete the topic at once"
        )
    await ensure_roots(session, (paths.DELETE_TOPICS,))
    there = (await list_topics(session)).names
    data = encode_deletion_marker(DeletionOrders(grace_ms=grace_ms))
    return [await _mark(session, name, data, deletion_problem(name, topics=there)) for name in names]


async def _mark(session: ZooKeeperSession, name: str, data: bytes | None, problem: str | None) -> Outcome:
    if problem is not None:
        return Outcome(name, problem)
    outcome = await session.multi([Create(paths.delete_topic(name), data)])
    if isinstance(outcome, MultiFailed) and outcome.error is ZkError.NODE_EXISTS:
        return Outcome(name, f"topic {name} is marked for deletion already, without or with another grace period")
    act, done = f"mark topic {name} for deletion", f"topic {name} was marked for deletion"
    return outcome_of(name, outcome, act=act, done=done)


class OnItsWay(NamedTuple):
    """A topic that was marked for the trash; `entry` is None if it is not there."""

    entry: TrashEntry | None
    is_marked: bool


async def wait_until_trashed(
    session: ZooKeeperSession, names: Sequence[str], *, timeout_ms: int
) -> dict[str, OnItsWay]:
    """Return what became of the topics once every one is in the trash or no longer marked, or when the time is over."""
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        markers = await session.read([Exists(paths.delete_topic(name)) for name in names])
        entries = {view.name: view.entry for view in await read_trash(session, names)}
        trashed = {
            name: OnItsWay(
                entry if (entry := entries.get(name)) and entry.phase is TrashPhase.TRASHED else None,
                not is_absent(marker),
            )
            for name, marker in zip(names, markers, strict=True)
        }
        if all(map(is_absent, markers)) or time.monotonic() >= deadline:
            return trashed
        await asyncio.sleep(POLL_MS / 1000)
