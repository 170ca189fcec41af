"""Which candidates may be deleted now: every doubt leaves one out, with the reason."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from lethe.admin.candidates import Candidate
from lethe.admin.candidates_judge import SelectedCandidate, SkippedCandidate, judge, judge_readers
from lethe.admin.candidates_look import CurrentTopic
from lethe.admin.group_readers import Group
from lethe.admin.topic_plans import PartitionDescription, TopicDescription
from lethe.admin.topic_usage import Offsets, TopicUsage
from lethe.protocol.vocabulary import ReplicaAssignment, TopicId, TopicPartition
from tests.fakes.stale_topics import candidate

ID, OTHER = TopicId(uuid.UUID(int=7)), TopicId(uuid.UUID(int=8))
HEALTHY = PartitionDescription(0, 1, 0, (2, 1), ReplicaAssignment((1, 2)))


def now(*, partitions: tuple[PartitionDescription, ...] = (HEALTHY,), **changes: Any) -> CurrentTopic:
    about: dict[str, Any] = {"topic_id": ID, "is_marked": False, "config": {}, "problem": None} | changes
    size, created = about.pop("size", 200), about.pop("created", 5_000)
    unseen = about.pop("unseen", "")
    return CurrentTopic(TopicDescription("orders", partitions=partitions, **about), 77, created, size, unseen)


def table(**changes: Any) -> Candidate:
    return candidate(**{"topic_id": ID, **changes})


def test_what_is_as_it_was_may_be_deleted() -> None:
    assert judge(table(), now(), ["keep-*"]) == SelectedCandidate(table(), 77)
    assert judge(table(), now(created=None), []) == SelectedCandidate(table(), 77), "its id is enough"


@pytest.mark.parametrize(
    "seen,found,words",
    [
        (table(), None, "does not exist"),
        (table(topic="__consumer_offsets"), now(), "internal"),
        (table(topic="__own"), now(), "internal"),
        (table(topic="keep-me"), now(), "protected by keep-*"),
        (table(topic="_schemas"), now(), "names like _* are of what works for clients"),
        (table(topic="connect-configs"), now(), "names like connect-configs"),
        (table(topic="counts-store-changelog"), now(), "names like *-changelog"),
        (table(), now(problem="it is not JSON"), "its znodes are unseen: it is not JSON"),
        (table(), now(topic_id=OTHER), "another topic of that name"),
        (table(), now(topic_id=None), "another topic of that name"),
        (table(), now(created=5_001), "another topic of that name"),
        (table(topic_id=None), now(topic_id=None, created=9), "another topic of that name"),
        (table(topic_id=None), now(topic_id=None, created=None), "may be another topic of that name"),
        (table(), now(is_marked=True), "marked for deletion already"),
        (table(), now(config={"remote.storage.enable": "true"}), "kept elsewhere"),
        (table(), now(config={"remote.storage.enable": " TRUE"}), "kept elsewhere"),
        (table(), now(config={"remote.storage.enable": "yes"}), "kept elsewhere"),
        (table(), now(partitions=(HEALTHY._replace(isr=(1,)),)), "partition 0 has replicas that are not in sync"),
        (table(), now(partitions=(HEALTHY._replace(leader=-1),)), "partition 0 has no leader"),
        (table(), now(partitions=(HEALTHY._replace(leader=None),)), "partition 0 has no leader"),
        (
            table(),
            now(partitions=(HEALTHY._replace(assignment=ReplicaAssignment((1, 2), adding=(2,))),)),
            "partition 0 is being reassigned",
        ),
        (table(), now(partitions=(HEALTHY._replace(requested=(1, 3)),)), "partition 0 is being reassigned"),
        (
            table(),
            now(requests_unseen="znode /admin/reassign_partitions cannot be understood: no JSON"),
            "whether it is being reassigned is unseen: znode /admin/reassign_partitions cannot be understood: no JSON",
        ),
        (table(), now(size=201), "it had 200 bytes and has 201 now"),
        (table(), now(size=None, unseen="broker 2 is not there"), "not known now: broker 2 is not there"),
        (table(segment_bytes=None), now(), "does not say how many bytes"),
        (table(partitions=2), now(), "it had 2 partitions and has 1 now"),
    ],
)
def test_what_leaves_a_topic_out(seen: Candidate, found: CurrentTopic | None, words: str) -> None:
    judged = judge(seen, found, ["keep-*"])
    assert isinstance(judged, SkippedCandidate)
    assert words in judged.why


def readers(offsets: Offsets | None = None, *groups: Group) -> TopicUsage:
    known = {} if offsets is None else {TopicPartition("orders", 0): offsets}
    return TopicUsage({"orders": groups}, known)


@pytest.mark.parametrize(
    "seen,told,words",
    [
        (table(), readers(None, Group("billing", "Stable", ("app (10.0.0.1)",))), "group billing reads it now: app"),
        (table(), readers(Offsets(0, 9, 8)), "records with times after it was last written"),
        (table(is_empty=True), readers(Offsets(0, 9, None)), "was empty when the survey was taken"),
        (table(is_empty=True, evidence="sizes"), readers(Offsets(9, 9, None)), "deleted by retention, and sizes"),
    ],
)
def test_what_brokers_tell_against_it(seen: Candidate, told: TopicUsage, words: str) -> None:
    judged = judge_readers(SelectedCandidate(seen, 77), [0], told)
    assert isinstance(judged, SkippedCandidate)
    assert words in judged.why


IDLE = Offsets(0, 9, None)
SECOND = TopicPartition("orders", 1)


@pytest.mark.parametrize(
    "told,words",
    [
        (
            TopicUsage({}, {TopicPartition("orders", 0): IDLE}, ("consumer group billing: no answer in time",)),
            "its readers are unseen: consumer group billing: no answer in time",
        ),
        (
            TopicUsage(
                {}, {TopicPartition("orders", 0): IDLE}, (), {SECOND: "broker 2 gives no offset of orders-1: X"}
            ),
            "its offsets are unseen: broker 2 gives no offset of orders-1: X",
        ),
        (
            TopicUsage({}, {TopicPartition("orders", 0): IDLE}),
            "its offsets are unseen: no answer names orders-1",
        ),
    ],
)
def test_what_nobody_could_be_asked_leaves_a_topic_out(told: TopicUsage, words: str) -> None:
    chosen = SelectedCandidate(table(), 77)
    assert judge_readers(chosen, [0, 1], told) == SkippedCandidate("orders", words)
    allowed = judge_readers(chosen, [0, 1], told, allow_unasked=True)
    assert isinstance(allowed, SelectedCandidate), "unless that was said to be no obstacle"
    assert allowed.notes == ("its offsets could not be asked",)
    assert (allowed.groups is None) == bool(told.unasked)


def test_what_is_allowed_unasked_is_judged_by_the_rest() -> None:
    empty = SelectedCandidate(table(is_empty=True), 77)
    told = TopicUsage({}, {TopicPartition("orders", 0): Offsets(0, 0, None)})
    allowed = judge_readers(empty, [0, 1], told, allow_unasked=True)
    assert isinstance(allowed, SelectedCandidate)
    assert allowed.notes == ("its offsets could not be asked",), "not: never written"
    reading = TopicUsage({"orders": (Group("billing", "Stable", ("app",)),)}, {}, ("consumer group other: X",))
    assert isinstance(judge_readers(empty, [0, 1], reading, allow_unasked=True), SkippedCandidate)


@pytest.mark.parametrize(
    "seen,told,notes",
    [
        (table(), readers(Offsets(0, 9, None)), ()),
        (table(is_empty=True), readers(Offsets(9, 9, None)), ("its records were deleted by retention",)),
        (table(is_empty=True, evidence="sizes"), readers(Offsets(0, 0, None)), ("never written",)),
    ],
)
def test_what_is_left_to_the_person_who_decides(seen: Candidate, told: TopicUsage, notes: tuple[str, ...]) -> None:
    assert judge_readers(SelectedCandidate(seen, 77), [0], told) == SelectedCandidate(seen, 77, (), notes)


def test_offsets_that_nobody_uses_now_are_shown() -> None:
    group = Group("nightly", "Empty")
    judged = judge_readers(SelectedCandidate(table(), 77), [0], readers(IDLE, group))
    assert judged == SelectedCandidate(table(), 77, (group,))
