"""Which marked topics are queued, which are held back and why, and which markers are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core import mutation
from lethe.controller.core.cluster_state import QuarantinedZnode
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import DISABLED, NO_SUCH_TOPIC, DeletionPause, HeldTopic
from lethe.controller.core.effects import Effect, ReadZnodes, Record, Send
from lethe.controller.core.holding import MAX_REFUSED
from lethe.controller.core.tasks import ListTopics
from lethe.controller.core.tasks_deletion import ListDeletions, MarkersDated, QueueDeletions, ReadPause
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Present,
    ReadFailed,
    ReadOutcome,
    Stat,
    ZkError,
)
from lethe.protocol.zookeeper.znodes import DeletionsPaused, encode_deletions_paused
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.unit.controller.core.stage import (
    NOW_MS,
    add_topic,
    answered,
    leading,
    perform,
    read_in,
    refusals,
    write_in,
    written,
)

STAT = Stat(1, 1, 0, 0)
GONE = ReadFailed(ZkError.NO_NODE)


def with_topics(*names: str) -> Context:
    context = leading(1, 2)
    for name in names:
        add_topic(context, name, [(1, 2)], led=True)
    return context


def listing(context: Context, *marked: str, loading: bool = False) -> list[Effect]:
    """What follows from these being the children of `/admin/delete_topics`, whose times ZooKeeper does not tell."""
    return undated(context, answered(context, perform(context, ListDeletions(loading=loading)), Children(marked)))


def undated(context: Context, effects: list[Effect]) -> list[Effect]:
    """What follows where ZooKeeper cannot say when markers were made."""
    while any(isinstance(each.then, MarkersDated) for each in context.awaited):
        before = [effect for effect in effects if not isinstance(effect, ReadZnodes)]
        effects = [*before, *answered(context, effects, *(Present(STAT) for _ in read_in(effects).reads))]
    return effects


def pause(context: Context, *outcomes: ReadOutcome) -> list[Effect]:
    effects = perform(context, ReadPause())
    path = paths.deletions_paused()
    assert read_in(effects).reads == (Exists(path, watch=True), GetData(path, watch=True))
    return answered(context, effects, *outcomes)


def paused(context: Context, reason: str = "maintenance") -> None:
    data = encode_deletions_paused(DeletionsPaused(1_234, reason))
    pause(context, Present(STAT), Data(data, STAT))


def is_paused(context: Context) -> bool:
    return context.cluster.paused is not None


# --- queued and held ----------------------------------------------------------------------------------------------


def test_marked_topics_that_are_known_are_queued_and_started() -> None:
    context = with_topics("a", "b", "c")
    listing(context, "a", "b")
    assert list(context.cluster.deletions) == ["a", "b"]
    assert context.cluster.marks == {}
    assert all(deletion.started_at_ms == NOW_MS for deletion in context.cluster.deletions.values())


def test_while_loading_topics_are_queued_and_nothing_is_sent() -> None:
    context = with_topics("a")
    effects = listing(context, "a", loading=True)
    assert list(context.cluster.deletions) == ["a"]
    assert not [effect for effect in effects if isinstance(effect, Send)]


def test_topic_with_a_partition_that_is_being_moved_is_held_and_the_others_go() -> None:
    context = with_topics("moving", "still")
    mutation.begin_reassignment(
        context.cluster, TopicPartition("moving", 0), ReplicaAssignment((2, 1), (2,), (1,)), now_ms=NOW_MS
    )
    listing(context, "moving", "still")
    assert list(context.cluster.deletions) == ["still"]
    assert context.cluster.marks == {"moving": HeldTopic(NOW_MS, CauseKind.REASSIGNMENT)}


def test_held_topic_is_queued_later_and_its_mark_is_as_old_as_before() -> None:
    context = with_topics("a")
    context.cluster.marks["a"] = HeldTopic(17, CauseKind.REASSIGNMENT)
    perform(context, QueueDeletions(("a",)))
    assert context.cluster.marks == {}
    assert (context.cluster.deletions["a"].marked_at_ms, context.cluster.deletions["a"].queued_at_ms) == (17, NOW_MS)


def test_unknown_names_are_not_queued() -> None:
    context = with_topics("a")
    perform(context, QueueDeletions(("a", "stranger")))
    assert list(context.cluster.deletions) == ["a"]


def test_mark_is_dropped_with_its_marker_and_with_its_topic() -> None:
    context = with_topics("a", "b")
    paused(context)
    listing(context, "a", "b")
    assert list(context.cluster.marks) == ["a", "b"]
    effects = listing(context, "b")
    assert list(context.cluster.marks) == ["b"]
    assert "let go" in phases(effects)
    mutation.remove_topic(context.cluster, "b")
    assert context.cluster.marks == {}


def test_hold_that_ends_in_a_refusal_is_recorded_as_ended() -> None:
    context = with_topics("a")
    paused(context)
    assert phases(listing(context, "a")) == ["held"]
    context.config = replace(context.config, delete_topic_enable=False)
    effects = listing(context, "a")
    assert phases(effects) == ["let go"]
    assert phases(written(context, effects, {0: ZkError.NO_AUTH})) == []
    assert phases(listing(context)) == [], "once"


def test_unreadable_topic_that_vanishes_ends_its_hold() -> None:
    context = leading(1)
    context.cluster.quarantined_topics["bad"] = QuarantinedZnode(
        paths.topic("bad"), "not JSON", NOW_MS, CauseKind.READABLE_ZNODE
    )
    paused(context)
    assert phases(listing(context, "bad")) == ["held"]
    effects = answered(context, perform(context, ListTopics()), Children(()))
    assert phases(effects) == ["vanished"]
    assert (context.cluster.marks, context.cluster.quarantined_topics) == ({}, {})


def phases(effects: list[Effect]) -> list[object]:
    records = [effect.record for effect in effects if isinstance(effect, Record)]
    return [record.data["phase"] for record in records if record.type is EventRecordType.DELETION_PHASE]


def test_queued_topic_stays_queued_without_its_marker() -> None:
    context = with_topics("a")
    listing(context, "a")
    listing(context)
    assert list(context.cluster.deletions) == ["a"]


# --- paused -------------------------------------------------------------------------------------------------------


def test_while_paused_marked_topics_are_held_and_queued_when_it_is_over() -> None:
    context = with_topics("a")
    paused(context)
    assert context.cluster.paused == DeletionPause(1_234, "maintenance", CauseKind.RESUMPTION, paths.deletions_paused())
    effects = listing(context, "a")
    assert context.cluster.marks == {"a": HeldTopic(NOW_MS, CauseKind.RESUMPTION)}
    assert phases(effects) == ["held"]
    assert phases(listing(context, "a")) == [], "it is told once"
    effects = pause(context, GONE, GONE)
    assert not is_paused(context)
    undated(context, answered(context, effects, Children(("a",))))
    assert list(context.cluster.deletions) == ["a"]
    assert context.cluster.marks == {}


@pytest.mark.parametrize(
    "content, reason",
    [
        (Data(b"?", STAT), "unreadable"),
        (Data(None, STAT), "unreadable"),
        (ReadFailed(ZkError.NO_AUTH), "NO_AUTH"),
        (GONE, "NO_NODE"),
    ],
)
def test_a_pause_that_says_nothing_pauses_all_the_same_since_it_was_seen(content: ReadOutcome, reason: str) -> None:
    context = with_topics("a")
    pause(context, Present(STAT), content)
    assert context.cluster.paused is not None
    assert context.cluster.paused.since_ms == NOW_MS
    assert reason in context.cluster.paused.reason


def test_a_pause_that_appears_between_the_two_reads_counts() -> None:
    context = with_topics("a")
    pause(context, GONE, Data(b"{}", STAT))
    assert context.cluster.paused is not None


def test_a_pause_that_may_not_even_be_looked_for_is_assumed() -> None:
    context = with_topics("a")
    pause(context, ReadFailed(ZkError.OTHER), ReadFailed(ZkError.OTHER))
    assert context.cluster.paused is not None


def test_a_rewritten_pause_is_the_same_pause_with_another_reason() -> None:
    context = with_topics("a")
    pause(context, Present(STAT), Data(b"{}", STAT))
    effects = rewritten(context, b'{"version":1,"reason":"later"}')
    assert context.cluster.paused == DeletionPause(NOW_MS, "later", CauseKind.RESUMPTION, paths.deletions_paused())
    assert effects == []


def rewritten(context: Context, data: bytes) -> list[Effect]:
    return pause(context, Present(STAT), Data(data, STAT))


# --- refused ------------------------------------------------------------------------------------------------------


def disabled(*names: str) -> Context:
    context = with_topics(*names)
    context.config = replace(context.config, delete_topic_enable=False)
    return context


def test_disabled_removes_markers_of_what_was_not_started_and_remembers_that() -> None:
    context = disabled("held", "new", "started")
    mutation.queue_deletion(context.cluster, "started", NOW_MS)
    context.cluster.marks["held"] = HeldTopic(3, CauseKind.RESUMPTION)
    effects = listing(context, "held", "new", "started")
    assert list(write_in(effects).groups) == [
        (Delete(paths.delete_topic("held")),),
        (Delete(paths.delete_topic("new")),),
    ]
    assert {name: mark.held_by for name, mark in context.cluster.marks.items()} == dict.fromkeys(
        ("held", "new"), CauseKind.DISABLED
    )
    written(context, effects)
    assert context.cluster.marks == {}
    assert {name: refused.why for name, refused in context.refused_marks.items()} == dict.fromkeys(
        ("held", "new"), DISABLED
    )
    assert list(context.cluster.deletions) == ["started"]


def test_disabled_and_nothing_marked_writes_nothing() -> None:
    context = disabled("started")
    mutation.queue_deletion(context.cluster, "started", NOW_MS)
    assert listing(context, "started") == []
    assert not context.awaiting_result


def test_marker_that_may_not_be_removed_stays_a_mark_that_says_so() -> None:
    context = disabled("a")
    effects = written(context, listing(context, "a"), {0: ZkError.NO_AUTH})
    assert context.cluster.marks == {"a": HeldTopic(NOW_MS, CauseKind.DISABLED, NO_AUTH)}
    assert [record.data["why"] for record in refusals(effects)] == [NO_AUTH]


def test_marker_that_somebody_else_removed_first_is_gone_as_well() -> None:
    context = disabled("a")
    written(context, listing(context, "a"), {0: ZkError.NO_NODE})
    assert context.cluster.marks == {}


def test_marker_without_topic_is_shown_until_it_is_removed() -> None:
    context = with_topics()
    effects = listing(context, "ghost")
    assert context.cluster.marks["ghost"].held_by is CauseKind.MARKER_WITHOUT_TOPIC
    effects = answered(context, effects, Children(()))
    assert write_in(effects).groups == (
        (Create(paths.topic("ghost"), None), Delete(paths.topic("ghost")), Delete(paths.delete_topic("ghost"))),
    )
    written(context, effects)
    assert context.cluster.marks == {}
    assert context.refused_marks["ghost"].why == NO_SUCH_TOPIC


def test_marker_of_a_topic_that_is_made_between_the_look_and_the_write_is_taken_up() -> None:
    context = with_topics()
    effects = answered(context, listing(context, "ghost"), Children(()))
    effects = written(context, effects, {0: ZkError.NODE_EXISTS})
    assert read_in(effects).reads == (GetChildren(paths.BROKER_TOPICS, watch=True),)
    assert context.tasks[0] == ListDeletions()
    assert context.refused_marks == {}
    assert context.cluster.marks["ghost"].held_by is CauseKind.MARKER_WITHOUT_TOPIC


def test_refused_marks_are_bounded_and_the_oldest_go_first() -> None:
    context = disabled()
    names = tuple(f"t{n}" for n in range(MAX_REFUSED))
    written(context, listing(context, "first", "second"))
    written(context, listing(context, *names))
    assert tuple(context.refused_marks) == names
    written(context, listing(context, names[0], "another"))
    assert tuple(context.refused_marks) == (*names[2:], names[0], "another")


def test_refusal_is_forgotten_when_the_topic_is_queued_after_all() -> None:
    context = disabled("a")
    written(context, listing(context, "a"))
    context.config = replace(context.config, delete_topic_enable=True)
    listing(context, "a")
    assert list(context.cluster.deletions) == ["a"]
    assert context.refused_marks == {}


def test_no_marker_means_nothing_to_do() -> None:
    context = with_topics("a")
    assert listing(context) == []
