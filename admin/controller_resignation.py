"""Ends the term of the active controller, after a grace period in which brokers can confirm tombstones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controllers import ask_controller
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_znodes import ActiveController, active_controller
from lethe.controller.core.context import NOTHING_UNCONFIRMED, UnconfirmedDeletions
from lethe.controller.runtime.unconfirmed_deletions import from_json, waiting_words
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Delete, MultiDone, MultiFailed, MultiUnknown
from lethe.protocol.zookeeper.znodes import decode_controller_epoch
from lethe.survey.evidence import ControllerReport, OwedTombstones
from lethe.survey.znodes import read_data

POLL_MS = 50

ASK_TIMEOUT_MS = 2_000


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """What brokers had not confirmed at the end of the term; `unseen` says why that is unknown."""

    left: UnconfirmedDeletions = NOTHING_UNCONFIRMED
    unseen: str | None = None

    def under(self, successor: ActiveController | None) -> UnconfirmedDeletions:
        """Return what is left under the new controller. Lethe's compares every metadata cache with ZooKeeper itself."""
        if successor is None or successor.znode.admin is None:
            return self.left
        return self.left._replace(ghosts={}, missed={})


class Resignation(NamedTuple):
    """A term that was ended, and the controller afterwards: the same where its znode was not seen to go."""

    before: ActiveController
    epoch: int
    after: ActiveController | None
    unconfirmed: Unconfirmed


async def resign(
    session: ZooKeeperSession, *, timeout_ms: int, poll_ms: int, grace_ms: int, say: Callable[[str], None]
) -> Resignation:
    """End the present term. Raises Refusal where there is none, or where it belongs to KRaft."""
    before = await active_controller(session)
    if before is None:
        raise Refusal("there is no active controller that could resign")
    if before.is_kraft:
        raise Refusal(
            f"{paths.CONTROLLER} belongs to the KRaft controller {before.znode.broker_id}: it is not deleted, because "
            "brokers in ZooKeeper mode would take the cluster back from it"
        )
    owed = await _unconfirmed(before, grace_ms=grace_ms, poll_ms=poll_ms, say=say)
    epoch = await _end(session, before)
    deadline = time.monotonic() + timeout_ms / 1000
    after = await active_controller(session)
    while (after is None or after.stat.czxid == before.stat.czxid) and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        after = await active_controller(session)
    return Resignation(before, epoch, after, owed)


async def _unconfirmed(
    before: ActiveController, *, grace_ms: int, poll_ms: int, say: Callable[[str], None]
) -> Unconfirmed:
    """Return what brokers have not confirmed at the end of the grace period, or once everything in the first answer is
    confirmed. Kafka's controller, which never reports it, is not asked.

    The controller continues with deletions meanwhile. One that begins now is still marked when the term ends, so the
    next controller continues it.
    """
    url = before.znode.admin
    if url is None:
        return Unconfirmed()
    deadline = time.monotonic() + grace_ms / 1000
    told = await ask_controller(url, None, ASK_TIMEOUT_MS)
    if told.owed is None and grace_ms:
        say(f"asking controller {before.znode.broker_id} again for up to {grace_ms / 1000:g} s: {_problem(told, url)}")
    while told.owed is None and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        told = await ask_controller(url, None, ASK_TIMEOUT_MS)
    if told.owed is None:
        return Unconfirmed(unseen=_problem(told, url))
    first = owed = told.owed
    if owed and grace_ms:
        say(waiting_words(_left(owed), grace_ms))
    while owed and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        now = await ask_controller(url, None, ASK_TIMEOUT_MS)
        if now.owed is not None:
            told, owed = now, _of_those(first, now.owed)
    # Later tombstones and unregistered brokers are not waited for, but they count as unconfirmed.
    unproven = from_json(told.unproven)
    return Unconfirmed(unproven._replace(gone={**unproven.gone, **_left(told.owed or ()).gone}))


def _problem(told: ControllerReport, url: str) -> str:
    return told.problem or f"the answer of {url} does not say what brokers owe"


def _of_those(first: tuple[OwedTombstones, ...], now: tuple[OwedTombstones, ...]) -> tuple[OwedTombstones, ...]:
    since = {owing.broker: frozenset(owing.topics) for owing in first}
    return tuple(owing for owing in now if since.get(owing.broker, frozenset()).intersection(owing.topics))


def _left(owed: tuple[OwedTombstones, ...]) -> UnconfirmedDeletions:
    return NOTHING_UNCONFIRMED._replace(gone={BrokerId(owing.broker): owing.topics for owing in owed})


async def _end(session: ZooKeeperSession, before: ActiveController) -> int:
    """Delete `/controller` of that term, and return its epoch."""
    if (data := await read_data(session, paths.CONTROLLER_EPOCH)) is None:
        raise Refusal(f"{paths.CONTROLLER_EPOCH} does not exist, so terms cannot be told apart")
    outcome = await session.multi(
        [Check(paths.CONTROLLER_EPOCH, data.stat.version), Delete(paths.CONTROLLER, before.stat.version)]
    )
    match outcome:
        case MultiDone():
            return int(decode_controller_epoch(data.data))
        case MultiFailed(error=error):
            raise Refusal(f"the controller changed while it was looked at ({error.name}): nothing was done")
        case MultiUnknown(reason=reason):
            raise Refusal(
                f"whether controller {before.znode.broker_id} was made to resign is unknown: {reason}", Exit.UNREACHABLE
            )
