"""Registration on the fake ZooKeeper: what Kafka does where the znode exists already."""

from __future__ import annotations

from typing import cast

import pytest

from lethe.adapters.registration import (
    BrokerIdTaken,
    RegistrationFailed,
    cluster_id,
    ensure_roots,
    notify_log_dir_failure,
    register_broker,
)
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession, needs_new_settings
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, WatchFired, ZkError
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_broker, decode_log_dir_event, encode_cluster_id
from tests.fakes.forbidden_znodes import Refusing
from tests.fakes.zookeeper import FakeZooKeeper

ME = Broker(BrokerId(3), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "h", 1),), "r")
PATH = paths.broker_id(3)


def ignore(_: WatchFired) -> None:
    pass


async def test_registration_gives_the_czxid() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await ensure_roots(session)
        epoch = await register_broker(session, ME, timestamp_ms=5)
        node = zookeeper.model.node(PATH)
        assert node is not None
        assert node.czxid == epoch
        assert node.owner == session.session_id
        assert node.version == 1, "created with null data, then set"
        broker = decode_broker(3, epoch, node.data)
        assert (broker.endpoints, broker.rack) == (ME.endpoints, "r")
    assert zookeeper.model.node(PATH) is None


@pytest.mark.parametrize("applied", [True, False])
async def test_a_lost_reply_is_found_out_about(applied: bool) -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await ensure_roots(session)
        session.lose_next_reply(applied=applied)
        epoch = await register_broker(session, ME, timestamp_ms=5)
        node = zookeeper.model.node(PATH)
        assert node is not None
        assert node.czxid == epoch


async def test_an_earlier_session_of_this_process_is_replaced() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as old, zookeeper.open_session(ignore) as new:
        await ensure_roots(old)
        before = await register_broker(old, ME, timestamp_ms=5)
        after = await register_broker(new, ME, timestamp_ms=6, earlier_sessions=[old.session_id])
        assert after > before
        node = zookeeper.model.node(PATH)
        assert node is not None
        assert node.owner == new.session_id


async def test_somebody_elses_registration_stays() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as other, zookeeper.open_session(ignore) as session:
        await ensure_roots(other)
        await register_broker(other, ME, timestamp_ms=5)
        with pytest.raises(BrokerIdTaken, match="is registered as broker 3") as taken:
            await register_broker(session, ME, timestamp_ms=6)
        assert taken.value.owner == other.session_id
        node = zookeeper.model.node(PATH)
        assert node is not None
        assert node.owner == other.session_id


async def test_without_a_session_nothing_is_registered() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        zookeeper.expire(session.session_id)
        with pytest.raises(SessionLost):
            await register_broker(session, ME, timestamp_ms=6)


async def test_the_first_one_gives_the_cluster_its_id() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        assert await cluster_id(session, "first") == "first"
        assert await cluster_id(session, "second") == "first"


async def test_an_id_given_by_somebody_faster_counts() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await session.ensure_path("/cluster")
        await session.multi([Create(paths.CLUSTER_ID, encode_cluster_id("theirs"))])
        assert await cluster_id(session, "ours") == "theirs"


async def test_an_id_that_cannot_be_read_is_not_overwritten() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await session.ensure_path("/cluster")
        await session.multi([Create(paths.CLUSTER_ID, b"nonsense")])
        with pytest.raises(MalformedZnode, match="/cluster/id"):
            await cluster_id(session, "ours")


async def test_a_failed_log_directory_is_announced() -> None:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await notify_log_dir_failure(session, BrokerId(3))
        await notify_log_dir_failure(session, BrokerId(3))
    parent = paths.log_dir_event_notifications()
    names = zookeeper.model.children(parent)
    assert names == ("log_dir_event_0000000000", "log_dir_event_0000000001")
    node = zookeeper.model.node(f"{parent}/{names[0]}")
    assert node is not None
    assert decode_log_dir_event(f"{parent}/{names[0]}", node.data) == 3


async def test_what_an_access_list_forbids_needs_new_settings() -> None:
    """So it is not tried again at once, and said once."""
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore) as session:
        await ensure_roots(session)
        await session.ensure_path("/cluster")
        refusing = cast(ZooKeeperSession, Refusing(session, lambda _: ZkError.NO_AUTH))
        for attempt in (
            register_broker(refusing, ME, timestamp_ms=5),
            cluster_id(refusing, "ours"),
            notify_log_dir_failure(refusing, BrokerId(3)),
        ):
            with pytest.raises(RegistrationFailed, match="NO_AUTH") as failed:
                await attempt
            assert needs_new_settings(failed.value)
