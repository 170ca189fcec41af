"""How topics are cut into slices, and which tasks run while a slice is outstanding."""

from __future__ import annotations

import pytest

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import AwaitedRead, AwaitedWrite, ReplicasAnnounced, StatesRead
from lethe.controller.core.slices import may_run, slices
from lethe.controller.core.tasks import AnnounceTopics, StartReplicas, Task
from lethe.controller.core.tasks_partitions import (
    InitializeLeaderAndIsr,
    LeaderAndIsrInitialized,
    LeaderAndIsrPathsCreated,
)
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import BrokerId
from tests.unit.controller.core.stage import broker

CREATION = InitializeLeaderAndIsr({"a": 1})
LOADING = AnnounceTopics(("a",))
READ = AwaitedRead(1, StatesRead({"a": 1}, ("a",)))
PARENTS = AwaitedWrite(2, LeaderAndIsrPathsCreated({"a": 1}))
STATES = AwaitedWrite(3, LeaderAndIsrInitialized({}, state_only=False))


def context(brokers: int = 3) -> Context:
    found = Context(CoreConfig(BrokerId(1000), LATEST, partitions_per_slice=4))
    found.cluster.brokers = {BrokerId(number): broker(number) for number in range(1, brokers + 1)}
    return found


@pytest.mark.parametrize(
    "sizes, cut",
    [
        ([], []),
        ([("a", 1), ("b", 1)], [("a", "b")]),
        ([("a", 2), ("b", 2), ("c", 1)], [("a", "b"), ("c",)]),
        ([("a", 3), ("b", 3), ("c", 3)], [("a", "b"), ("c",)]),
        ([("a", 9), ("b", 1)], [("a",), ("b",)]),
        ([(name, 1) for name in "abcdefgh"], [tuple("abcd"), tuple("efgh")]),
        ([("a", 0), ("b", 0)], [("a", "b")]),
    ],
)
def test_topics_are_cut_whole(sizes: list[tuple[str, int]], cut: list[tuple[str, ...]]) -> None:
    assert list(slices(context(), sizes)) == cut


@pytest.mark.parametrize("brokers, partitions", [(0, 4), (3, 4), (199, 4), (200, 8), (1_000, 40)])
def test_slices_are_larger_with_more_brokers(brokers: int, partitions: int) -> None:
    first, *_ = slices(context(brokers), ((str(number), 1) for number in range(100)))
    assert len(first) == partitions


@pytest.mark.parametrize(
    "outstanding, task, runs",
    [
        ((), StartReplicas(), True),
        ((), CREATION, True),
        ((PARENTS,), CREATION, True),
        ((STATES,), CREATION, True),
        ((READ,), LOADING, True),
        ((PARENTS, STATES), CREATION, False),
        ((READ, READ), LOADING, False),
        ((READ,), StartReplicas(), False),
        ((READ,), CREATION, False),
        ((PARENTS,), LOADING, False),
        ((AwaitedRead(1, ReplicasAnnounced()),), LOADING, False),
    ],
)
def test_only_another_slice_of_the_same_work_runs_while_one_is_outstanding(
    outstanding: tuple[AwaitedRead | AwaitedWrite, ...], task: Task, runs: bool
) -> None:
    found = context()
    found.awaited = outstanding
    assert may_run(found, task) is runs
