"""A frame with a controller epoch that nobody was elected under, sent to a whole agent over the wire."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import ConnectionFailed
from lethe.protocol.kafka.control import Addressed, ControlRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, ControllerEpoch, TopicPartition
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.paths import controller as controller_path
from lethe.protocol.zookeeper.paths import controller_epoch
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller, encode_controller_epoch
from tests.fakes.agents import agent_config, connected, ignore_watch, note_controller_epoch, running
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import become, metadata, stop

FORGED = 2_147_483_647


@pytest.mark.parametrize(
    "forged",
    [become(controller_epoch=FORGED), metadata(controller_epoch=FORGED), stop(controller_epoch=FORGED)],
    ids=["LeaderAndIsr", "UpdateMetadata", "StopReplica"],
)
async def test_one_forged_frame_changes_nothing_and_the_true_controller_is_obeyed(
    tmp_path: Path, forged: ControlRequest, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session, 5)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as controller:
        mine = app.loop.state.broker_epoch
        await controller.ask(Addressed(become(is_new=True), mine))
        async with connected(app) as foreign_member:
            with pytest.raises(ConnectionFailed):
                await foreign_member.ask(Addressed(forged, NO_EPOCH))
        assert TopicPartition("t", 0) in app.loop.state.replicas
        for request in (become(), metadata(), stop()):
            answer = await controller.ask(Addressed(request, mine))
            assert answer.error == ErrorCode.NONE  # type: ignore[union-attr]
    (said,) = [record for record in caplog.records if record.levelno == logging.WARNING and "refusal" in record.message]
    assert "/controller_epoch in ZooKeeper is 5" in str(said.__dict__)


async def test_the_next_controller_is_obeyed_at_once_and_zookeeper_is_asked_once(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session, 5)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        mine = app.loop.state.broker_epoch
        await connection.ask(Addressed(become(is_new=True), mine))
        async with zookeeper.open_session(ignore_watch) as session:
            znode = encode_controller_epoch(ControllerEpoch(6))
            await session.multi([SetData(controller_epoch(), znode, ANY_VERSION)])
        for epoch, expected in ((6, 0), (5, ErrorCode.STALE_CONTROLLER_EPOCH), (6, 0)):
            answer = await connection.ask(Addressed(metadata(controller_epoch=epoch), mine))
            assert answer.error == expected  # type: ignore[union-attr]


async def test_while_zookeeper_is_away_a_new_epoch_is_not_adopted_and_the_old_one_is_obeyed(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session, 5)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as controller:
        mine = app.loop.state.broker_epoch
        await controller.ask(Addressed(become(is_new=True), mine))
        app._sessions.session, session = None, app._sessions.session
        async with connected(app) as other:
            with pytest.raises(ConnectionFailed):
                await other.ask(Addressed(metadata(controller_epoch=6), mine))
        answer = await controller.ask(Addressed(metadata(), mine))
        assert answer.error == ErrorCode.NONE  # type: ignore[union-attr]
        app._sessions.session = session


async def test_a_forged_stop_replica_with_the_true_epoch_and_another_id_deletes_nothing(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session, 5)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as controller:
        mine = app.loop.state.broker_epoch
        await controller.ask(Addressed(become(is_new=True), mine))
        async with connected(app) as foreign:
            with pytest.raises(ConnectionFailed):
                await foreign.ask(Addressed(replace(stop(delete=True), controller_id=BrokerId(8)), mine))
        assert TopicPartition("t", 0) in app.loop.state.replicas
        assert (await controller.ask(Addressed(stop(delete=True), mine))).error == ErrorCode.NONE  # type: ignore[union-attr]
        assert TopicPartition("t", 0) not in app.loop.state.replicas


async def test_while_another_one_takes_control_the_controller_that_is_known_is_obeyed(tmp_path: Path) -> None:
    """Lethe writes its id into `/controller`, and raises the epoch some seconds later."""
    zookeeper = FakeZooKeeper()
    await note_controller_epoch(zookeeper.open_session, 5)
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as former:
        mine = app.loop.state.broker_epoch
        await former.ask(Addressed(become(is_new=True), mine))
        async with zookeeper.open_session(ignore_watch) as session:
            znode = encode_controller(ControllerZnode(BrokerId(8), 0))
            await session.multi([Delete(controller_path()), Create(controller_path(), znode)])
        async with connected(app) as later:
            with pytest.raises(ConnectionFailed):
                await later.ask(Addressed(replace(metadata(), controller_id=BrokerId(8)), mine))
        answer = await former.ask(Addressed(metadata(), mine))
        assert answer.error == ErrorCode.NONE  # type: ignore[union-attr]
