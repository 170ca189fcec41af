"""Requests to Lethe's controller about deleted topics: bring them back, or delete them from the trash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.refusal import Refusal
from lethe.admin.standing_requests import EARLY, Say, may_stand, named_when_lost, until_interrupted
from lethe.admin.topic_znodes import demand_zookeeper_controller, list_topics
from lethe.admin.trash import TrashView, read_trash
from lethe.protocol.topic_names import close_names, suggestion
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    Delete,
    Exists,
    GetData,
    MultiFailed,
    Operation,
    Present,
    ReadOutcome,
    ZkError,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    RequestedAction,
    TopicRequest,
    TrashPhase,
    decode_topic_request,
    decode_trash,
    encode_topic_request,
)
from lethe.survey.znodes import ZnodeUnreadable, data_of, read_data

POLL_MS: Final = 50
_OTHERS: Final = "another process has withdrawn the request"


async def undelete(
    session: ZooKeeperSession, names: Sequence[str], *, timeout_ms: int, interrupted: asyncio.Event, say: Say
) -> list[Outcome]:
    """Request each topic back, and return the controller's answers in the order of the names.

    Nothing is requested unless every topic is marked or in the trash, and Lethe's controller is active: otherwise
    raises Refusal. A request that is not answered in time, or before a signal sets `interrupted`, is withdrawn. Raises
    NoCluster where there is no cluster, and CancelledError as `until_interrupted`."""
    await demand_zookeeper_controller(session)
    there = await list_topics(session)
    trashed = [view.name for view in await read_trash(session, names)]
    for name in names:
        if name not in (*there.names, *there.marked, *trashed):
            others = [view.name for view in await read_trash(session)]
            raise Refusal(
                f"topic {name!r} does not exist, is not marked, and is not in the trash: if it was deleted, nothing "
                f"brings it back{suggestion(close_names(name, (*there.marked, *others)))}"
            )
        if name not in (*there.marked, *trashed):
            raise Refusal(
                f"topic {name} is neither marked for deletion nor in the trash: there is nothing to bring back"
            )
    wanted = TopicRequest(RequestedAction.UNDELETE)
    return await _requested(session, dict.fromkeys(names, wanted), timeout_ms, interrupted, say)


async def purge(
    session: ZooKeeperSession, views: Sequence[TrashView], *, timeout_ms: int, interrupted: asyncio.Event, say: Say
) -> list[Outcome]:
    """Request that these topics are deleted from the trash; otherwise as `undelete`."""
    await demand_zookeeper_controller(session)
    wanted = TopicRequest(RequestedAction.PURGE)
    requests = {view.name: replace(wanted, topic_id=view.entry.topic_id) for view in views if view.entry is not None}
    return await _requested(session, requests, timeout_ms, interrupted, say)


async def wait_until_restored(session: ZooKeeperSession, names: Sequence[str], *, timeout_ms: int) -> list[TrashView]:
    """Wait until settings and offsets are restored, as far as groups without members take them; return what is left."""
    pending = (TrashPhase.FREEZING, TrashPhase.RESTORING)
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        left = await read_trash(session, names)
        is_over = all(view.entry is None or view.entry.phase not in pending for view in left)
        if is_over or time.monotonic() >= deadline:
            return left
        await asyncio.sleep(POLL_MS / 1000)


async def _requested(
    session: ZooKeeperSession,
    requests: Mapping[str, TopicRequest],
    timeout_ms: int,
    interrupted: asyncio.Event,
    say: Say,
) -> list[Outcome]:
    await _demand_lethe(session)
    await ensure_roots(session, (paths.LETHE, paths.REQUESTS))
    asked, written = _answers(session, requests, timeout_ms, interrupted), [paths.request(name) for name in requests]
    with named_when_lost(written):
        return await until_interrupted(asked, interrupted, written, say)


async def _answers(
    session: ZooKeeperSession, requests: Mapping[str, TopicRequest], timeout_ms: int, interrupted: asyncio.Event
) -> list[Outcome]:
    """Write the requests, and wait for the answers; withdraw those that are not answered in time."""
    settled: dict[str, Outcome] = {}
    for name, request in requests.items():
        begun = Outcome(name, f"topic {name}: {EARLY}") if interrupted.is_set() else None
        begun = begun or await _request(session, name, request)
        if begun.problem is not None:
            settled[name] = begun
    began = time.monotonic()
    while left := [name for name in requests if name not in settled]:
        outcomes = await session.read([each for name in left for each in _look_at(name)])
        for name, look in zip(left, map(_Look, *(outcomes[nth::4] for nth in range(4))), strict=True):
            if (answer := await _answer(session, name, requests[name], look)) is not None:
                settled[name] = answer
        waited_s = time.monotonic() - began
        if waited_s >= timeout_ms / 1000 or interrupted.is_set():
            for name in left:
                if name in settled:
                    continue
                if (withdrawn := await _withdraw(session, name, requests[name], waited_s)) is not None:
                    settled[name] = withdrawn
        else:
            await asyncio.sleep(POLL_MS / 1000)
    return [settled[name] for name in requests]


async def _demand_lethe(session: ZooKeeperSession) -> None:
    acting = await acting_controller(session)
    if not acting.is_lethe:
        raise Refusal(
            f"{acting.text}: only Lethe's controller can tell whether replicas of a marked topic are deleted, and it "
            "alone keeps a trash"
        )


def _is_undelete(name: str, found: Data) -> bool:
    try:
        request = decode_topic_request(name, found.data)
    except MalformedZnode:
        return False
    return request.action is RequestedAction.UNDELETE and request.refused is None


class _Look(NamedTuple):
    """What tells how a request was answered. ZooKeeper answers in this order, so the request is not younger."""

    request: ReadOutcome
    marker: ReadOutcome
    topic: ReadOutcome
    trashed: ReadOutcome


def _look_at(name: str) -> tuple[GetData | Exists, ...]:
    return (
        GetData(paths.request(name)),
        Exists(paths.delete_topic(name)),
        Exists(paths.topic(name)),
        GetData(paths.trashed(name)),
    )


async def _request(session: ZooKeeperSession, name: str, request: TopicRequest) -> Outcome:
    """Create the request; join an equal one that waits. Another one is replaced, but for a request to bring the topic
    back, which no request to delete it replaces while it waits."""
    path, wanted = paths.request(name), encode_topic_request(request)
    for _ in range(MAX_ATTEMPTS):
        before = await read_data(session, path)
        if before is not None and before.data == wanted:
            return Outcome(name, was_done=True)
        if before is not None and request.action is RequestedAction.PURGE and _is_undelete(name, before):
            return Outcome(name, f"topic {name}: another process has requested that it comes back")
        create = Create(path, wanted)
        operations: list[Operation] = [create] if before is None else [Delete(path, before.stat.version), create]
        outcome = await session.multi(operations)
        if is_conflict(outcome):
            continue
        act, done = f"write a request for topic {name}", f"a request for topic {name} was written"
        return _unseen(outcome_of(name, outcome, act=act, done=done))
    return given_up(name, f"the request for topic {name}")


async def _answer(session: ZooKeeperSession, name: str, wanted: TopicRequest, look: _Look) -> Outcome | None:
    """Return what the controller has answered; None if it has not.

    A request that is gone may be carried out, or withdrawn by another process: the topic itself tells which."""
    if is_absent(look.request):
        return _undeleted(name, look) if wanted.action is RequestedAction.UNDELETE else _purged(name, wanted, look)
    if not isinstance(look.request, Data):
        return None
    try:
        refused = decode_topic_request(name, look.request.data).refused
    except MalformedZnode as malformed:
        refused = f"another process has replaced the request: {malformed}"
    if refused is None:
        return None
    await session.multi([Delete(paths.request(name), look.request.stat.version)])
    return Outcome(name, f"topic {name}: the controller refuses: {refused}")


def _undeleted(name: str, look: _Look) -> Outcome:
    for outcome in (look.marker, look.topic):
        if (error := read_error(outcome)) is not None:
            return Outcome(name, f"whether topic {name} is back is unknown: {error.name}", is_unknown=True)
    if not is_absent(look.marker):
        return Outcome(name, f"topic {name} is still marked, or marked again: {_OTHERS}, or has deleted the topic")
    if is_absent(look.topic):
        return Outcome(name, f"topic {name} is not there: {_OTHERS}, or has deleted the topic")
    return Outcome(name)


def _purged(name: str, wanted: TopicRequest, look: _Look) -> Outcome:
    if is_absent(look.trashed):
        is_in_service = isinstance(look.topic, Present) and is_absent(look.marker)
        return Outcome(
            name, f"topic {name} is in service: another process has brought it back" if is_in_service else None
        )
    try:
        data = data_of(look.trashed, paths.trashed(name))
        is_another = data is not None and decode_trash(name, data.data).topic_id != wanted.topic_id
    except (MalformedZnode, ZnodeUnreadable) as unseen:
        return Outcome(name, f"whether topic {name} is still in the trash is unknown: {unseen}", is_unknown=True)
    return Outcome(name, None if is_another else f"topic {name} is still in the trash: {_OTHERS}")


async def _withdraw(session: ZooKeeperSession, name: str, wanted: TopicRequest, waited_s: float) -> Outcome | None:
    """Remove the request; None if it was answered in this moment. One that replaces it is another process's."""
    (found,) = await session.read([GetData(paths.request(name))])
    if isinstance(found, Data) and found.stat.version == 0 and found.data != encode_topic_request(wanted):
        return Outcome(name, f"topic {name}: another process has replaced the request")
    outcome = await session.multi([Delete(paths.request(name), 0)])
    if isinstance(outcome, MultiFailed) and outcome.error in (ZkError.NO_NODE, ZkError.BAD_VERSION):
        return None
    # Only the end of a stay has to wait for the pace of deletions.
    turn = ", perhaps since deletions have a pace" if wanted.action is RequestedAction.PURGE else ""
    withdrawn = f"the controller has not answered within {waited_s:.3g} s{turn}, and the request is withdrawn"
    done = outcome_of(name, outcome, act="withdraw the request", done="the request was withdrawn")
    if done.problem is None:
        return Outcome(name, f"topic {name}: {withdrawn}")
    return Outcome(name, f"topic {name}: {done.problem}; {may_stand([paths.request(name)])}", is_unknown=True)


def _unseen(outcome: Outcome) -> Outcome:
    """Say of a request that was perhaps written that it may stand."""
    if not outcome.is_unknown:
        return outcome
    return replace(outcome, problem=f"{outcome.problem}; {may_stand([paths.request(outcome.name)])}")
