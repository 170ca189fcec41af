"""Moves topics into the trash: see `trash`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lethe.controller.core import coordinators, missed, owed, trash
from lethe.controller.core.context import Context
from lethe.controller.core.deletion import phase
from lethe.controller.core.deletion_memory import LET_GO, NO_ORDERS
from lethe.controller.core.effects import ReadOffsets
from lethe.controller.core.events import OffsetsRead
from lethe.controller.core.mutation import queue_deletion, remove_topic
from lethe.controller.core.state_writes import is_stale
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import ListDeletions
from lethe.controller.core.tasks_reassignment import EndReassignments, TrimReassignments
from lethe.controller.core.tasks_requests import RefreshStates
from lethe.controller.core.tasks_trash import FreezeTopics, SettingsToFreezeRead, TopicsTrashed, TrashWritten
from lethe.controller.core.topic import Topic
from lethe.controller.core.trash import MOVING, put_off
from lethe.controller.core.trash_frozen import decoded, frozen_writes, thawed
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.controller.core.trash_out import in_service, next_state, registration_checks, topic_creates, version_bytes
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted
from lethe.protocol.deletion_grace import grace_of
from lethe.protocol.journal_trash import TRASHED
from lethe.protocol.kafka.group_offsets import GroupOffsets
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Create,
    Data,
    Delete,
    GetData,
    Operation,
    ReadOutcome,
    error_words,
)
from lethe.protocol.zookeeper.packing import REQUEST_LIMIT_BYTES, GroupFailed, GroupOutcome, operation_bytes
from lethe.protocol.zookeeper.znodes import SavedPartition, TrashEntry, TrashPhase

MAX_PARTITIONS: Final = 2_000
"""The znodes of a topic are created again in one multi, which ZooKeeper limits to a megabyte."""
FROZEN_IN_VAIN_MS: Final = 120_000
"""A topic on its way in keeps its retention off for so long after the first failure."""
MAX_BYTES: Final = REQUEST_LIMIT_BYTES - 20_000
"""The same in bytes, on the way in or back; later controllers have higher epochs, and a request is removed too."""
BACK_BEFORE: Final = (
    "it was brought back from the trash before, and offsets of consumer groups are still to be committed"
)


def grace_ms(context: Context, name: str) -> int:
    """Return for how long the marked topic is to stay in the trash; 0: it is deleted at once, or that has begun.

    An order of the marker comes first; then what holds since its retention was switched off; then the configuration."""
    cluster, topic = context.cluster, context.cluster.topics[name]
    orders = cluster.marker_orders.get(name, NO_ORDERS)
    if topic.is_made_up or orders.begun == topic.created_zxid:
        return 0
    if orders.grace_ms is not None:
        return orders.grace_ms
    freezing = cluster.trash.in_phase(name, TrashPhase.FREEZING)
    is_same = freezing is not None and freezing.entry.topic_id == topic.id
    return freezing.entry.grace_ms if freezing is not None and is_same else grace_of(name, context.grace)


def ordered(context: Context, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these marked topics that are to go into the trash."""
    may_be = context.cluster.marker_orders or context.grace or context.cluster.trash.topics
    return tuple(name for name in names if grace_ms(context, name)) if may_be else ()


def let_go(step: StepContext, names: Sequence[str]) -> None:
    """The markers of these topics are gone: switch retention on again where it was switched off."""
    memory = step.context.cluster.trash
    found = {name: entry.entry for name in names if (entry := memory.in_phase(name, TrashPhase.FREEZING)) is not None}
    for name in names:
        memory.retries.pop(name, None)
        memory.given_up.pop(name, None)
    trash.thaw(step, tuple(found.items()))


def thaw_unmarked(step: StepContext, names: Sequence[str]) -> None:
    """Switch retention on again for those of these topics, on their way in, that are marked no more: an earlier attempt
    has failed, or the topic's znode could not be read then."""
    cluster = step.context.cluster
    entries = {name: cluster.trash.topics[name].entry for name in names if name not in cluster.marks}
    here = {name: topic.id for name in entries if (topic := cluster.topics.get(name)) is not None}
    trash.thaw(step, [(name, entry) for name, entry in entries.items() if here.get(name) == entry.topic_id])


