"""`lethe topics delete --unreadable`: only what cannot be understood, when agreed to, and so that it is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete_unreadable import unreadable_deletion
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, GetChildren, GetData, WatchFired, WatchKind
from lethe.protocol.zookeeper.znodes import decode_deletion_marker
from tests.fakes.questions import agrees
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2),)))
    await apply(session, Create(paths.topic("poison"), b"\x00"))
    await session.ensure_path(paths.partition_state("poison", 0))
    return session


async def _is_ordered(session: FakeSession, name: str) -> bool | None:
    (marker,) = await session.read([GetData(paths.delete_topic(name))])
    return decode_deletion_marker(marker.data).unreadable if isinstance(marker, Data) else None


async def test_the_order_is_given_when_agreed_to(cluster: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    async def say_no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(Refusal, match="nothing was done"):
        await unreadable_deletion(cluster, ["poison"], confirm=say_no)
    assert asked == ["Delete this 1 topic?"]
    assert "state znodes of 1 partition" in capsys.readouterr().err
    assert await _is_ordered(cluster, "poison") is None
    answer = await unreadable_deletion(cluster, ["poison"], confirm=agrees)
    assert answer.exit is Exit.OK
    assert await _is_ordered(cluster, "poison") is True
    again: Any = (await unreadable_deletion(cluster, ["poison"], confirm=None)).lines
    assert again[0] == "Topic poison is already marked for deletion."
    assert "only Lethe's" in again[1]


async def test_a_dry_run_says_why_and_writes_nothing(cluster: FakeSession) -> None:
    answer = await unreadable_deletion(cluster, ["poison"], confirm=None, dry_run=True)
    assert "/brokers/topics/poison cannot be understood" in answer.lines[0]
    assert await _is_ordered(cluster, "poison") is None


async def test_what_does_not_exist_is_passed_over_where_that_is_allowed(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="topic 'gone' does not exist"):
        await unreadable_deletion(cluster, ["gone", "poison"], confirm=None)
    assert await _is_ordered(cluster, "poison") is None
    nothing = await unreadable_deletion(cluster, ["gone"], confirm=None, if_exists=True)
    assert (nothing.lines, nothing.exit) == (("Nothing to delete.",), Exit.OK)
    await unreadable_deletion(cluster, ["gone", "poison"], confirm=None, if_exists=True)
    assert await _is_ordered(cluster, "poison") is True


async def test_a_marker_that_is_there_is_made_anew_so_that_controllers_notice(
    zookeeper: FakeZooKeeper, cluster: FakeSession
) -> None:
    await topic_znodes.mark_for_deletion(cluster, ["poison"])
    assert await _is_ordered(cluster, "poison") is False
    seen: list[WatchFired] = []
    async with zookeeper.open_session(seen.append) as controller:
        await controller.read([GetChildren(paths.DELETE_TOPICS, watch=True)])
        await unreadable_deletion(cluster, ["poison"], confirm=None)
    assert seen == [WatchFired(WatchKind.CHILDREN_CHANGED, paths.DELETE_TOPICS)]
    assert await _is_ordered(cluster, "poison") is True


@pytest.mark.parametrize(
    "name,words",
    [
        ("orders", "can be understood: delete it without --unreadable"),
        ("nothing", "does not exist"),
        ("poi.*", "exact names"),
        ("__consumer_offsets", "internal"),
    ],
)
async def test_what_is_refused_keeps_the_others_too(cluster: FakeSession, name: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        await unreadable_deletion(cluster, ["poison", name], confirm=None)
    assert await _is_ordered(cluster, "poison") is None
