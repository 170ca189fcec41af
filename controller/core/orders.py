"""The orders in the data of deletion markers: read when a marker is first seen, and again when a topic waits.

    the marker                                  what follows
    ------------------------------------------  -----------------------------------------------------------------
    has no data, or no order that is known      the topic is deleted as the controller is configured
    orders something that is not understood,    the topic is held (ORDERS): it may have been an order to keep
      or cannot be read                           something
    is written while the topic is held so       it is read again
    is written, or removed and created anew,    it is read again, and the new orders hold; what cannot be understood
      while the deletion waits for an absent      then changes nothing
      broker
    names another incarnation of the topic      it is refused (`named_incarnation`); a deletion under way goes on as
                                                  before

Only such markers are watched: others are not worth a watch each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from lethe.controller.core import relisting
from lethe.controller.core.deletion_memory import NO_ORDERS, OTHER_INCARNATION
from lethe.controller.core.events import DeletionMarkerModified
from lethe.controller.core.partition_sets import ReplicaColumns
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import OrdersRead, WatchOrders
from lethe.controller.core.tasks_deletion import ListDeletions, ResumeDeletions
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData, ReadOutcome, error_words, is_absent, read_error
from lethe.protocol.zookeeper.znodes import DeletionOrders

OBEYING: Final = "obeying the new orders in its deletion marker"
"""The refused action in event records. Old journals contain it: never change it."""


def said(outcome: ReadOutcome) -> DeletionOrders:
    """Return what a marker orders, from the read of its data; a marker that is gone orders nothing."""
    if isinstance(outcome, Data):
        return znodes.decode_deletion_marker(outcome.data)
    error = read_error(outcome)
    return NO_ORDERS if error is None else DeletionOrders(problem=f"reading it failed with {error_words(error)}")


def names_another(orders: DeletionOrders, czxid: int) -> bool:
    """Return True if the marker names another incarnation than the one with this czxid, whose deletion has not begun
    either."""
    return orders.topic_czxid not in (None, czxid) and orders.begun != czxid


def wait_for(step: StepContext, replicas: ReplicaColumns) -> None:
    """Have the markers watched of those of these queued topics that wait for an absent broker, unless they are."""
    cluster = step.context.cluster
    waiting = (name for name, columns in replicas.items() if any(map(cluster.is_absent, columns)))
    unwatched = tuple(name for name in waiting if not cluster.deletions[name].orders_watched)
    for name in unwatched:
        cluster.deletions[name].orders_watched = True
    if unwatched:
        step.do(WatchOrders(unwatched))


def modified(step: StepContext, event: DeletionMarkerModified) -> None:
    """A watched marker has changed: read it again; if the topic is not queued, with all others.

    The children watch of `/admin/delete_topics` reports the end of a held topic's marker."""
    cluster = step.context.cluster
    if cluster.is_queued(event.topic):
        step.do(WatchOrders((event.topic,)))
    elif not event.is_gone and not relisting.postpone(step):
        step.do(ListDeletions())


def listed(step: StepContext, marked: Iterable[str]) -> None:
    """Read the markers again that were removed and created anew while their topics were queued."""
    deletions = step.context.cluster.deletions
    anew = tuple(name for name in marked if name in deletions and deletions[name].orders_missed)
    if anew:
        step.do(WatchOrders(anew))


def watch(step: StepContext, task: WatchOrders) -> None:
    """Read the markers, and watch their data."""
    step.read((GetData(paths.delete_topic(name), watch=True) for name in task.topics), OrdersRead(task.topics))


def on_orders_read(step: StepContext, task: OrdersRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the orders, and continue topics whose orders have changed. A removed marker changes nothing yet."""
    deletions, topics = step.context.cluster.deletions, step.context.cluster.topics
    changed: list[str] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        deletion = deletions.get(name)
        if deletion is None:
            continue
        deletion.orders_missed = is_absent(outcome)
        if not isinstance(outcome, Data):
            continue
        orders = said(outcome)
        if orders.problem is not None:
            step.refuse(f"topic/{name}", OBEYING, orders.problem)
        elif names_another(orders, topics[name].created_zxid):
            step.refuse(f"topic/{name}", OBEYING, OTHER_INCARNATION)
        elif replace(orders, begun=None) != replace(deletion.orders, begun=None):
            deletion.orders = orders
            changed.append(name)
    if changed:
        step.do(ResumeDeletions(tuple(changed), unblock=True))
