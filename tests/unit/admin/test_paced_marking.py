"""Marking little by little: never too many at once, never too many a second, never what has changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.admin import topic_znodes
from lethe.admin.paced_marking import Pace, PacedMarking
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.progress import wait_for_all
from lethe.cli.topics_create import creation
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete, Exists, Present
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, complete_deletion, delete_tree

NAMES = ("a", "b", "c", "d", "e")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def czxids(session: FakeSession) -> dict[str, int]:
    for name in NAMES:
        await creation(session, TopicCreationRequest(name, assignment=((1, 2),)))
    found = await session.read([Exists(paths.topic(name)) for name in NAMES])
    return {name: each.stat.czxid for name, each in zip(NAMES, found, strict=True) if isinstance(each, Present)}


async def nothing_has_changed(names: Sequence[str]) -> dict[str, str]:
    return {}


async def marked(session: FakeSession) -> list[str]:
    return list((await topic_znodes.list_topics(session)).marked)


async def test_so_many_at_once(session: FakeSession, czxids: dict[str, int]) -> None:
    marking = PacedMarking(session, czxids, Pace(2), nothing_has_changed)
    assert await marking.step() == 0
    assert await marked(session) == ["a", "b"]
    assert await marking.step() == 0
    assert await marked(session) == ["a", "b"]
    await complete_deletion(session, "b")
    assert await marking.step() == 1
    assert await marked(session) == ["a", "c"]
    assert (marking.deleted, marking.pending, list(marking.under_way)) == (["b"], ["d", "e"], ["a", "c"])


async def test_so_many_a_second(session: FakeSession, czxids: dict[str, int]) -> None:
    clock = Clock()
    marking = PacedMarking(session, czxids, Pace(100, 0.5), nothing_has_changed, clock)
    begun = []
    for clock.now in (0.0, 1.9, 2.0, 2.1, 6.0, 6.1, 7.9, 8.0):
        await marking.step()
        begun.append(len(await marked(session)))
    assert begun == [1, 1, 2, 2, 3, 3, 3, 4]


async def test_time_without_progress_gives_no_credit(session: FakeSession, czxids: dict[str, int]) -> None:
    clock = Clock()
    marking = PacedMarking(session, czxids, Pace(2, 1.0), nothing_has_changed, clock)
    for clock.now in (0.0, 1.0):
        await marking.step()
    assert await marked(session) == ["a", "b"]
    clock.now = 60.0
    await marking.step()
    for name in ("a", "b"):
        await complete_deletion(session, name)
    begun = []
    for clock.now in (60.0, 60.2, 60.9, 61.0, 61.9):
        await marking.step()
        begun.append(await marked(session))
    assert begun == [["c"], ["c"], ["c"], ["c", "d"], ["c", "d"]]


def test_fractions_of_a_rate() -> None:
    assert [(Pace(9, rate).burst, Pace(9, rate).window_s) for rate in (0.5, 1.0, 20.0)] == [
        (1, 2.0),
        (1, 1.0),
        (20, 1.0),
    ]
    assert (Pace(9, 1.6).burst, Pace(9, 1.6).window_s) == (1, 0.625)


async def test_what_has_changed_is_left_out(session: FakeSession, czxids: dict[str, int]) -> None:
    looked: list[tuple[str, ...]] = []

    async def recheck(names: Sequence[str]) -> dict[str, str]:
        looked.append(tuple(names))
        return {"b": "it was written to"} if "b" in names else {}

    marking = PacedMarking(session, czxids, Pace(2), recheck)
    assert await marking.step() == 1
    assert await marked(session) == ["a"]
    await marking.step()
    assert looked == [("a", "b"), ("c",)], "right before marking"
    assert marking.left_out == {"b": "it was written to"}


async def test_a_dropped_mark_and_a_new_topic_of_the_name(session: FakeSession, czxids: dict[str, int]) -> None:
    marking = PacedMarking(session, czxids, Pace(2), nothing_has_changed)
    await marking.step()
    await apply(session, Delete(paths.delete_topic("a")))
    await complete_deletion(session, "b")
    await creation(session, TopicCreationRequest("b", assignment=((1, 2),)))
    assert await marking.step() == 2
    assert marking.deleted == ["b"], "the new one is another topic"
    assert "dropped the mark" in marking.failed["a"]


async def test_a_topic_whose_znode_is_refused_is_not_deleted(session: FakeSession, czxids: dict[str, int]) -> None:
    marking = PacedMarking(session, czxids, Pace(2), nothing_has_changed)
    await marking.step()
    marking.session = forbidding(session, paths.topic("a"), tells_existence=False)
    assert await marking.step() == 0
    assert list(marking.under_way) == ["a", "b"], "its mark is seen: the deletion is in progress"
    await complete_deletion(session, "a")
    assert await marking.step() == 1
    assert (marking.deleted, marking.failed, list(marking.under_way)) == ([], {}, ["b", "c"])
    assert marking.unseen["a"].endswith(f"of /brokers/topics/a: {NO_AUTH}")


async def test_one_that_cannot_be_marked_keeps_no_other(session: FakeSession, czxids: dict[str, int]) -> None:
    await delete_tree(session, paths.topic("a"))
    marking = PacedMarking(session, czxids, Pace(2), nothing_has_changed)
    assert await marking.step() == 1
    assert marking.failed == {"a": "topic a does not exist"}
    assert await marked(session) == ["b"]


async def test_it_waits_until_nothing_moves_any_more(session: FakeSession, czxids: dict[str, int]) -> None:
    marking = PacedMarking(session, czxids, Pace(2), nothing_has_changed)
    waiting = wait_for_all(marking.step, len(czxids), "deleted", timeout_ms=1, quiet=True, poll_ms=1, from_last=True)
    assert not await waiting
    assert await marked(session) == ["a", "b"]
