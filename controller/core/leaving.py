"""Giving control up for good without leaving ghosts: wait, for a bounded time, until brokers have answered tombstones.

A controller that is asked to stop still holds what no later controller knows: which brokers owe a tombstone (`owed`),
and which ones have not answered that of a topic that is still marked. Kafka's controller, which may follow, drops the
marks where deletion is disabled there, and sends no tombstone of topics whose znodes are gone. So ours waits for these
answers first. Meanwhile it leads as before (elections, ISRs, brokers that come and go, new topics), but begins no
deletion, and lets no topic's znodes go while a broker owes its tombstone.

    every answer is there        control is given up
    the time is over             control is given up, and `Context.left_behind` says what was not answered
    asked a second time          the same, at once
"""

from __future__ import annotations

from lethe.controller.core.agenda import GiveUp
from lethe.controller.core.cluster_state import Leaving
from lethe.controller.core.context import NOTHING_LEFT, Context, LeftBehind
from lethe.controller.core.effects import LeaveAnyway
from lethe.controller.core.turn import Turn
from lethe.protocol.vocabulary import BrokerId


def begin(turn: Turn, reason: str, patience_ms: int) -> None:
    """Give control up: at once where nothing is owed, without patience, or asked again; otherwise when all is settled
    or the time is over."""
    context = turn.context
    pending = {name: None for name, deletion in context.cluster.deletions.items() if deletion.owing_tombstone}
    leaving = Leaving(reason, pending)
    if context.cluster.leaving is not None or patience_ms <= 0 or _is_settled(context, leaving):
        turn.do(GiveUp(reason))
        return
    context.cluster.leaving = leaving
    turn.set_timer(LeaveAnyway(), turn.now_ms + patience_ms)


def look(turn: Turn) -> None:
    """Give control up where nothing is waited for any more."""
    leaving = turn.context.cluster.leaving
    if leaving is not None and turn.context.is_leading and _is_settled(turn.context, leaving):
        turn.do(GiveUp(leaving.reason))


def time_is_over(turn: Turn) -> None:
    """The timer fired: give control up, whatever is owed."""
    leaving = turn.context.cluster.leaving
    if leaving is not None and turn.context.is_leading:
        turn.do(GiveUp(leaving.reason))


def _is_settled(context: Context, leaving: Leaving) -> bool:
    """Drops from the front what is settled, so that each topic is looked at once, however many answers come."""
    if any(broker in context.cluster.brokers for broker in context.cluster.owed):
        return False
    while leaving.pending:
        name = next(iter(leaving.pending))
        deletion = context.cluster.deletions.get(name)
        if deletion is not None and deletion.owing_tombstone:
            return False
        del leaving.pending[name]
    return True


def unproven(context: Context) -> LeftBehind:
    """The same as `left_behind`, without the topics that are still marked: what no later controller can know."""
    gone = {broker: tuple(debtor.topics) for broker, debtor in context.cluster.owed.items()}
    ghosts = {broker: tuple(found) for broker, found in context.cluster.caches.ghosts.items() if found}
    missed: dict[BrokerId, tuple[str, ...]] = {}
    for broker, names in context.cluster.caches.missed.items():
        said = {*gone.get(broker, ()), *ghosts.get(broker, ())}
        left = tuple(name for name in names if name not in said)
        if left:
            missed[broker] = left
    return LeftBehind(gone, {}, ghosts, missed)


def awaited(context: Context) -> LeftBehind:
    """What registered brokers have yet to answer, as of now."""
    left = left_behind(context)
    gone = {broker: names for broker, names in left.gone.items() if broker in context.cluster.brokers}
    return NOTHING_LEFT._replace(gone=gone, marked=left.marked)


def left_behind(context: Context) -> LeftBehind:
    """What brokers have not answered, and what their caches may show, as of now."""
    marked: dict[BrokerId, list[str]] = {}
    for name, deletion in context.cluster.deletions.items():
        for broker in deletion.owing_tombstone:
            marked.setdefault(broker, []).append(name)
    return unproven(context)._replace(marked={broker: tuple(names) for broker, names in marked.items()})
