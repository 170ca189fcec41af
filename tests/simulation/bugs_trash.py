"""Bugs in the trash, in requests that bring topics back, and in deletions by a plan.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import deletion_plan_look
from lethe.admin.deletion_plan import TopicDeletionPlan
from lethe.admin.outcomes import Outcome, outcome_of
from lethe.controller.core import (
    batching,
    coordinators,
    pace,
    pausing,
    trash,
    trash_after,
    trash_end,
    trash_frozen,
    trash_in,
    trash_out,
    trash_settings,
    trash_takeover,
    undeleting,
)
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.topic import Topic
from lethe.controller.core.trash_memory import Trash, TrashedTopic
from lethe.protocol.deletion_grace import grace_of
from lethe.protocol.kafka.group_offsets import GroupOffsets
from lethe.protocol.vocabulary import LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Create, Data, Operation, ReadOutcome, is_absent
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    SavedPartition,
    TopicRequest,
    TrashEntry,
    TrashPhase,
    decode_deletion_marker,
    encode_deletion_marker,
)
from tests.simulation.planting import everywhere, method


def retention_not_awaited() -> AbstractContextManager[object]:
    """Topics leave service before brokers have noticed that retention is off."""

    def due_at_ms(context: Context, found: TrashedTopic) -> int:
        return max(found.entry.since_ms + found.entry.grace_ms if found.entry.partitions else 0, found.retry_at_ms)

    return everywhere(trash.due_at_ms, due_at_ms)


def retention_stays_off() -> AbstractContextManager[object]:
    """Topics leave the trash for their deletion without their settings, and may be spared it."""
    return method(trash_end, "_settings", lambda step, found, name, outcome: ())


def retention_not_compared() -> AbstractContextManager[object]:
    """Topics come back whatever has become of their settings in the trash."""

    def compare(step: StepContext, names: Sequence[str], outcomes: Sequence[ReadOutcome]) -> dict[str, Check | str]:
        return {name: Check(paths.trashed(name), ANY_VERSION) for name in names}

    return method(trash_settings, "compare", compare)


def retention_not_awaited_again() -> AbstractContextManager[object]:
    """Topics come back before brokers have noticed that retention is off again."""
    return method(trash_settings, "_noticed_at_ms", lambda step, again: step.now_ms)


def trashed_replicas_deleted() -> AbstractContextManager[object]:
    """StopReplica has replicas deleted that are to stay in the trash."""
    add = batching.RequestBatch.add_stop_replicas

    def deleting(self: batching.RequestBatch, broker: int, topic: str, partitions: int, *, delete: bool) -> None:
        is_trashed = self._context.cluster.trash.in_phase(topic, TrashPhase.TRASHED) is not None
        add(self, broker, topic, partitions, delete=delete or is_trashed)  # type: ignore[arg-type]

    return method(batching.RequestBatch, "add_stop_replicas", deleting)


@contextmanager
def restored_under_the_same_epoch() -> Iterator[None]:
    """A topic comes back under the leader epochs that it had."""
    next_state = trash_out.next_state

    def same(context: Context, saved: SavedPartition, has: tuple[int, ...]) -> LeaderAndIsr:
        return next_state(context, saved, has)._replace(leader_epoch=saved.leader_epoch)

    with everywhere(next_state, same):
        yield


def versions_begin_anew() -> AbstractContextManager[object]:
    """Topics come back with states of version 0, which brokers that have stayed up take for old news."""
    return everywhere(trash_out.version_writes, lambda name, states: ())


@contextmanager
def any_incarnation_purged() -> Iterator[None]:
    """A request to delete a topic from the trash is granted whichever incarnation it means, and not looked at again."""
    purge_problem = undeleting._purge_problem

    def any_id(context: Context, name: str, request: TopicRequest) -> str | None:
        found = context.cluster.trash.topics.get(name)
        return purge_problem(context, name, replace(request, topic_id=found.entry.topic_id) if found else request)

    with method(undeleting, "_purge_problem", any_id), method(trash_end, "_is_asked_for", lambda *_: True):
        yield


def empty_replica_comes_back() -> AbstractContextManager[object]:
    """Every live replica that was in sync is so again, whether its broker has the directory or not."""
    states = trash_out._states

    def all_have(context: Context, entry: TrashEntry, found: Mapping[int, int]) -> dict[int, LeaderAndIsr] | str:
        numbers = sum(1 << number for number in entry.partitions)
        return states(context, entry, dict.fromkeys(context.cluster.brokers, numbers))

    return method(trash_out, "_states", all_have)


def entry_removed_first() -> AbstractContextManager[object]:
    """The entry of a topic that comes back goes at once, with its offsets and settings."""
    write = trash.entry_write

    def removed(name: str, entry: TrashEntry) -> Operation:
        is_back = entry.phase is TrashPhase.RESTORING and entry.partitions
        return trash.entry_deletes(name, replace(entry, offsets=0))[0] if is_back else write(name, entry)

    return everywhere(write, removed)


def reserved_name_served() -> AbstractContextManager[object]:
    """Another topic of a name in the trash comes into service."""

    def reserves(self: Trash, name: str) -> None:
        return None

    return method(Trash, "reserves", reserves)


def offsets_not_saved() -> AbstractContextManager[object]:
    """Topics go into the trash without what groups have committed."""
    leave = trash_in._leave_service

    def without(step: StepContext, names: Sequence[str], offsets: Mapping[str, GroupOffsets]) -> None:
        leave(step, names, {})

    return method(trash_in, "_leave_service", without)


def unseen_coordinators_ignored() -> AbstractContextManager[object]:
    """Offsets are read from those coordinators that are known."""

    all_of = coordinators.all_of

    def known(context: Context) -> object:
        found = all_of(context)
        return () if isinstance(found, str) else found

    return method(coordinators, "all_of", known)


def settings_left_frozen() -> AbstractContextManager[object]:
    """Retention stays switched off after a return."""
    return method(trash_after, "_restored", lambda name, entry, outcome: ())


def deleted_settings_come_back() -> AbstractContextManager[object]:
    """What a client deletes while retention is off has its former value after that."""
    thawed = trash_frozen.thawed

    def all_thawed(before: Mapping[str, str] | None, present: Mapping[str, str]) -> dict[str, str]:
        return thawed(before, {**trash_frozen.FROZEN, **present})

    return everywhere(thawed, all_thawed)


def refused_marker_leaves_it_frozen() -> AbstractContextManager[object]:
    """A topic whose marker goes before it is in the trash stays without retention."""
    return method(trash, "thaw", lambda step, topics: None)


def not_announced_after_failover() -> AbstractContextManager[object]:
    """The next controller takes it that brokers have forgotten what is in the trash."""
    return method(trash_takeover, "_announce_absence", lambda step: None)


def undeleted_after_the_first_replica() -> AbstractContextManager[object]:
    """A topic stays by request although its deletion has begun."""

    def problem(context: Context, name: str, asked: undeleting._Asked) -> str | None:
        return "it is not marked for deletion" if is_absent(asked.marker) else None

    return method(undeleting, "_problem", problem)


def zero_grace_taken_for_none() -> AbstractContextManager[object]:
    """A marker that orders a grace period of 0 is taken for one that orders nothing."""
    original = trash_in.grace_ms

    def grace_ms(context: Context, name: str) -> int:
        orders = context.cluster.marker_orders.get(name)
        if orders is None or orders.grace_ms != 0:
            return original(context, name)
        return grace_of(name, context.grace)

    return everywhere(original, grace_ms)


def default_grace_ignored() -> AbstractContextManager[object]:
    """Topics go into the trash by their markers only."""
    ordered = trash_in.ordered

    def by_marker(context: Context, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            name
            for name in ordered(context, names)
            if (orders := context.cluster.marker_orders.get(name)) is not None and orders.grace_ms
        )

    return everywhere(ordered, by_marker)


def another_topic_marked_by_a_plan() -> AbstractContextManager[object]:
    """Between the last look and the marks a plan's topic may be replaced by another of its name."""

    async def mark_names(
        session: ZooKeeperSession, plan: TopicDeletionPlan, orders: DeletionOrders = deletion_plan_look.NO_ORDERS
    ) -> list[Outcome]:
        names = [topic.topic for topic in plan.topics]
        await session.read([])
        marks = [Create(paths.delete_topic(name), encode_deletion_marker(orders)) for name in names]
        outcome = await session.multi(marks)
        return [outcome_of(name, outcome, act="mark", done="marked") for name in names]

    return method(deletion_plan_look, "mark_as_planned", mark_names)


