"""The trash: a topic that is deleted with a grace period can be brought back until that is over.

    phase        ZooKeeper                                        brokers
    -----------  -----------------------------------------------  --------------------------------------------------
    (held)       topic and marker                                 serve it
    `freezing`   the same, with an entry in the trash; retention  serve it; they get `trash_freeze_ms` to notice that
                 is switched off                                  nothing may be removed. Then the committed offsets of
                                                                  all consumer groups are read (`trash_in`)
    `trashed`    only entry, offsets and settings                 got the tombstone and StopReplica without delete: they
                                                                  keep the records
    `restoring`  topic (same id), entry, offsets                  serve it again, from the next leader epoch
                                                                  (`trash_out`); offsets are committed (`trash_after`)
    `offsets`    the same, with its own settings                  some groups have members and take no offsets yet
    (deleted)    topic and marker again, no entry                 as in any deletion (`trash_end`)

Each step is one multi, so a later controller finds the topic in one of these phases and goes on. The name of a topic in
phase `trashed` is reserved: a topic that is made under it is set aside, since brokers with the old directories would
refuse it (INCONSISTENT_TOPIC_ID).

Retention: a configuration change reaches a broker through a watch, and no answer of a broker proves that its log has
it, as DescribeConfigs reads ZooKeeper. So only the age of the notification counts. It is compared when the
topic leaves service and on the way back, and switched off again if somebody has changed it (`trash_settings`).

Offsets that a group commits after they were read, and before the brokers drop the topic, are lost with it: the group
reads these records again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import DeletionProblem
from lethe.controller.core.effects import WatchTrash
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ReadTopics
from lethe.controller.core.tasks_trash import (
    FreezeTopics,
    RestoreSettings,
    TrashWritten,
)
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.protocol.back_off import BackOff
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType, JsonValue, partition_ranges
from lethe.protocol.journal_trash import RESTORED, TRASHED
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Create,
    Delete,
    Operation,
    SetData,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase

MOVING: Final = "moving the topic into the trash"
RESTORING: Final = "bringing the topic back"
NAME_IS_TAKEN: Final = (
    "another topic has its name, and cannot be deleted while this one is in the trash: remove that topic's znodes "
    "below /brokers/topics by hand"
)
PURGING: Final = "deleting the topic from the trash"
"""Refused actions in event records. Old journals contain these texts: never change one."""

LOOK_SOON_MS: Final = 5_000
"""Brokers are asked for their log directories so long after a reason for it: topics go into the trash together."""


def is_unknown(context: Context, name: str) -> bool:
    """Return whether the topic's znode is there and cannot be read: it may be of the topic that the entry is about."""
    aside = context.cluster.quarantined_topics.get(name)
    is_trashed = context.cluster.trash.in_phase(name, TrashPhase.TRASHED) is not None
    return aside is not None and aside.cause is not CauseKind.NAME_RESERVED and not is_trashed


def is_void(context: Context, name: str) -> bool:
    """Return whether the entry is of a topic that is gone, and not in the trash: another one may have its name."""
    found, topic = context.cluster.trash.topics[name], context.cluster.topics.get(name)
    if found.phase is TrashPhase.TRASHED or is_unknown(context, name):
        return False
    return topic is None or (topic.id != found.entry.topic_id and not topic.is_made_up)


def drop_void(step: StepContext, names: Iterable[str]) -> tuple[str, ...]:
    """Remove the entries of topics that are gone; return the other names. Their offsets and settings would go to
    another topic of the name, or to none."""
    valid = {name: not is_void(step.context, name) for name in names}
    if void := [name for name, is_valid in valid.items() if not is_valid]:
        write_entries(step, [(name, None) for name in void])
    return tuple(name for name, is_valid in valid.items() if is_valid)


# --- time ---------------------------------------------------------------------------------------------------------


def due_at_ms(context: Context, found: TrashedTopic) -> int:
    """Return when the topic's next step is due."""
    waits_ms = {TrashPhase.FREEZING: context.config.trash_freeze_ms, TrashPhase.TRASHED: found.entry.grace_ms}
    if found.is_requested or found.end_requested is not None:
        return found.retry_at_ms
    # The notification that brokers are to notice was written with the entry, later than the time in it.
    # The clock of the controller that wrote an entry may have been slow: ZooKeeper's says when that was.
    since_ms = found.seen_ms if found.phase is TrashPhase.FREEZING else max(found.entry.since_ms, found.written_ms)
    return max(since_ms + waits_ms.get(found.phase, 0), found.retry_at_ms)


