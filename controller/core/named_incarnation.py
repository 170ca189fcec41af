"""Markers that name the incarnation of their topic: they delete no other one.

A plan of deletions is agreed on for topics that were looked at. ZooKeeper cannot check in a multi that a znode is still
the one that was read: a topic that was removed and created again has version 0 again. So the plan's markers name the
topic by the czxid of its znode (`DeletionOrders.topic_czxid`), and the controller compares:

    the marker names   memory has   ZooKeeper has   result
    -----------------  -----------  --------------  --------------------------------------------------------
    nothing            any          (not read)      an ordinary marker: deletes whichever topic has the name
    5                  5            (not read)      the same
    5                  9            9               refused: the marker is removed, the topic stays
    5                  3            5               memory is late: the topic is read again, then the markers
    5                  9            none            topics and markers are listed again
    5                  unreadable   9               held, also where the marker orders its deletion nevertheless

While ZooKeeper is read, the topic is held. A deletion that has begun, by the marker's note (`pausing`), goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import orders
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import NO_ORDERS
from lethe.controller.core.holding import hold
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListTopics, ReadModifiedTopics
from lethe.controller.core.tasks_deletion import CompareIncarnations, IncarnationsRead, ListDeletions, MarkersRemoved
from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Data,
    Delete,
    Exists,
    GetData,
    Operation,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    error_words,
    is_absent,
)


def differing(context: Context, marked: Sequence[str]) -> tuple[str, ...]:
    """Return those of these marked topics whose markers name another incarnation than memory has."""
    cluster = context.cluster
    found = frozenset(name for name in cluster.marker_orders if _is_other(context, name))
    return () if not found else tuple(name for name in marked if name in found and not cluster.is_queued(name))


def _is_other(context: Context, name: str) -> bool:
    topic = context.cluster.topics.get(name)
    ordered = context.cluster.marker_orders.get(name, NO_ORDERS)
    return topic is not None and orders.names_another(ordered, topic.created_zxid)


def compare(step: StepContext, task: CompareIncarnations) -> None:
    """Read these topics' markers, and whether the incarnations that they name exist."""
    reads: list[Read] = []
    for name in task.topics:
        hold(step, name, CauseKind.OTHER_INCARNATION)
        reads += (GetData(paths.delete_topic(name)), Exists(paths.topic(name)))
    step.read(reads, IncarnationsRead(task.topics))


def on_incarnations_read(step: StepContext, task: IncarnationsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Refuse the markers that name an earlier incarnation; read topics and markers again where memory is late."""
    cluster = step.context.cluster
    refused: dict[str, Operation] = {}
    is_new: list[str] = []
    is_late = False
    for name, marker, there in zip(task.topics, outcomes[::2], outcomes[1::2], strict=True):
        topic = cluster.topics.get(name)
        if topic is None or is_absent(marker) or cluster.is_queued(name):
            # The watches report what has changed.
            continue
        cluster.marker_orders[name] = orders.said(marker)
        if isinstance(there, ReadFailed) and not is_absent(there):
            hold(step, name, CauseKind.OTHER_INCARNATION, error_words(there.error))
        elif isinstance(there, Present) and there.stat.czxid != topic.created_zxid:
            is_new.append(name)
        elif isinstance(there, Present) and isinstance(marker, Data) and _is_other(step.context, name):
            refused[name] = Delete(paths.delete_topic(name), marker.stat.version)
        else:
            is_late = True
    if is_new:
        step.do(ReadModifiedTopics(tuple(is_new)))
    if is_late:
        step.do(ListTopics(), ListDeletions())
    if refused:
        step.write([(delete,) for delete in refused.values()], MarkersRemoved(tuple(refused), others=True))