def plan_carried_out_in_part() -> AbstractContextManager[object]:
    """The topics of a plan are marked one by one."""

    async def mark_one_by_one(
        session: ZooKeeperSession, plan: TopicDeletionPlan, orders: DeletionOrders = deletion_plan_look.NO_ORDERS
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for topic in plan.topics:
            outcomes += await original(session, replace(plan, topics=(topic,)), orders)
        return outcomes

    original = deletion_plan_look.mark_as_planned
    return method(deletion_plan_look, "mark_as_planned", mark_one_by_one)


def end_unknown_after_failover() -> AbstractContextManager[object]:
    """The next controller takes what has left the trash for any marked topic."""

    def by_note(topic: Topic, marker: ReadOutcome) -> bool:
        return isinstance(marker, Data) and decode_deletion_marker(marker.data).begun == topic.created_zxid

    return everywhere(pausing.has_begun, by_note)


def trash_has_no_pace() -> AbstractContextManager[object]:
    """Any number of topics may leave the trash at once."""
    return everywhere(pace.wait_to_leave_ms, lambda step, size: 0)


def old_marker_counts() -> AbstractContextManager[object]:
    """A topic that came back and is marked again is deleted as its first marker ordered."""
    return method(undeleting, "drop_markers", lambda step, names: None)


ALL = (
    old_marker_counts,
    end_unknown_after_failover,
    trash_has_no_pace,
    retention_not_awaited,
    retention_stays_off,
    retention_not_compared,
    retention_not_awaited_again,
    trashed_replicas_deleted,
    restored_under_the_same_epoch,
    versions_begin_anew,
    any_incarnation_purged,
    empty_replica_comes_back,
    entry_removed_first,
    reserved_name_served,
    offsets_not_saved,
    unseen_coordinators_ignored,
    settings_left_frozen,
    deleted_settings_come_back,
    refused_marker_leaves_it_frozen,
    not_announced_after_failover,
    undeleted_after_the_first_replica,
    zero_grace_taken_for_none,
    default_grace_ignored,
    another_topic_marked_by_a_plan,
    plan_carried_out_in_part,
)
