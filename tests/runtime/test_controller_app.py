"""A whole controller over a fake ZooKeeper and brokers of real sockets."""

import asyncio
import functools
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lethe.adapters.http import HttpServer, serve_http
from lethe.adapters.kafka.client import KafkaConnection
from lethe.controller.core.context import Context, Role
from lethe.controller.runtime.app import ControllerApp, ExitCode, reachable_url, run
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, decode_lines
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.control import StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, Delete, Exists, GetData, MultiDone, Present
from tests.fakes.broken_broker import Act, FakeBroker
from tests.fakes.runtime import controller_config, reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper


async def connect(endpoint: Endpoint) -> BrokerConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1001", request_timeout_ms=60_000)


class Running:
    """One controller and what can be asked of it."""

    def __init__(self, app: ControllerApp, task: asyncio.Task[int]) -> None:
        self.app = app
        self.task = task

    @property
    def context(self) -> Context:
        return self.app.loop.context

    async def becomes(self, role: Role) -> None:
        await reach(lambda: self.context.role is role)

    async def stands_by(self, leader: int) -> None:
        """Standing by begins with the session; who leads is known only once `/controller` has been read."""
        await reach(lambda: self.context.role is Role.STANDING_BY and self.context.active_controller == leader)

    async def get(self, path: str) -> tuple[int, str]:
        assert self.app.http is not None
        async with aiohttp.ClientSession(self.app.http.url) as client, client.get(path) as response:
            return response.status, await response.text()


@asynccontextmanager
async def controller(
    zookeeper: FakeZooKeeper, number: int = 1001, journal: Path | None = None
) -> AsyncIterator[Running]:
    app = ControllerApp(controller_config(number, journal=journal), zookeeper.open_session, connect)
    task = asyncio.create_task(app.run(), name=f"controller-{number}")
    try:
        async with asyncio.timeout(30):
            await app.started.wait()
        yield Running(app, task)
    finally:
        app.stop("the test is over")
        app.stop("at once")
        await asyncio.wait([task], timeout=30)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def observer(zookeeper: FakeZooKeeper) -> AsyncIterator[FakeSession]:
    async with zookeeper.open_session(lambda _: None) as session:
        yield session


def journal_of(directory: Path) -> list[EventRecord]:
    (path,) = directory.iterdir()
    return [entry.record for entry in decode_lines(path.read_bytes().splitlines()) if isinstance(entry, JournalEntry)]


async def present(session: FakeSession, path: str) -> bool:
    (found,) = await session.read([Exists(path)])
    return isinstance(found, Present)


async def register(session: FakeSession, number: int, endpoint: Endpoint) -> None:
    broker = Broker(BrokerId(number), BrokerEpoch(-1), (endpoint,))
    await session.ensure_path(paths.BROKER_IDS)
    done = await session.multi(
        [Create(paths.broker_id(BrokerId(number)), znodes.encode_broker(broker, timestamp_ms=1), ephemeral=True)]
    )
    assert isinstance(done, MultiDone), done


async def create_topic(session: FakeSession, name: str, replicas: tuple[int, ...]) -> None:
    topic = znodes.TopicZnode({0: ReplicaAssignment(replicas)}, None)
    assert isinstance(await session.multi([Create(paths.topic(name), znodes.encode_topic(topic))]), MultiDone)


async def until_absent(session: FakeSession, path: str) -> None:
    async with asyncio.timeout(30):
        while await present(session, path):
            await asyncio.sleep(0.001)


