"""Restores committed offsets and settings of topics that were brought back: see `trash`.

An offset that a group has committed since is newer, and stays. A group with members takes no offsets from others: its
offsets are tried again until the group is empty, or has committed its own.

A coordinator drops what it has of a topic when it takes the topic's tombstone, even if the topic is back by then. So it
gets the offsets only after every tombstone that was sent to it:

    the coordinator                                      its offsets
    ---------------------------------------------------  ---------------------------------------------------------
    has not accepted a request of this controller yet    wait: a tombstone of the controller before may arrive
    owes this controller's tombstone, or has not         wait: what it has now, it will drop
    answered an UpdateMetadata with it
    has answered both                                    are committed; it refuses requests of earlier controllers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lethe.controller.core import coordinators, owed, trash
from lethe.controller.core.context import Context
from lethe.controller.core.effects import CommitOffsets, GroupCommit
from lethe.controller.core.events import OffsetsCommitted
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_trash import (
    RestoreOffsets,
    RestoreSettings,
    SavedOffsetsRead,
    SettingsToRestoreRead,
    TrashWritten,
)
from lethe.controller.core.trash import RESTORING, put_off
from lethe.controller.core.trash_frozen import decoded, thawed
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.protocol.kafka.group_offsets import HAS_MEMBERS, CommittedOffset
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Data,
    GetData,
    Operation,
    ReadOutcome,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase

ATTEMPTS_BEFORE_SETTINGS: Final = 5
"""After so many attempts to commit offsets, retention is switched on again although some are not committed."""
_BACK: Final = (TrashPhase.RESTORING, TrashPhase.OFFSETS)


def restore_offsets(step: StepContext, task: RestoreOffsets) -> None:
    """Read the saved offsets; restore the settings of topics without any."""
    memory = step.context.cluster.trash
    back = trash.drop_void(step, (name for name in task.topics if memory.in_phase(name, *_BACK) is not None))
    found = {name: memory.topics[name].entry for name in back}
    with_offsets = {name: entry.offsets for name, entry in found.items() if entry.offsets}
    without = tuple(name for name in found if name not in with_offsets)
    if without:
        step.do(RestoreSettings(without))
    if with_offsets:
        reads = (GetData(paths.trashed_offsets(name, n)) for name, count in with_offsets.items() for n in range(count))
        step.read(reads, SavedOffsetsRead(tuple(with_offsets), tuple(with_offsets.values())))
    trash.arm(step)


def on_saved_offsets_read(step: StepContext, task: SavedOffsetsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Commit the offsets of each group at its coordinator."""
    context = step.context
    at = 0
    by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
    asked: list[str] = []
    late: list[str] = []
    for name, count in zip(task.topics, task.counts, strict=True):
        mine, at = outcomes[at : at + count], at + count
        found, groups = context.cluster.trash.topics[name], _decoded(name, mine)
        found.has_unread_offsets = isinstance(groups, str)
        if isinstance(groups, str):
            if _is_late(found):
                late.append(name)
            put_off(step, name, RESTORING, groups)
            continue
        asked.append(name)
        for group, offsets in groups.items():
            by_group.setdefault(group, {})[name] = offsets
    commits, unready = _commits(context, by_group)
    if asked:
        effect_id = step.next_effect_id()
        context.cluster.trash.ask(effect_id, tuple(asked))
        context.cluster.trash.unready[effect_id] = unready
        step.emit(CommitOffsets(effect_id, commits))
    if late:
        step.do(RestoreSettings(tuple(late)))
    trash.arm(step)


def _commits(
    context: Context, by_group: Mapping[str, Mapping[str, Mapping[int, CommittedOffset]]]
) -> tuple[tuple[GroupCommit, ...], dict[str, dict[str, str]]]:
    """Return what is to be committed, and by topic the groups whose coordinators get nothing yet, with the reason."""
    commits: list[GroupCommit] = []
    unready: dict[str, dict[str, str]] = {}
    expected: dict[BrokerId, frozenset[str]] = {}
    for group, topics in by_group.items():
        coordinator = coordinators.of_group(context, group)
        ready: dict[str, Mapping[int, CommittedOffset]] = {}
        for name, offsets in topics.items():
            why = coordinator if isinstance(coordinator, str) else _may_drop(context, coordinator.id, name, expected)
            if why is None:
                ready[name] = offsets
            else:
                unready.setdefault(name, {})[group] = why
        if ready and isinstance(coordinator, Broker):
            commits.append(GroupCommit(group, context.control_endpoint(coordinator), ready))
    return tuple(commits), unready