def freeze(step: StepContext, task: FreezeTopics) -> None:
    """Read the settings of topics that have no entry yet; the others continue by the timer.

    Not during a pause: at its end all marked topics are looked at. So are, at once, those that got their settings back
    and that nothing orders into the trash any more."""
    cluster = step.context.cluster
    memory = cluster.trash
    new: list[str] = []
    held = tuple(name for name in task.topics if _is_held(step.context, name))
    if held and ordered(step.context, held) != held:
        step.do(ListDeletions())
    for name in ordered(step.context, held) if cluster.paused is None else ():
        if step.now_ms < memory.given_up.get(name, 0):
            memory.retries[name] = memory.given_up[name]
            continue
        memory.given_up.pop(name, None)
        if memory.in_phase(name, TrashPhase.FREEZING) is not None:
            if task.again:
                new.append(name)
        elif name in memory.topics and step.context.config.only_topics is None:
            _await_former_entry(step, name)
        else:
            problem = _problem(step.context, name)
            if problem is None:
                new.append(name)
            else:
                put_off(step, name, MOVING, problem)
    if new:
        step.read((GetData(paths.config_topic(name)) for name in new), SettingsToFreezeRead(tuple(new)))
    trash.arm(step)


def _await_former_entry(step: StepContext, name: str) -> None:
    """Say once that the topic's return from the trash has to end first; `trash.on_trash_written` continues then.

    The entry goes on by its own timer: every list of markers comes here, and must not put it off."""
    mark, problem = step.context.cluster.marks[name], step.context.cluster.trash.topics[name].problem
    if mark.last_error != BACK_BEFORE and (problem is None or mark.last_error != problem.what):
        step.refuse(f"topic/{name}", MOVING, BACK_BEFORE)
        step.context.cluster.marks[name] = mark._replace(last_error=BACK_BEFORE)


def _is_held(context: Context, name: str) -> bool:
    mark = context.cluster.marks.get(name)
    return mark is not None and mark.held_by is CauseKind.TRASH and name in context.cluster.topics


def _problem(context: Context, name: str) -> str | None:
    """Return why the topic cannot go into the trash; None if it can."""
    cluster, topic = context.cluster, context.cluster.topics[name]
    if context.config.only_topics is not None:
        return "this controller is here for a rescue, and the trash needs one that stays"
    if topic.id is None:
        return "it has no id, by which brokers could tell its directories from those of a later topic"
    if not topic.partitions:
        return "it has no partitions"
    if len(topic.partitions) > MAX_PARTITIONS:
        return (
            f"it has {counted(len(topic.partitions), 'partition')}; topics with more than {MAX_PARTITIONS} do not fit"
        )
    reserved = cluster.trash.reserves(name)
    if reserved is not None:
        return reserved.reason
    # Judged before retention is switched off: a topic that can never fit would stay in service without retention.
    entry = TrashEntry(TrashPhase.TRASHED, topic.id, 0, 0, None, _saved(topic))
    return _does_not_fit(context, name, entry, (), 0)


def _saved(topic: Topic) -> dict[int, SavedPartition]:
    """Return the partitions that have a state, as the entry keeps them."""
    return {n: SavedPartition.of(each.assignment.replicas, state) for n, each, state in topic.leaders(topic.led)}


