"""Topics that are gone: each finding is about the topics that it may be of, and many topics are looked up at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Generic, TypeVar

from lethe.adapters.debts import OpenDebt
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.directory_names import NEVER_CUT, DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper.znodes import Debt
from lethe.survey.directories import cut_names, may_be_cut
from lethe.survey.evidence import Evidence
from lethe.survey.explain import DeletionVerdict, Explanation, explain, explain_all
from lethe.survey.traces import Traces
from lethe.survey.views import Directory
from tests.fakes.marked_topic import TAG, evidence, kinds

T = TypeVar("T")


class CountedReads(tuple[T, ...], Generic[T]):
    """A tuple that counts how often it was searched from its start."""

    reads = 0

    def __iter__(self) -> Iterator[T]:
        self.reads += 1
        return super().__iter__()

    def __contains__(self, item: object) -> bool:
        self.reads += 1
        return super().__contains__(item)


def reads_for(topics: int) -> tuple[tuple[Explanation, ...], list[int]]:
    """Explain so many topics that are gone, and return how often each list of the cluster was searched."""
    given = evidence(topic=None, marked=False)
    debt = OpenDebt(BrokerId(9), "owed", 17, Debt(None, (0,), 0, 1_000), 0)
    configured, marked, moving = CountedReads(("alive", "gone-1")), CountedReads(("other",)), CountedReads(("third",))
    debts, hosts = CountedReads((debt,)), CountedReads((BrokerId(1),))
    tree = dataclasses.replace(
        given.survey.zookeeper, configured=configured, marked=marked, debts=debts, other_hosts=hosts
    )
    survey = dataclasses.replace(given.survey, zookeeper=tree, in_motion=moving)
    names = tuple(f"gone-{number}" for number in range(topics))
    found = explain_all(dataclasses.replace(given, survey=survey, topics=names))
    return found, [each.reads for each in (configured, marked, moving, debts, hosts)]


def test_the_cluster_is_searched_once_for_all_topics_that_are_gone() -> None:
    few, for_few = reads_for(2)
    many, for_many = reads_for(40)
    assert [each.verdict for each in few] == [DeletionVerdict.GONE, DeletionVerdict.LEFT_OVER]
    assert [each.verdict for each in many[2:]] == [DeletionVerdict.GONE] * 38
    assert for_many == for_few


def with_directories(*topics: str) -> Evidence:
    """Renamed directories of these names on broker 1's disk, in this order."""
    disks = {
        1: tuple(
            Directory(f"{name}-0.{TAG}-delete", DirectoryKind.DELETED, TopicPartition(name, 0), 10) for name in topics
        )
    }
    return evidence(topic=None, marked=False, disks=disks)


def test_a_directory_with_a_cut_name_is_a_trace_of_every_topic_that_starts_so() -> None:
    stem = "t" * (NEVER_CUT + 1)
    first, second = f"{stem}-first", f"{stem}-second"
    given = with_directories(first, "orders", stem)
    both = explain_all(dataclasses.replace(given, topics=(first, second, "orders", "order")))
    assert [kinds(each) for each in both] == [
        [(CauseKind.RECLAIMING, 1)] * 2,
        [(CauseKind.RECLAIMING, 1)],
        [(CauseKind.RECLAIMING, 1)],
        [],
    ]
    paths = [cause.path for cause in both[0].causes]
    assert paths == [f"/d/{name}-0.{TAG}-delete" for name in (first, stem)], "in the order of the survey"
    assert both[0] == explain(given, first)


def test_the_names_that_a_topic_may_be_cut_to() -> None:
    assert cut_names("t" * (NEVER_CUT + 1)) == ()
    name = "".join(chr(ord("a") + number % 26) for number in range(NEVER_CUT + 4))
    starts = tuple(name[:length] for length in range(1, len(name)))
    assert cut_names(name) == tuple(each for each in starts if may_be_cut(each, name))


def test_only_the_disks_of_a_debtor_may_be_unseen() -> None:
    given = evidence(topic=None, marked=False)
    debt = OpenDebt(BrokerId(9), "orders", 17, Debt(None, (0,), 0, 1_000), 0)
    tree = dataclasses.replace(given.survey.zookeeper, debts=(debt,), other_hosts=(BrokerId(9),))
    traces = Traces(dataclasses.replace(given.survey, zookeeper=tree))
    assert (traces.is_owed("orders"), traces.may_be_unseen("orders")) == (True, False)
    assert (traces.is_owed("payments"), traces.may_be_unseen("payments")) == (False, True)