def arm(step: StepContext) -> None:
    """Set the timer for the next step of any topic."""
    context, trash = step.context, step.context.cluster.trash
    at_ms = [due_at_ms(context, found) for found in trash.topics.values() if not found.is_asked]
    at_ms += [*trash.retries.values(), *(look.ends_at_ms for look in trash.looks)]
    if (look_ms := trash.disks.due_at_ms) is not None:
        at_ms.append(look_ms)
    if at_ms:
        step.set_timer(WatchTrash(), max(min(at_ms), step.now_ms))


def look_soon(step: StepContext) -> None:
    """Ask brokers for their log directories soon, if anything is in the trash (`trash_disks`)."""
    context, memory = step.context, step.context.cluster.trash
    if not context.config.trash_look_ms or context.config.only_topics is not None:
        return
    if memory.disks.giving is None and not any(each.phase is TrashPhase.TRASHED for each in memory.topics.values()):
        return
    at_ms = step.now_ms + LOOK_SOON_MS
    memory.disks.look_at_ms = at_ms if memory.disks.look_at_ms is None else min(at_ms, memory.disks.look_at_ms)
    arm(step)


def put_off(step: StepContext, name: str, what: str, why: str) -> None:
    """Record why the topic's next step failed, and schedule another attempt."""
    context, trash = step.context, step.context.cluster.trash
    found = trash.topics.get(name)
    mark = context.cluster.marks.get(name)
    if found is None:
        is_known = mark is not None and mark.last_error == why
        trash.retries[name] = step.now_ms + context.config.retry_max_ms
    else:
        is_known = found.problem is not None and found.problem.what == why
        found.problem = DeletionProblem.met(found.problem, why, step.now_ms)
        back_off = BackOff(context.config.retry_min_ms, context.config.retry_max_ms)
        found.retry_at_ms, found.is_asked = step.now_ms + back_off.wait_ms(found.problem.attempts), False
    if not is_known:
        step.refuse(f"topic/{name}", what, why)
    if mark is not None and mark.held_by is CauseKind.TRASH:
        context.cluster.marks[name] = mark._replace(last_error=why)


# --- entries ------------------------------------------------------------------------------------------------------


def entry_write(name: str, entry: TrashEntry) -> SetData:
    """Return the write of an existing entry. Only controllers write entries, and every write is fenced."""
    return SetData(paths.trashed(name), znodes.encode_trash(entry), ANY_VERSION)


def entry_deletes(name: str, entry: TrashEntry) -> tuple[Operation, ...]:
    """Return the deletes of an entry and its offsets."""
    offsets = (Delete(paths.trashed_offsets(name, number)) for number in range(entry.offsets))
    return (*offsets, Delete(paths.trashed(name)))


def write_entries(step: StepContext, entries: Sequence[tuple[str, TrashEntry | None]]) -> None:
    """Write these entries; remove those without content."""
    topics = step.context.cluster.trash.topics
    groups = [
        entry_deletes(name, topics[name].entry) if entry is None else (entry_write(name, entry),)
        for name, entry in entries
    ]
    step.write(groups, TrashWritten(tuple(entries), groups))


def thaw(step: StepContext, topics: Sequence[tuple[str, TrashEntry]]) -> None:
    """Give topics back their settings that were to go into the trash, and stay."""
    if topics:
        write_entries(step, [(name, entry.entering(TrashPhase.RESTORING, step.now_ms)) for name, entry in topics])


