"""Work on many partitions in slices of whole topics: ZooKeeper has one slice while another is handled.

A slice is a task of its own. Tasks wait until nothing is outstanding, but the next slice of the same work runs while
one slice is outstanding. Events wait until the last one, as for any read or write.

    tasks                                   outstanding
    --------------------------------------  ------------------------------------------
    slices 1, 2 and 3 of a creation         nothing
    slice 3                                 the writes of slices 1 and 2
    none                                    the writes of slices 2 and 3; 1 is announced
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.continuations import StatesRead
from lethe.controller.core.tasks import AnnounceTopics, Task
from lethe.controller.core.tasks_partitions import (
    InitializeLeaderAndIsr,
    LeaderAndIsrInitialized,
    LeaderAndIsrPathsCreated,
)

SLICES_AT_ONCE: Final = 2
_BROKERS_PER_SLICE: Final = 100
"""With more brokers slices are larger, because each one makes requests to all brokers."""
_CONTINUATIONS: Final[Mapping[type[Task], tuple[type[object], ...]]] = MappingProxyType(
    {
        InitializeLeaderAndIsr: (LeaderAndIsrPathsCreated, LeaderAndIsrInitialized),
        AnnounceTopics: (StatesRead,),
    }
)
"""What the slices of a task await."""


def may_run(context: Context, task: Task) -> bool:
    """Return whether the task may run now: nothing is outstanding, or only other slices of the same work."""
    if not context.awaited:
        return True
    same = _CONTINUATIONS.get(type(task), ())
    return len(context.awaited) < SLICES_AT_ONCE and all(isinstance(each.then, same) for each in context.awaited)


def slices(context: Context, topics: Iterable[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
    """Cut topics, each with its number of partitions, into slices of about equal numbers of partitions."""
    limit = context.config.partitions_per_slice * max(1, len(context.cluster.brokers) // _BROKERS_PER_SLICE)
    names: list[str] = []
    partitions = 0
    for name, count in topics:
        names.append(name)
        partitions += count
        if partitions >= limit:
            yield tuple(names)
            names, partitions = [], 0
    if names:
        yield tuple(names)