async def test_elected_on_an_empty_zookeeper_and_stops_in_order(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with observer(zookeeper) as session, controller(zookeeper, journal=tmp_path) as one:
        await one.becomes(Role.ACTIVE)
        assert await present(session, "/controller")
        assert await present(session, "/admin/delete_topics")
        one.app.stop("SIGTERM")
        assert await asyncio.wait_for(one.task, 30) == ExitCode.STOPPED
        assert not await present(session, "/controller")
        assert len(zookeeper.sessions) == 1
    found = journal_of(tmp_path)
    elections = [record.data["what"] for record in found if record.type is EventRecordType.ELECTION]
    assert elections == ["elected", "active", "resigned"]
    assert (found[0].data["event"], found[-1].data["event"]) == ("process started", "process stopping")


async def test_what_it_shows_over_http() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as one:
        await one.becomes(Role.ACTIVE)
        status, text = await one.get("/state")
        state = json.loads(text)
        assert status == 200
        assert (state["role"], state["active_controller"], state["controller_epoch"]) == ("active", 1001, 1)
        assert (await one.get("/healthz"))[0] == 200
        assert (await one.get("/readyz"))[0] == 200
        assert (await one.get("/deletions/orders"))[0] == 404
        _, metrics = await one.get("/metrics")
        assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in metrics
        assert 'lethe_controller_role{role="active"} 1.0' in metrics
        assert "process_cpu_seconds_total" in metrics


async def test_without_zookeeper_it_is_healthy_but_not_ready_and_goes_on_trying() -> None:
    zookeeper = FakeZooKeeper()
    zookeeper.unavailable = "connection refused"
    async with controller(zookeeper) as one:
        assert (await one.get("/healthz"))[0] == 200
        await reach(lambda: "refused" in str(one.context.role) or one.app.loop.context.role is Role.NO_SESSION)
        status, text = await one.get("/readyz")
        assert status == 503
        assert "no ZooKeeper session" in text
        _, metrics = await one.get("/metrics")
        assert "kafka_controller_kafkacontroller_activecontrollercount 0.0" in metrics
        zookeeper.unavailable = None
        await one.becomes(Role.ACTIVE)


async def test_a_topic_is_created_and_deleted_with_real_sockets(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session, controller(zookeeper, journal=tmp_path) as one:
        await one.becomes(Role.ACTIVE)
        await register(session, 1, broker.endpoint)
        await create_topic(session, "orders", (1,))
        await reach(lambda: one.context.cluster.partitions_with_leader_and_isr == 1)
        await session.multi([Create(paths.delete_topic("orders"), None)])
        await until_absent(session, paths.delete_topic("orders"))
        assert not await present(session, paths.topic("orders"))
        tombstones = [
            row.leader
            for request in broker.requests
            if isinstance(request, UpdateMetadataRequest)
            for topic in request.topics
            for row in topic.partitions
        ]
        assert tombstones[-1] == -2
        assert any(isinstance(request, StopReplicaRequest) for request in broker.requests)
        _, metrics = await one.get("/metrics")
        assert 'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"}' in metrics
        assert 'lethe_controller_deletion_phase_seconds_count{phase="acknowledged"} 1.0' in metrics
    records = journal_of(tmp_path)
    assert {EventRecordType.TRANSITION, EventRecordType.REQUEST, EventRecordType.ACK, EventRecordType.ZNODE_WRITE} <= {
        record.type for record in records
    }
    assert [(record, schema_problems(record)) for record in records if schema_problems(record)] == []


async def test_why_a_deletion_is_not_done_can_be_asked() -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session, controller(zookeeper) as one:
        await register(session, 1, broker.endpoint)
        await one.becomes(Role.ACTIVE)
        await create_topic(session, "orders", (1, 2))
        await reach(lambda: one.context.cluster.partitions_with_leader_and_isr == 1)
        await session.multi([Create(paths.delete_topic("orders"), None)])
        await reach(lambda: "orders" in one.context.cluster.deletions)
        status, text = await one.get("/deletions/orders")
        assert status == 200
        waits = json.loads(text)["waits"]
        assert ("BROKER_TO_RETURN", 2) in [(wait["waiting_for"], wait["broker"]) for wait in waits]


async def test_what_all_marked_topics_wait_for_can_be_asked() -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session, controller(zookeeper) as one:
        await register(session, 1, broker.endpoint)
        await one.becomes(Role.ACTIVE)
        await create_topic(session, "orders", (1, 2))
        await session.multi([Create(paths.topic("garbled"), b"?")])
        await reach(
            lambda: (
                one.context.cluster.partitions_with_leader_and_isr == 1
                and "garbled" in one.context.cluster.quarantined_topics
            )
        )
        for name in ("orders", "garbled"):
            await session.multi([Create(paths.delete_topic(name), None)])
        await reach(lambda: "orders" in one.context.cluster.deletions)
        await reach(lambda: "garbled" in one.context.cluster.marks)
        status, text = await one.get("/waits")
        assert status == 200
        shown = json.loads(text)
        assert {name: waits[-1]["waiting_for"] for name, waits in shown["topics"].items()} == {
            "garbled": "READABLE_ZNODE",
            "orders": "BROKER_TO_RETURN",
        }
        assert shown["not_shown"] == 0
        async with controller(zookeeper, 1002) as two:
            await two.stands_by(1001)
            assert (await two.get("/waits"))[0] == 409


async def test_why_topics_are_not_gone_is_explained_with_what_the_channels_met() -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session, controller(zookeeper) as one:
        await register(session, 1, broker.endpoint)
        await one.becomes(Role.ACTIVE)
        await create_topic(session, "orders", (1, 2))
        await reach(lambda: one.context.cluster.partitions_with_leader_and_isr == 1)
        async with FakeBroker() as other:
            nobody_there = other.endpoint
        await register(session, 2, nobody_there)
        await session.multi([Create(paths.delete_topic("orders"), None)])
        await reach(lambda: "orders" in one.context.cluster.deletions)

        async def last_error() -> str:
            status, text = await one.get("/explain/orders")
            assert status == 200
            rows = json.loads(text)["topics"][0]["replicas"]
            return next((row["last_error"] or "" for row in rows if row["broker"] == 2), "")

        async with asyncio.timeout(30):
            while "unreachable" not in await last_error():
                await asyncio.sleep(0.01)
        status, text = await one.get("/explain?at_most=0")
        assert (status, json.loads(text)["not_shown"]) == (200, 1)
        assert (await one.get("/explain?at_most=few"))[0] == 400
        status, text = await one.get("/explain/payments")
        assert (status, json.loads(text)["marked"]) == (404, False)
        async with controller(zookeeper, 1002) as two:
            await two.stands_by(1001)
            for page in ("/explain", "/explain/orders"):
                status, text = await two.get(page)
                said = "controller 1002 is not active; controller 1001 is: ask that one"
                assert (status, json.loads(text)["error"]) == (409, said)


async def test_controllers_znode_tells_where_its_http_server_is() -> None:
    zookeeper = FakeZooKeeper()
    async with observer(zookeeper) as session, controller(zookeeper) as one:
        await one.becomes(Role.ACTIVE)
        (found,) = await session.read([GetData(paths.controller())])
        assert isinstance(found, Data)
        assert one.app.http is not None
        assert one.app.http.port > 0
        assert znodes.decode_controller(found.data).admin == one.app.http.url


def test_server_that_listens_everywhere_is_found_under_the_machines_name() -> None:
    assert reachable_url(HttpServer("0.0.0.0", 7)) == f"http://{socket.gethostname()}:7"
    assert reachable_url(HttpServer("127.0.0.1", 7)) == "http://127.0.0.1:7"


async def test_the_series_of_a_broker_go_with_it() -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session, controller(zookeeper) as one:
        await register(session, 1, broker.endpoint)
        await one.becomes(Role.ACTIVE)
        await reach(lambda: 1 in one.context.cluster.brokers)
        assert 'broker_id="1"' in (await one.get("/metrics"))[1]
        await session.multi([Delete(paths.broker_id(BrokerId(1)))])
        await reach(lambda: 1 not in one.context.cluster.brokers)
        assert 'broker_id="1"' not in (await one.get("/metrics"))[1]
        await reach(lambda: broker.open_connections == 0)


# --- losing control -----------------------------------------------------------------------------------------------


async def test_a_standby_takes_over_when_controller_is_deleted() -> None:
    zookeeper = FakeZooKeeper()
    async with observer(zookeeper) as session, controller(zookeeper, 1001) as one:
        await one.becomes(Role.ACTIVE)
        async with controller(zookeeper, 1002) as two:
            await two.stands_by(1001)
            assert (await two.get("/readyz"))[0] == 200
            assert (await two.get("/deletions/orders"))[0] == 409
            for term in range(2, 6):
                await session.multi([Delete("/controller")])
                await reach(functools.partial(leads_alone, term, one, two))
            assert one.context.active_controller == two.context.active_controller


def leads_alone(term: int, *controllers: Running) -> bool:
    """Exactly one of them is active, in that term, and the others know who it is."""
    active = [each.context for each in controllers if each.context.role is Role.ACTIVE]
    known = {each.context.active_controller for each in controllers}
    return len(active) == 1 and active[0].cluster.epoch == term and known == {active[0].config.controller_id}


async def test_resigning_on_request_lets_the_other_one_win() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper, 1001) as one:
        await one.becomes(Role.ACTIVE)
        async with controller(zookeeper, 1002) as two:
            await two.stands_by(1001)
            one.app.stop("SIGTERM")
            assert await asyncio.wait_for(one.task, 30) == ExitCode.STOPPED
            await two.becomes(Role.ACTIVE)
            assert two.context.cluster.epoch == 2


async def test_an_expired_session_means_resignation_and_a_new_election() -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker([Act.HOLD]) as broker, observer(zookeeper) as session, controller(zookeeper) as one:
        await register(session, 1, broker.endpoint)
        await one.becomes(Role.ACTIVE)
        await reach(lambda: broker.seen)
        zookeeper.expire(one.context.session_id)
        await reach(lambda: one.context.cluster.epoch == 2)
        await one.becomes(Role.ACTIVE)
        broker.released.set()
        await reach(lambda: any(seen.request.controller_epoch == 2 for seen in broker.seen))
        assert "kafka_server_sessionexpirelistener_zookeeperexpirespersec_count 1.0" in (await one.get("/metrics"))[1]


async def test_a_fault_leads_to_resignation_and_a_fresh_start(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = FakeZooKeeper()
    async with observer(zookeeper) as session, controller(zookeeper) as one:
        await one.becomes(Role.ACTIVE)
        before = one.context.session_id
        one.app.loop.fault(LookupError("planted"), "a test")
        await reach(lambda: one.context.role is Role.BACKING_OFF)
        await until_absent(session, "/controller")
        await one.becomes(Role.ACTIVE)
        assert one.context.session_id != before
        assert one.context.cluster.epoch == 2
        (data,) = await session.read([GetData("/controller_epoch")])
        assert isinstance(data, Data)
        assert data.data == b"2"


# --- starting and stopping ----------------------------------------------------------------------------------------


async def test_a_port_in_use_is_said_and_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_http("127.0.0.1", 0, []) as server:
        app = ControllerApp(controller_config(http_port=server.port), FakeZooKeeper().open_session, connect)
        assert await asyncio.wait_for(app.run(), 30) == ExitCode.CANNOT_START
    assert "the port is in use" in caplog.text


async def test_a_malformed_connect_string_is_said_and_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    assert await asyncio.wait_for(run(controller_config(connect="127.0.0.1:no-port")), 30) == ExitCode.CANNOT_START
    assert "no-port" in caplog.text


async def test_sigterm_stops_it() -> None:
    zookeeper = FakeZooKeeper()
    async with controller(zookeeper) as one:
        await one.becomes(Role.ACTIVE)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(one.task, 30) == ExitCode.STOPPED
    assert zookeeper.sessions == {}


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_cancelled_anywhere_it_leaves_no_session_and_no_connection(steps: int) -> None:
    zookeeper = FakeZooKeeper()
    async with FakeBroker() as broker, observer(zookeeper) as session:
        await session.ensure_path("/brokers/ids")
        await register(session, 1, broker.endpoint)
        app = ControllerApp(controller_config(), zookeeper.open_session, connect)
        task = asyncio.create_task(app.run(), name="controller")
        await app.started.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()
        assert list(zookeeper.sessions) == [session.session_id]
        await reach(lambda: broker.open_connections == 0)
        assert not [
            t for t in asyncio.all_tasks() if t.get_name().startswith(("channel-", "controller-", "zookeeper-"))
        ]
