"""Settings of topics in the trash: retention stays off from the way in until they are restored. See `trash`.

`/config/topics/<topic>` may be removed or replaced while the topic is in the trash: Kafka writes it anew for another
topic of the name. A broker that starts then loads the logs with what it finds there, and removes old segments as soon
as it serves them. So the settings are compared before a topic comes back:

    /config/topics/<topic>                       the topic
    -------------------------------------------  ---------------------------------------------------------------------
    retention off, not written since the topic   comes back; brokers had their time on the way in
    left service
    retention off, as this controller has        comes back once that is `trash_freeze_ms` ago
    written it
    anything else                                retention is switched off again, with a notification; the topic waits

The write that brings the topic back checks the version that was compared. While another topic has the name the settings
are that one's: then the request is refused.

Which settings are restored later:

    changed while the topic was in service       the changed ones; deleted ones stay deleted
    changed in the trash, and `retention.ms`     the changed ones
    is still off
    removed, or replaced                         those of the entry

    the topic had {retention.ms: 6000}; another topic of the name was created with {}, and removed
    ->  {retention.ms: -1, …} is written, the topic comes back after 10 s, and then gets {retention.ms: 6000}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_trash import SettingsFrozenAgain
from lethe.controller.core.trash import NAME_IS_TAKEN, RESTORING, arm, put_off
from lethe.controller.core.trash_frozen import FROZEN, decoded, frozen_writes, is_frozen, thawed
from lethe.controller.core.trash_memory import FrozenAgain, TrashedTopic
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Data,
    Exists,
    GetData,
    Operation,
    Present,
    Read,
    ReadOutcome,
    absence_check,
    error_words,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import TrashEntry

_OURS: Final = "retention.ms"
"""Settings without this value of FROZEN were written by another process as a whole."""


# --- on the way back ----------------------------------------------------------------------------------------------


def compared_reads(names: Iterable[str]) -> Iterator[Read]:
    """Return the reads that `compare` needs."""
    for name in names:
        yield from (Exists(paths.topic(name)), GetData(paths.config_topic(name)), Exists(paths.trashed(name)))


def compare(step: StepContext, names: Sequence[str], outcomes: Sequence[ReadOutcome]) -> dict[str, Check | str]:
    """Return for each topic the check that its retention is still off, or why that is unknown.

    `outcomes` are those of `compared_reads`. Topics that have to wait are left out, and scheduled again."""
    memory = step.context.cluster.trash
    compared: dict[str, Check | str] = {}
    groups: list[tuple[Operation, ...]] = []
    again: dict[str, FrozenAgain] = {}
    for name, other, read, written in zip(names, *(outcomes[nth::3] for nth in range(3)), strict=True):
        found, present = memory.topics[name], decoded(name, read)
        if isinstance(present, str) or isinstance(other, Present):
            # The settings are those of the other topic.
            compared[name] = present if isinstance(present, str) else NAME_IS_TAKEN
            continue
        version = read.stat.version if isinstance(read, Data) else -1
        # Without its entry the topic does not come back: the writes check that it is there.
        left_zxid = written.stat.mzxid if isinstance(written, Present) else math.inf if is_absent(written) else -1
        is_older = isinstance(read, Data) and read.stat.mzxid <= left_zxid
        is_ours = found.frozen_again is not None and found.frozen_again.version == version
        if present is None or not is_frozen(present) or not (is_older or is_ours):
            config = restored(found, present, is_older=is_older)
            is_free = (Check(paths.trashed(name), ANY_VERSION), *absence_check(paths.topic(name)))
            groups.append((*is_free, *frozen_writes(name, read, config)))
            again[name] = FrozenAgain(step.now_ms, version + 1, config)
        elif found.frozen_again is not None and step.now_ms < _noticed_at_ms(step, found.frozen_again):
            _wait(step, name, found.frozen_again)
        else:
            compared[name] = Check(paths.config_topic(name), version)
    if groups:
        step.write(groups, SettingsFrozenAgain(again))
    return compared


def _noticed_at_ms(step: StepContext, again: FrozenAgain) -> int:
    return again.at_ms + step.context.config.trash_freeze_ms


def restored(
    found: TrashedTopic, present: Mapping[str, str] | None, *, is_older: bool = False
) -> Mapping[str, str] | None:
    """Return the settings that the topic gets in the end; see the second table.

    `is_older`: the present settings were written while the topic was in service."""
    before = to_restore(found).config
    if present is None or not (is_older or present.get(_OURS) == FROZEN[_OURS]):
        return before
    # Nobody deletes single settings of a topic that brokers do not show: those that are missing are another topic's.
    return thawed(before, {**FROZEN, **present})


def to_restore(found: TrashedTopic) -> TrashEntry:
    """Return the entry with the settings that the topic gets in the end."""
    again = found.frozen_again
    return found.entry if again is None else replace(found.entry, config=again.config)


def _wait(step: StepContext, name: str, again: FrozenAgain) -> None:
    """Read the request for the topic again when brokers have had their time."""
    found, seconds = step.context.cluster.trash.topics[name], step.context.config.trash_freeze_ms / 1000
    found.frozen_again = again
    put_off(
        step,
        name,
        RESTORING,
        "its settings were removed or changed in the trash: retention is off again, and brokers get "
        f"{seconds:g} s to notice",
    )
    found.is_requested, found.retry_at_ms = True, _noticed_at_ms(step, again)


def on_frozen_again(step: StepContext, task: SettingsFrozenAgain, outcomes: Sequence[GroupOutcome]) -> None:
    """Give brokers time to notice."""
    topics = step.context.cluster.trash.topics
    for (name, again), outcome in zip(task.topics.items(), outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            put_off(step, name, RESTORING, error_words(outcome.error))
            topics[name].is_requested = True
        else:
            _wait(step, name, again._replace(at_ms=step.now_ms))
    arm(step)
