"""`lethe controller-resign`: ends the tenure of the active controller, so that another election takes place.

Deleting `/controller` is Kafka's supported way to move the controller. Its data version is 0 in every tenure, so the
deletion is tied to the version of `/controller_epoch`, which no two tenures share: if somebody else was elected since
we looked, nothing happens.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controllers import asked
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_znodes import ActiveController, active_controller
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson, ZooKeeper
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.controller.core.context import NOTHING_LEFT, LeftBehind
from lethe.controller.runtime.left_behind import as_json, from_json, left_words, waiting_words
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Data, Delete, GetData, MultiDone, MultiFailed, MultiUnknown
from lethe.protocol.zookeeper.znodes import decode_controller_epoch
from lethe.survey.evidence import Owing, Told

POLL_MS = 50
ASK_TIMEOUT_MS = 2_000

TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to wait for a successor.")]


GraceMs = Annotated[
    int,
    typer.Option(
        "--grace-ms",
        min=0,
        help="How long to wait first for brokers that have not confirmed that their metadata caches have dropped "
        "topics that are gone; only Lethe's controller tells of them.",
    ),
]


def controller_resign(
    zookeeper: ZooKeeper, timeout_ms: TimeoutMs = 30_000, grace_ms: GraceMs = 5_000, as_json: AsJson = False
) -> None:
    """End the tenure of the active controller and say who comes after. Exit code 4 where nobody does in time, 1 where
    metadata caches of brokers may still show topics that are gone, 3 where Lethe's controller did not tell whether
    there are such brokers."""
    finish(
        lambda: with_session(zookeeper, lambda session: resignation(session, timeout_ms=timeout_ms, grace_ms=grace_ms)),
        as_json=as_json,
    )


async def resignation(
    session: ZooKeeperSession, *, timeout_ms: int, poll_ms: int = POLL_MS, grace_ms: int = 0
) -> Answer:
    """Ends the tenure there is. Raises Refusal where there is none, or where it belongs to KRaft."""
    before = await active_controller(session)
    if before is None:
        raise Refusal("there is no active controller: nobody to resign")
    if before.is_kraft:
        raise Refusal(
            f"{paths.CONTROLLER} belongs to the KRaft controller {before.znode.broker_id}: it is not deleted, because "
            "brokers in ZooKeeper mode would take the cluster back from it"
        )
    owed = await _unconfirmed(before, grace_ms=grace_ms, poll_ms=poll_ms)
    epoch = await _end(session, before)
    deadline = time.monotonic() + timeout_ms / 1000
    after = await active_controller(session)
    while (after is None or after.stat.czxid == before.stat.czxid) and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        after = await active_controller(session)
    return _answer(before, epoch, after, owed)


@dataclass(frozen=True, slots=True)
class _Unconfirmed:
    """What brokers had not confirmed when the tenure was ended; `unseen` says why the controller did not tell that."""

    left: LeftBehind = NOTHING_LEFT
    unseen: str | None = None

    def under(self, successor: ActiveController | None) -> LeftBehind:
        """What is left with this controller. One of Lethe's compares every metadata cache with ZooKeeper itself."""
        if successor is None or successor.znode.admin is None:
            return self.left
        return self.left._replace(ghosts={}, missed={})


async def _unconfirmed(before: ActiveController, *, grace_ms: int, poll_ms: int) -> _Unconfirmed:
    """What brokers have not confirmed when the grace is over, or all that was owed at the first answer is confirmed.
    Kafka's controller, which never tells, is not asked.

    The controller goes on with deletions meanwhile. One that begins now is still marked when its term ends, so the next
    controller goes on with it."""
    url = before.znode.admin
    if url is None:
        return _Unconfirmed()
    deadline = time.monotonic() + grace_ms / 1000
    told = await asked(url, None, ASK_TIMEOUT_MS)
    if told.owed is None and grace_ms:
        note(f"asking controller {before.znode.broker_id} again for up to {grace_ms / 1000:g} s: {_problem(told, url)}")
    while told.owed is None and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        told = await asked(url, None, ASK_TIMEOUT_MS)
    if told.owed is None:
        return _Unconfirmed(unseen=_problem(told, url))
    first = owed = told.owed
    if owed and grace_ms:
        note(waiting_words(_left(owed), grace_ms))
    while owed and time.monotonic() < deadline:
        await asyncio.sleep(poll_ms / 1000)
        now = await asked(url, None, ASK_TIMEOUT_MS)
        if now.owed is not None:
            told, owed = now, _of_those(first, now.owed)
    # It does not wait for what was owed later, nor for brokers that are not registered. Both are owed all the same.
    unproven = from_json(told.unproven)
    return _Unconfirmed(unproven._replace(gone={**unproven.gone, **_left(told.owed or ()).gone}))


def _problem(told: Told, url: str) -> str:
    return told.problem or f"the answer of {url} does not say what brokers owe"


def _of_those(first: tuple[Owing, ...], now: tuple[Owing, ...]) -> tuple[Owing, ...]:
    since = {owing.broker: frozenset(owing.topics) for owing in first}
    return tuple(owing for owing in now if since.get(owing.broker, frozenset()).intersection(owing.topics))


def _left(owed: tuple[Owing, ...]) -> LeftBehind:
    return NOTHING_LEFT._replace(gone={BrokerId(owing.broker): owing.topics for owing in owed})


async def _end(session: ZooKeeperSession, before: ActiveController) -> int:
    """Deletes `/controller` of that tenure; the tenure's epoch."""
    (data,) = await session.read([GetData(paths.CONTROLLER_EPOCH)])
    if not isinstance(data, Data):
        raise Refusal(f"{paths.CONTROLLER_EPOCH} cannot be read, so no tenure can be told from another: {data}")
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


def _answer(before: ActiveController, epoch: int, after: ActiveController | None, found: _Unconfirmed) -> Answer:
    if after is not None and after.stat.czxid == before.stat.czxid:
        after = None
    ended = before.znode.broker_id
    body: dict[str, JsonValue] = {
        "resigned": {"controller": ended, "epoch": epoch},
        "successor": None if after is None else after.znode.broker_id,
        "unconfirmed": as_json(found.under(after)) if found.unseen is None else None,
        "unseen": found.unseen,
    }
    line = f"Controller {ended} has resigned (epoch {epoch})."
    left = tuple(f"{words[0].upper()}{words[1:]}." for words in left_words(found.under(after)))
    if found.unseen is not None:
        left = (_unseen_words(found.unseen),)
    if after is None:
        return Answer(body, (line, "Nobody has been elected yet.", *left), exit=Exit.TIMED_OUT)
    again = " again" if after.znode.broker_id == ended else ""
    lines = (line, f"Controller {after.znode.broker_id} was elected{again}.", *left)
    code = Exit.UNREACHABLE if found.unseen is not None else Exit.NO if left else Exit.OK
    return Answer(body, lines, exit=code)


def _unseen_words(why: str) -> str:
    return (
        "It is unknown whether brokers have confirmed that their metadata caches have dropped topics that are gone: "
        f"{why}. Look with lethe survey whether a broker still tells clients of such topics; lethe rescue or a restart "
        "of the broker cures that."
    )
