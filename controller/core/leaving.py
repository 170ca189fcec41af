"""Resigning for good without leaving ghosts: waits, for a bounded time, until brokers have answered tombstones.

Only this controller's memory has the brokers that owe a tombstone (`owed`), or have not answered the tombstone of a
marked topic. A Kafka controller that follows may have deletion disabled: then it drops the markers. It sends no
tombstone for topics without znodes. So this controller waits for the answers. Meanwhile it leads as before, but starts
no deletion, and removes no topic's znodes while a broker owes its tombstone.

    every answer is there        control is given up
    the time is over             control is given up, and `Context.unconfirmed_deletions` has the missing answers
    a second request             the same, at once
"""

from __future__ import annotations

from lethe.controller.core.cluster_state import PendingResignation
from lethe.controller.core.context import NOTHING_UNCONFIRMED, Context, UnconfirmedDeletions
from lethe.controller.core.effects import ResignAnyway
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import GiveUp
from lethe.protocol.vocabulary import BrokerId


def begin(step: StepContext, reason: str, patience_ms: int) -> None:
    """Give control up: at once if nothing is owed, `patience_ms` is 0 or this is a second request; else wait."""
    context = step.context
    pending = {name: None for name, deletion in context.cluster.deletions.items() if deletion.owing_tombstone}
    leaving = PendingResignation(reason, pending)
    if context.cluster.leaving is not None or patience_ms <= 0 or _is_settled(context, leaving):
        step.do(GiveUp(reason))
        return
    context.cluster.leaving = leaving
    step.set_timer(ResignAnyway(), step.now_ms + patience_ms)


def look(step: StepContext) -> None:
    """Give control up if no answer is missing any more."""
    leaving = step.context.cluster.leaving
    if leaving is not None and step.context.is_leading and _is_settled(step.context, leaving):
        step.do(GiveUp(leaving.reason))


def time_is_over(step: StepContext) -> None:
    """The timer fired: give control up, even if answers are missing."""
    leaving = step.context.cluster.leaving
    if leaving is not None and step.context.is_leading:
        step.do(GiveUp(leaving.reason))


def _is_settled(context: Context, leaving: PendingResignation) -> bool:
    """Return whether all answers are there. Drops settled topics, so that each is checked once for many answers."""
    if any(broker in context.cluster.brokers for broker in context.cluster.owed):
        return False
    while leaving.pending:
        name = next(iter(leaving.pending))
        deletion = context.cluster.deletions.get(name)
        if deletion is not None and deletion.owing_tombstone:
            return False
        del leaving.pending[name]
    return True


def unproven(context: Context) -> UnconfirmedDeletions:
    """Return `unconfirmed_deletions` without the marked topics: what a later controller cannot find in ZooKeeper."""
    gone = {broker: tuple(owing_broker.topics) for broker, owing_broker in context.cluster.owed.items()}
    ghosts = {broker: tuple(found) for broker, found in context.cluster.caches.ghosts.items() if found}
    missed: dict[BrokerId, tuple[str, ...]] = {}
    for broker, names in context.cluster.caches.missed.items():
        said = {*gone.get(broker, ()), *ghosts.get(broker, ())}
        left = tuple(name for name in names if name not in said)
        if left:
            missed[broker] = left
    return UnconfirmedDeletions(gone, {}, ghosts, missed)


def awaited(context: Context) -> UnconfirmedDeletions:
    """Return the tombstones that registered brokers have not answered, as of now."""
    left = unconfirmed_deletions(context)
    gone = {broker: names for broker, names in left.gone.items() if broker in context.cluster.brokers}
    return NOTHING_UNCONFIRMED._replace(gone=gone, marked=left.marked)


def unconfirmed_deletions(context: Context) -> UnconfirmedDeletions:
    """Return the tombstones that brokers have not answered, and the topics that caches may show, as of now."""
    marked: dict[BrokerId, list[str]] = {}
    for name, deletion in context.cluster.deletions.items():
        for broker in deletion.owing_tombstone:
            marked.setdefault(broker, []).append(name)
    return unproven(context)._replace(marked={broker: tuple(names) for broker, names in marked.items()})
