"""The checker's own readers against the real thing: a real ZooKeeper, its transaction log, a whole agent."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.zookeeper import EmbeddedZooKeeper
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    MultiDone,
    MultiFailed,
    Operation,
    SetData,
    ZkError,
)
from tests.chaos.gate import Gate, lose_elections
from tests.chaos.raw_kafka import NoAnswer, parse, read_cache
from tests.chaos.raw_zookeeper import RawZooKeeper, ReadFailed
from tests.chaos.txn_log import Created, Deleted, SessionClosed, Unreadable, Written, committed
from tests.chaos.txn_log import parse as parse_log
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.zookeeper import FakeZooKeeper
from tests.runtime.test_agent_app import addressed
from tests.unit.broker.core.driver import X, become, metadata


def config(connect: str) -> ZooKeeperConfig:
    return ZooKeeperConfig(parse_connect_string(connect))


@pytest.mark.zookeeper
async def test_znodes_and_transactions_of_a_real_zookeeper(own_zookeeper: EmbeddedZooKeeper) -> None:
    async with open_session(config(own_zookeeper.connect_string), lambda _: None) as session:
        await session.multi([Create("/a", b"1"), Create("/a/b", b"", ephemeral=True)])
        await session.multi([SetData("/a", b"22", 0), Check("/a", 1)])
        assert await session.multi([Create("/c", b""), Delete("/missing")]) == MultiFailed(1, ZkError.NO_NODE)
        writer = session.session_id
        async with RawZooKeeper("127.0.0.1", own_zookeeper.port) as reader:
            await reader.sync()
            assert await reader.children("/a") == ("b",)
            assert await reader.children("/missing") is None
            assert await reader.get("/missing") is None
            assert await reader.tree("/a") == {"/a": b"22", "/a/b": b""}
        await session.multi([Delete("/a/b")])
    own_zookeeper.stop()
    logged = committed([own_zookeeper.data_dir / "data" / "version-2"])
    ours = [each.changes for each in logged if each.session == writer and each.changes]
    assert ours == [
        (Created("/a", b"1", ephemeral=False), Created("/a/b", b"", ephemeral=True)),
        (Written("/a", b"22"),),
        (Deleted("/a/b"),),
        (SessionClosed(),),
    ]
    assert [each.zxid for each in logged] == sorted({each.zxid for each in logged})
    assert committed([own_zookeeper.data_dir / "data" / "version-2", Path("/none"), Path("/none")]) == []


@pytest.mark.zookeeper
async def test_a_server_that_is_gone_is_unseen(own_zookeeper: EmbeddedZooKeeper) -> None:
    async with RawZooKeeper("127.0.0.1", own_zookeeper.port, limit_s=1.0) as reader:
        own_zookeeper.pause()
        with pytest.raises(TimeoutError):
            await reader.get("/")
        own_zookeeper.resume()
    own_zookeeper.kill()
    with pytest.raises((ReadFailed, OSError)):
        async with RawZooKeeper("127.0.0.1", own_zookeeper.port):
            pass


@pytest.mark.zookeeper
async def test_a_kafka_broker_behind_a_gate_loses_every_election(own_zookeeper: EmbeddedZooKeeper) -> None:
    async with (
        Gate(("127.0.0.1", own_zookeeper.port), lose_elections) as gate,
        open_session(config(f"127.0.0.1:{gate.port}"), lambda _: None) as session,
    ):
        await session.multi([Create("/brokers", b""), Create("/controller_epoch", b"1")])
        election: list[Operation] = [
            Create("/controller", b"{}", ephemeral=True),
            SetData("/controller_epoch", b"2", 0),
        ]
        assert await session.multi(election) == MultiFailed(0, ZkError.NODE_EXISTS)
        assert isinstance(await session.multi([Create("/controllers", b"")]), MultiDone)
        assert isinstance(await session.multi([SetData("/controller_epoch", b"2", 0)]), MultiDone)


async def test_the_cache_of_a_whole_agent(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    me = Broker(BrokerId(1), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.1", 9),))
    async with running(agent_config(tmp_path), zookeeper.open_session) as app, connected(app) as connection:
        (endpoint, *_) = app.endpoints
        empty = await read_cache(endpoint.host, endpoint.port)
        assert empty.topics == {}
        await connection.ask(addressed(app, become(is_new=True, partitions=(0, 1))))
        await connection.ask(addressed(app, metadata(partitions=(0, 1), brokers=(me,))))
        seen = await read_cache(endpoint.host, endpoint.port)
    assert seen.topics["t"].topic_id == X
    assert sorted(seen.topics["t"].partitions) == [0, 1]
    assert (seen.topics["t"].partitions[0].leader, seen.topics["t"].partitions[0].replicas) == (1, (1,))
    assert (seen.brokers, seen.controller) == ((1,), 9)
    with pytest.raises(OSError):
        await read_cache(endpoint.host, endpoint.port)


def test_an_answer_that_is_cut_or_of_another_request_is_no_empty_cache() -> None:
    whole = struct.pack("!i", 77) + b"\0" + struct.pack("!i", 0) + b"\1\0" + struct.pack("!i", 5) + b"\1\0"
    assert parse(whole).topics == {}
    for end in range(len(whole)):
        with pytest.raises((NoAnswer, struct.error, IndexError)):
            parse(whole[:end])
    with pytest.raises(NoAnswer):
        parse(b"\0\0\0\1" + whole[4:])
    with pytest.raises(NoAnswer):
        parse(whole + b"\0")


def test_a_file_that_is_no_transaction_log_is_refused() -> None:
    with pytest.raises(Unreadable):
        list(parse_log(b"something else"))
    assert list(parse_log(b"")) == []


def test_what_a_minority_has_logged_never_happened(tmp_path: Path) -> None:
    for number, zxids in enumerate([(1, 2, 3), (1, 2), (1,)]):
        (tmp_path / str(number)).mkdir()
        entries = b"".join(_entry(zxid) for zxid in zxids)
        (tmp_path / str(number) / "log.1").write_bytes(b"ZKLG" + bytes(12) + entries + bytes(64))
    assert [each.zxid for each in committed([tmp_path / str(number) for number in range(3)])] == [1, 2]


def _entry(zxid: int) -> bytes:
    path = b"/a"
    record = struct.pack("!qiqqi", 7, 0, zxid, 1_000, 2) + struct.pack("!i", len(path)) + path
    return struct.pack("!qi", 0, len(record)) + record + b"B"