def _may_drop(context: Context, broker: BrokerId, name: str, expected: dict[BrokerId, frozenset[str]]) -> str | None:
    """Return why the broker may still drop the offsets of the topic; None if it cannot. `expected`: see `owed`."""
    last = context.cluster.last_answers.get(broker)
    if last is None or not last.has_accepted:
        return f"broker {broker} has not accepted a request of this controller yet"
    if broker not in expected:
        expected[broker] = owed.expected_by(context, broker)
    return f"broker {broker} has not answered the topic's tombstone yet" if name in expected[broker] else None


def _decoded(name: str, outcomes: Sequence[ReadOutcome]) -> dict[str, dict[int, CommittedOffset]] | str:
    """Return the saved offsets by group, or why they cannot be read."""
    groups: dict[str, dict[int, CommittedOffset]] = {}
    for number, outcome in enumerate(outcomes):
        path = paths.trashed_offsets(name, number)
        if not isinstance(outcome, Data):
            return f"{path} cannot be read: {'it is gone' if is_absent(outcome) else failure_words(outcome)}"
        try:
            for group, offsets in znodes.decode_offsets(path, outcome.data).items():
                groups.setdefault(group, {}).update(offsets)
        except znodes.MalformedZnode as malformed:
            return str(malformed)
    return groups


def on_offsets_committed(step: StepContext, event: OffsetsCommitted) -> None:
    """Restore the settings; try again what was not committed."""
    memory = step.context.cluster.trash
    ready: list[str] = []
    unready = memory.unready.pop(event.id, {})
    for name in memory.answered(event.id, *_BACK):
        found = memory.topics[name]
        found.groups_left = {**unready.get(name, {}), **event.problems.get(name, {})}
        if found.groups_left and not _may_go_on(found):
            put_off(step, name, RESTORING, _words(found.groups_left))
        else:
            ready.append(name)
    if ready:
        step.do(RestoreSettings(tuple(ready)))
    trash.arm(step)


def _may_go_on(found: TrashedTopic) -> bool:
    """Whether the settings are restored although offsets are left. Errors that are not about a group's members may end
    within seconds: brokers have just been sent the topic."""
    has_members = found.phase is TrashPhase.RESTORING and set(found.groups_left.values()) == {HAS_MEMBERS}
    return has_members or _is_late(found)


def _is_late(found: TrashedTopic) -> bool:
    attempts = found.problem.attempts if found.problem else 0
    return found.phase is TrashPhase.RESTORING and attempts + 1 >= ATTEMPTS_BEFORE_SETTINGS


def _words(left: Mapping[str, str]) -> str:
    shown = "; ".join(f"group {group}: {why}" for group, why in sorted(left.items())[:5])
    return f"offsets are not committed yet: {shown}"


# --- settings -----------------------------------------------------------------------------------------------------


def restore_settings(step: StepContext, task: RestoreSettings) -> None:
    """Read the present settings: a person may have changed others meanwhile."""
    memory = step.context.cluster.trash
    names = tuple(name for name in task.topics if memory.in_phase(name, *_BACK) is not None)
    if names:
        step.read((GetData(paths.config_topic(name)) for name in names), SettingsToRestoreRead(names))


def on_settings_to_restore_read(
    step: StepContext, task: SettingsToRestoreRead, outcomes: Sequence[ReadOutcome]
) -> None:
    """Write the settings, and remove the entry if every offset is committed, in one multi for each topic."""
    memory = step.context.cluster.trash
    groups: list[tuple[Operation, ...]] = []
    entries: list[tuple[str, TrashEntry | None]] = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        found = memory.topics[name]
        settings = () if found.phase is TrashPhase.OFFSETS else _restored(name, found.entry, outcome)
        if isinstance(settings, str):
            put_off(step, name, RESTORING, settings)
            continue
        is_incomplete = bool(found.groups_left) or found.has_unread_offsets
        entry = replace(found.entry, phase=TrashPhase.OFFSETS, since_ms=step.now_ms) if is_incomplete else None
        last = trash.entry_deletes(name, found.entry) if entry is None else (trash.entry_write(name, entry),)
        groups.append((*settings, *last))
        entries.append((name, entry))
    if groups:
        restored = tuple(name for name, entry in entries if entry is None)
        step.write(groups, TrashWritten(tuple(entries), groups, restored=restored))
    trash.arm(step)


def _restored(name: str, entry: TrashEntry, outcome: ReadOutcome) -> tuple[Operation, ...] | str:
    """Return the writes that undo what `trash_in` has frozen, or why they are unknown."""
    path, present = paths.config_topic(name), decoded(name, outcome)
    if isinstance(present, str):
        return present
    if not isinstance(outcome, Data) or present is None:
        # A topic that another process has just removed gets none.
        is_there = Check(paths.topic(name), ANY_VERSION)
        return (is_there, *config_operations(path, entry.config or {}, None))
    settings = thawed(entry.config, present)
    return config_operations(path, settings, outcome.stat.version)
