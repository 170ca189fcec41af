"""`lethe topics pause-deletions` and `resume-deletions`: the znode, repetition, and who takes no notice."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import deletions_paused, pause_deletions
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete import deletion
from lethe.cli.topics_pause_deletions import pausing
from lethe.cli.topics_resume_deletions import resuming
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, GetData, SetData
from lethe.protocol.zookeeper.znodes import ControllerZnode, DeletionsPaused, encode_config, encode_controller
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect


async def test_pausing_and_resuming(session: FakeSession) -> None:
    znode = ControllerZnode(BrokerId(1001), 7, admin="http://localhost:1")
    await apply(session, Create(paths.CONTROLLER, encode_controller(znode), ephemeral=True))
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    await topic_znodes.mark_for_deletion(session, ["orders"])
    paused = await pausing(session, "an audit", now_ms=1_700_000_000_000)
    assert paused.lines == (
        "Deletions are paused since 2023-11-14 22:13:20 UTC (an audit).",
        "1 topic is marked for deletion.",
    )
    (znode_now,) = await session.read([GetData(paths.DELETIONS_PAUSED)])
    assert isinstance(znode_now, Data)
    assert znode_now.data == b'{"version":1,"since":"1700000000000","reason":"an audit"}'
    resumed = await resuming(session)
    # The controller that leads could hold them back itself, and does not answer.
    assert resumed.exit is Exit.UNREACHABLE
    assert resumed.lines[0] == "The pause is ended: 1 topic is marked."
    assert resumed.lines[1].startswith("Whether the controller itself holds deletions back is not known")
    assert await deletions_paused(session) is None
    assert (await resuming(session)).lines[0] == "Deletions are not paused."


async def test_resuming_where_the_configuration_is_spoilt_says_what_holds_deletions_back(session: FakeSession) -> None:
    await pausing(session, "", now_ms=5)
    await session.ensure_path(paths.config_broker_default())
    await apply(session, SetData(paths.config_broker_default(), b"{", ANY_VERSION))
    resumed = await resuming(session)
    assert resumed.exit is Exit.WAITS
    assert resumed.lines[0] == "The pause is ended: 0 topics are marked."
    assert "may wait for the brokers' configuration /config/brokers/<default> to be readable" in resumed.lines[2]
    assert "lethe controller-resign" in resumed.lines[2]


async def test_resuming_does_not_say_that_deletions_continue_where_that_was_not_seen(session: FakeSession) -> None:
    async def said() -> tuple[Exit, Any, tuple[str, ...]]:
        await pausing(session, "", now_ms=5)
        resumed = await resuming(session)
        assert resumed.lines[0] == "The pause is ended: 0 topics are marked."
        data: Any = resumed.data
        return resumed.exit, data["deletions_continue"], resumed.lines[1:]

    waits = "every marked topic waits for a controller: none is active: "
    code, goes_on, lines = await said()
    assert (code, goes_on, len(lines), lines[0].startswith(waits)) == (Exit.WAITS, False, 1, True)
    await session.ensure_path(paths.config_broker_default())
    disabled = encode_config({"delete.topic.enable": "false"})
    await apply(session, SetData(paths.config_broker_default(), disabled, ANY_VERSION))
    assert "delete.topic.enable is false (in /config/brokers/<default>)" in (await said())[2][1]
    await elect(session, 2)
    code, goes_on, lines = await said()
    assert (code, goes_on) == (Exit.OK, None)
    assert lines[0].startswith("Whether topics are deleted is not known: the active controller 2 is not Lethe's")


async def test_resuming_where_the_controller_is_unseen_is_no_success(session: FakeSession) -> None:
    await elect(session, 2)
    await pausing(session, "", now_ms=5)
    await apply(session, SetData(paths.CONTROLLER, b"{", ANY_VERSION))
    resumed = await resuming(session)
    assert (resumed.exit, resumed.lines[0]) == (Exit.UNREACHABLE, "The pause is ended: 0 topics are marked.")
    assert "the active controller is unseen: znode /controller cannot be understood" in resumed.lines[1]


async def test_a_dry_run_changes_nothing(session: FakeSession) -> None:
    assert (await pausing(session, "", now_ms=5, dry_run=True)).lines[0] == "Would pause deletions."
    assert await deletions_paused(session) is None
    await pause_deletions(session, 5, "")
    assert "Would resume" in (await resuming(session, dry_run=True)).lines[0]
    assert await deletions_paused(session) == DeletionsPaused(5, "")


async def test_pausing_again_keeps_the_time_and_takes_a_new_reason(session: FakeSession) -> None:
    await pausing(session, "one", now_ms=5)
    again = await pausing(session, "", now_ms=9)
    assert again.lines[0].startswith("Deletions are already paused since 1970-01-01 00:00:00 UTC (one)")
    await pausing(session, "two", now_ms=9)
    assert await deletions_paused(session) == DeletionsPaused(5, "two")


async def test_an_unreadable_pause_is_a_pause_and_can_be_ended(session: FakeSession) -> None:
    await session.ensure_path(paths.DELETIONS_PAUSED)
    assert (await pausing(session, "", now_ms=9)).lines[0].startswith("Deletions are already paused (unreadable")
    await resuming(session)
    assert await deletions_paused(session) is None


async def test_kafkas_controller_takes_no_notice(session: FakeSession) -> None:
    assert "No controller is active" in (await pausing(session, "", now_ms=5)).lines[-1]
    await elect(session, 2)
    warning = (await pausing(session, "", now_ms=5)).lines[-1]
    assert warning.startswith("WARNING: the active controller 2 is not Lethe's")
    assert "continues to delete" in warning


async def test_an_unknown_outcome_is_no_success(session: FakeSession) -> None:
    await session.ensure_path(paths.LETHE)
    session.lose_next_reply(applied=True)
    with pytest.raises(Refusal, match="unknown") as refusal:
        await pausing(session, "", now_ms=5)
    assert refusal.value.exit is Exit.UNREACHABLE


async def test_a_deletion_that_is_asked_for_meanwhile_says_so(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    await creation(session, TopicCreationRequest("orders", assignment=((1,),)))
    await pausing(session, "an audit", now_ms=5)
    await deletion(session, ["orders"])
    assert "deletions are paused (an audit)" in capsys.readouterr().err