def on_trash_written(step: StepContext, task: TrashWritten, outcomes: Sequence[GroupOutcome]) -> None:
    """Store the written entries; restore the settings of topics that stay.

    A topic that was marked again for the trash while it came back has waited for the end of its former entry. Where a
    znode is gone already, the rest is written again without it."""
    trash = step.context.cluster.trash
    outcomes = outcomes[task.parents :]
    restoring: list[str] = []
    removed: list[str] = []
    rests: dict[str, tuple[Operation, ...]] = {}
    for (name, entry), group, outcome in zip(task.entries, task.groups, outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            rest = _rest(step, name, group, outcome)
            if entry is not None and entry.phase is TrashPhase.RESTORING and outcome.error is ZkError.NO_NODE:
                # Memory alone has the settings of a topic that stays.
                trash.topics[name] = TrashedTopic(entry, step.now_ms)
                restoring.append(name)
            elif rest is None:
                put_off(step, name, MOVING, error_words(outcome.error))
            elif rest:
                rests[name] = rest
            else:
                removed.append(name)
        elif entry is None:
            removed.append(name)
        else:
            trash.retries.pop(name, None)
            left = {} if name not in trash.topics else trash.topics[name].groups_left
            frozen, before = task.frozen.get(name), trash.in_phase(name, TrashPhase.FREEZING)
            # Retention that is switched off again and again is off in vain, too.
            problem = before.problem if before is not None and entry.phase is TrashPhase.FREEZING else None
            trash.topics[name] = TrashedTopic(
                entry, step.now_ms, problem=problem, groups_left=left, frozen_version=frozen
            )
            if entry.phase is TrashPhase.OFFSETS:
                trash.topics[name].retry_at_ms = step.now_ms + step.context.config.retry_max_ms
            if entry.phase is TrashPhase.RESTORING:
                restoring.append(name)
    restored = tuple(name for name in task.restored if name in step.context.cluster.topics)
    if rests:
        entries, groups = tuple((name, None) for name in rests), tuple(rests.values())
        step.write(groups, TrashWritten(entries, groups, restored=restored))
    for name in removed:
        found = trash.topics.pop(name, None)
        if found is not None and name in restored:
            record(step, name, RESTORED, found.entry)
    free_name(step, removed)
    marks = step.context.cluster.marks
    marked = tuple(name for name in removed if name in marks and marks[name].held_by is CauseKind.TRASH)
    if marked:
        step.do(FreezeTopics(marked))
    if restoring:
        step.do(RestoreSettings(tuple(restoring)))
    arm(step)


def _rest(
    step: StepContext, name: str, group: tuple[Operation, ...], failed: GroupFailed
) -> tuple[Operation, ...] | None:
    """Return what is still to be written, to remove the entry; None: the write failed for another reason.

    failed with NO_NODE                              the rest
    -----------------------------------------------  -----------------------------------------------------
    the delete of the entry or some of its offsets   the group without this delete
    the check of a topic that memory has not either  the deletes of the entry: there are no settings to restore
    anything else                                    None"""
    if failed.error is not ZkError.NO_NODE or failed.index_in_group < 0:
        return None
    cluster, operation = step.context.cluster, group[failed.index_in_group]
    if isinstance(operation, Delete):
        return tuple(each for each in group if each is not operation)
    found = cluster.trash.topics.get(name)
    if found is None or name in cluster.topics or operation.path != paths.topic(name):
        return None
    return entry_deletes(name, found.entry)


def vanished(step: StepContext, names: Iterable[str]) -> None:
    """The znodes of these topics were removed by another process: remove the entries of those not in the trash."""
    topics = step.context.cluster.trash.topics
    gone = [name for name in names if name in topics and topics[name].phase is not TrashPhase.TRASHED]
    if gone:
        write_entries(step, [(name, None) for name in gone])


def free_name(step: StepContext, names: Iterable[str]) -> None:
    """Read topics again that were set aside because their names were reserved."""
    aside = tuple(name for name in names if name in step.context.cluster.quarantined_topics)
    if aside:
        step.do(ReadTopics(aside))


def parents() -> tuple[tuple[Operation, ...], ...]:
    """Return the groups that create the parents of entries; each fails harmlessly if its znode exists."""
    return ((Create(paths.lethe(), None),), (Create(paths.trash(), None),))


def record(step: StepContext, name: str, what: str, entry: TrashEntry, **said: JsonValue) -> None:
    """Record an event of the topic."""
    if what == TRASHED:
        said["until_ms"] = entry.until_ms
    topic_id, ranges = topic_id_to_text(entry.topic_id), partition_ranges(entry.partitions)
    step.record(EventRecordType.EVENT, f"topic/{name}", what=what, partitions=ranges, topic_id=topic_id, **said)
