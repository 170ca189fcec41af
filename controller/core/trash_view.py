"""Views of the trash for metrics, `/state` and the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lethe.controller.core.context import Context
from lethe.controller.core.trash import due_at_ms
from lethe.controller.core.trash_disks import low_dirs
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import TrashPhase


@dataclass(frozen=True, slots=True)
class TrashSummary:
    """The trash in numbers."""

    topics: Mapping[TrashPhase, int] = field(default_factory=dict)
    """By phase; zeros may be missing."""
    size_bytes: int = 0
    """Bytes of topics in phase TRASHED, as far as they are known."""
    oldest_due_ms: int | None = None
    """When the first topic in phase TRASHED is deleted."""
    full_disks: int = 0
    """Log directories with less free space than the trash is to leave."""
    unseen_brokers: int = 0
    """Brokers with replicas in the trash that do not tell how full their disks are."""


def summary(context: Context) -> TrashSummary:
    """Return the trash in numbers. The cost grows with the trash."""
    memory = context.cluster.trash
    counts: dict[TrashPhase, int] = {}
    due_ms: list[int] = []
    for found in memory.topics.values():
        counts[found.phase] = counts.get(found.phase, 0) + 1
        if found.phase is TrashPhase.TRASHED:
            due_ms.append(due_at_ms(context, found))
    return TrashSummary(
        counts,
        sum(
            size
            for seen in memory.disks.seen.values()
            for log_dir in seen.log_dirs
            for name, size in log_dir.topics.items()
            if memory.in_phase(name, TrashPhase.TRASHED) is not None
        ),
        min(due_ms, default=None),
        sum(1 for _ in low_dirs(context)),
        sum(1 for seen in memory.disks.seen.values() if seen.problem is not None),
    )


def size_bytes(context: Context, name: str) -> tuple[int, tuple[BrokerId, ...]]:
    """Return the bytes of the topic's replicas that were seen, and the brokers of which some may not be seen."""
    memory = context.cluster.trash
    brokers = {BrokerId(b): None for saved in memory.topics[name].entry.partitions.values() for b in saved.replicas}
    unseen = []
    for broker in sorted(brokers):
        seen = memory.disks.seen.get(broker)
        if seen is None or seen.is_partial or not any(name in each.topics for each in seen.log_dirs):
            unseen.append(broker)
    return memory.seen_bytes(name), tuple(unseen)