def on_settings_to_freeze_read(step: StepContext, task: SettingsToFreezeRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Switch retention off, and create the entry, in one multi for each topic. An entry that exists keeps what was
    changed meanwhile."""
    context = step.context
    groups: list[tuple[Operation, ...]] = [] if context.cluster.trash.parents_exist else [*trash.parents()]
    parents = len(groups)
    entries: list[tuple[str, TrashEntry | None]] = []
    versions: dict[str, int] = {}
    for name, outcome in zip(task.topics, outcomes, strict=True):
        topic_id = context.cluster.topics[name].id
        config = _settings(name, outcome)
        if isinstance(config, str) or topic_id is None:
            put_off(step, name, MOVING, str(config))
            continue
        versions[name] = outcome.stat.version + 1 if isinstance(outcome, Data) else 0
        known = context.cluster.trash.in_phase(name, TrashPhase.FREEZING)
        if known is not None:
            before = known.entry.config
            entry = known.entry if config is None else replace(known.entry, config=thawed(before, config))
            groups.append(
                (*_freezing(name, outcome, before if config is None else config), trash.entry_write(name, entry))
            )
            entries.append((name, entry))
            continue
        owing = context.cluster.marker_orders.get(name, NO_ORDERS).offline_replicas
        entry = TrashEntry(
            TrashPhase.FREEZING, topic_id, step.now_ms, grace_ms(context, name), config, offline_replicas=owing
        )
        groups.append((*_freezing(name, outcome, config), Create(paths.trashed(name), znodes.encode_trash(entry))))
        entries.append((name, entry))
    if entries:
        step.write(groups, TrashWritten(tuple(entries), groups[parents:], parents, versions))
    trash.arm(step)


def _settings(name: str, outcome: ReadOutcome) -> dict[str, str] | str | None:
    """Return the topic's settings, None if it has no znode with settings, or why they are unknown or unsuitable."""
    config = decoded(name, outcome)
    if isinstance(config, dict) and config.get("remote.storage.enable", "").lower() == "true":
        return "it has segments in remote storage, which the trash does not keep"
    return config


def _freezing(name: str, outcome: ReadOutcome, config: Mapping[str, str] | None) -> tuple[Operation, ...]:
    # A topic that another process has just removed gets none.
    is_there = () if isinstance(outcome, Data) else (Check(paths.topic(name), ANY_VERSION),)
    return (*is_there, *frozen_writes(name, outcome, config))


# --- offsets ------------------------------------------------------------------------------------------------------


def frozen(step: StepContext, names: Sequence[str]) -> None:
    """Brokers had their time: read the offsets of all consumer groups.

    A reassignment that was requested after the topic was marked is ended first: its target may never be in sync."""
    context = step.context
    held = tuple(name for name in names if _is_held(context, name) and context.cluster.paused is None)
    moving = context.cluster.reassigned_topics(held)
    if moving:
        step.do(EndReassignments(moving))
    topics = context.cluster.trash.topics
    _freeze_again(step, [name for name in held if topics[name].frozen_version is None])
    ready = tuple(name for name in held if name not in moving and topics[name].frozen_version is not None)
    if not ready:
        return
    found = coordinators.all_of(context)
    if isinstance(found, str):
        for name in ready:
            _hold(step, name, found)
    elif not found:
        _leave_service(step, ready, {})
    else:
        effect_id = step.next_effect_id()
        context.cluster.trash.ask(effect_id, ready)
        context.cluster.trash.coordinators[effect_id] = found
        step.emit(ReadOffsets(effect_id, found, ready))


def _hold(step: StepContext, name: str, why: str) -> None:
    """Try again later. A topic that has no way into the trash for long gets its retention back until the next attempt:
    producers and cleaners go on."""
    context, memory = step.context, step.context.cluster.trash
    put_off(step, name, MOVING, why)
    found = memory.in_phase(name, TrashPhase.FREEZING)
    if found is not None and found.problem is not None and step.now_ms >= found.problem.since_ms + FROZEN_IN_VAIN_MS:
        memory.given_up[name] = step.now_ms + context.config.trash_again_ms
        trash.thaw(step, [(name, found.entry)])


def _freeze_again(step: StepContext, names: Sequence[str]) -> None:
    """Another process has changed the settings: brokers would remove records of the topic while it is in the trash."""
    for name in names:
        _hold(step, name, "its settings were changed: retention has to be off again first")
    if names:
        step.do(FreezeTopics(tuple(names), again=True))


def on_offsets_read(step: StepContext, event: OffsetsRead) -> None:
    """Take the topics out of service, with the offsets; hold those of which these are not complete.

    A broker that has lost a partition of the coordinators' topic meanwhile leaves out its groups, without an error."""
    memory = step.context.cluster.trash
    offsets, problem = event.offsets, event.problem
    if memory.coordinators.pop(event.id, None) != coordinators.all_of(step.context):
        offsets, problem = None, "their coordinators have changed meanwhile"
    asked = memory.answered(event.id, TrashPhase.FREEZING)
    held = event.hidden if offsets is not None else dict.fromkeys(asked, problem)
    for name in asked:
        if name in held:
            _hold(step, name, f"offsets of consumer groups: {held[name]}")
    _leave_service(step, tuple(name for name in asked if name not in held), offsets or {})
    trash.arm(step)


def _leave_service(step: StepContext, names: Sequence[str], offsets: Mapping[str, GroupOffsets]) -> None:
    """Remove the topics' znodes and markers, and complete the entries, in one multi for each topic."""
    context = step.context
    entries: dict[str, TrashEntry] = {}
    groups: list[tuple[Operation, ...]] = []
    moving = context.cluster.reassigned_topics(names)
    for name in names:
        if not _is_held(context, name) or context.cluster.paused is not None or name in moving:
            continue
        topic = context.cluster.topics[name]
        if topic.numbers != topic.led:
            _hold(step, name, "some of its partitions have no state yet")
            continue
        parts = znodes.encode_offsets(offsets.get(name, {}))
        found = context.cluster.trash.topics[name]
        if found.frozen_version is None:
            continue
        entry = found.entry.entering(TrashPhase.TRASHED, step.now_ms)
        entry = replace(entry, partitions=_saved(topic), offsets=len(parts))
        group = (
            trash.entry_write(name, entry),
            Check(paths.config_topic(name), found.frozen_version),
            *(Create(paths.trashed_offsets(name, number), data) for number, data in enumerate(parts)),
            *_deletes(name, topic),
        )
        if (why := _does_not_fit(context, name, entry, group, len(offsets.get(name, {})))) is not None:
            _hold(step, name, why)
            continue
        entries[name] = entry
        groups.append(group)
    if groups:
        step.write(groups, TopicsTrashed(entries, [tuple(each.path for each in group) for group in groups]))


def _does_not_fit(
    context: Context, name: str, entry: TrashEntry, group: Iterable[Operation], groups: int
) -> str | None:
    """Return why the topic's way into the trash, or back, is more than ZooKeeper takes in one write."""
    states = {number: next_state(context, each, each.isr) for number, each in entry.partitions.items()}
    checks = registration_checks(in_service(states.values()))
    back = (*checks, *topic_creates(name, entry, states), trash.entry_write(name, entry))
    back_bytes = sum(map(operation_bytes, back))
    size = max(sum(map(operation_bytes, group)), back_bytes)
    if size > MAX_BYTES:
        return f"it does not fit with the offsets of {counted(groups, 'group')}: {counted(size, 'byte')} at once"
    if back_bytes + version_bytes(name, states) > MAX_BYTES:
        writes = sum(state.partition_epoch for state in states.values())
        return (
            f"the states of its partitions have been written {counted(writes, 'time')}, which its return has to repeat "
            "in one write, and that is too large for ZooKeeper"
        )
    return None


def _deletes(name: str, topic: Topic) -> tuple[Operation, ...]:
    """Return the deletes of the topic as memory has it: an ISR that was written meanwhile is not in the entry."""
    inner = (
        each
        for number, _, state in topic.leaders(topic.led)
        for each in (
            Delete(paths.partition_state(name, number), state.partition_epoch),
            Delete(paths.topic_partition(name, number)),
        )
    )
    last = (paths.topic_partitions(name), paths.topic(name), paths.delete_topic(name))
    versions = (ANY_VERSION, topic.version, ANY_VERSION)
    return (*inner, *map(Delete, last, versions))


def on_topics_trashed(step: StepContext, task: TopicsTrashed, outcomes: Sequence[GroupOutcome]) -> None:
    """Have brokers forget and stop the topics, and keep the records."""
    context, cluster = step.context, step.context.cluster
    gone: list[str] = []
    stale: list[TopicPartition] = []
    changed: list[str] = []
    for (name, entry), written, outcome in zip(task.entries.items(), task.paths, outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            index = outcome.index_in_group
            if index >= 0 and written[index] == paths.config_topic(name):
                changed.append(name)
                continue
            if is_stale(outcome):
                # The leader that wrote the state may have died before it notified the controller.
                stale += (TopicPartition(name, number) for number in cluster.topics[name].partitions)
            _hold(step, name, f"{f'{written[index]}: ' if index >= 0 else ''}{error_words(outcome.error)}")
        else:
            cluster.trash.topics[name] = TrashedTopic(entry)
            gone.append(name)
    _freeze_again(step, changed)
    batch = step.batch()
    for name in gone:
        since_ms = cluster.marks[name].since_ms
        phase(step, name, LET_GO, since_ms=since_ms)
        trash.record(step, name, TRASHED, cluster.trash.topics[name].entry)
        queue_deletion(cluster, name, step.now_ms)
        for broker, partitions in cluster.topics[name].assigned().items():
            batch.add_stop_replicas(broker, name, partitions, delete=False)
    batch.add_update_metadata(cluster.brokers if gone else (), cluster.all_of(gone))
    step.flush(batch)
    for name in gone:
        owed.note(step, name)
        remove_topic(cluster, name)
        missed.note_removed(context, name)
    if gone:
        # Reassignments that were requested have no topic any more.
        context.tasks.append(TrimReassignments())
    trash.arm(step)
    if stale:
        step.do(RefreshStates(tuple(stale)))
    if gone:
        trash.look_soon(step)
