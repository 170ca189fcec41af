"""Channels against brokers of real sockets, healthy and broken."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed, KafkaConnection, TlsFailed
from lethe.controller.core.effects import OpenChannel, Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    PartAnswered,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.runtime import bodies, brokers
from lethe.controller.runtime.brokers import BrokerConnection, Channels, ChannelSettings
from lethe.controller.runtime.metrics import ChannelCounts
from lethe.protocol.back_off import BackOff
from lethe.protocol.kafka.codec import EncodedBody, encode_control_body
from lethe.protocol.kafka.control import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataRequest,
)
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch, Endpoint
from tests.fakes.broken_broker import Act, FakeBroker
from tests.fakes.runtime import reach

ME = BrokerId(1001)
EPOCH = ControllerEpoch(7)
QUICK = BackOff(1, 4)


def update(*_: object) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(ME, EPOCH, (), ())


def leader_and_isr(topic: str = "orders", partitions: int = 1) -> LeaderAndIsrRequest:
    rows = tuple(LeaderAndIsrPartition(n, 7, 1, 0, (1,), 0, (1,)) for n in range(partitions))
    return LeaderAndIsrRequest(ME, EPOCH, (LeaderAndIsrTopic(topic, None, rows),), ())


def stop_replica(delete: tuple[bool, ...] = (True,)) -> StopReplicaRequest:
    rows = tuple(StopReplicaPartition(n, -2, flag) for n, flag in enumerate(delete))
    return StopReplicaRequest(ME, EPOCH, (StopReplicaTopic("orders", rows),))


class Bench:
    def __init__(self, tasks: asyncio.TaskGroup, ibp: str, impatient: int, max_request_bytes: int) -> None:
        self.answers: list[Answer] = []
        self.parts: list[PartAnswered] = []
        self.faults: list[tuple[Exception, str]] = []
        self.room = asyncio.Event()
        self.room.set()
        self.connects = 0
        self.impatient = impatient
        """So many connections wait only a moment for an answer."""
        self.refusals: list[ConnectionFailed] = []
        """Why the next connections cannot be opened."""
        settings = ChannelSettings(InterBrokerProtocol.parse(ibp), max_request_bytes, QUICK, log_every_ms=0)
        self.channels = Channels(
            tasks,
            settings,
            self._connect,
            self._deliver,
            lambda error, where: self.faults.append((error, where)),
        )
        self._ids = 0

    async def _connect(self, endpoint: Endpoint) -> BrokerConnection:
        self.connects += 1
        if self.refusals:
            raise self.refusals.pop(0)
        limit_ms = 40 if self.connects <= self.impatient else 60_000
        return await KafkaConnection.open(
            endpoint.host, endpoint.port, str(ME), request_timeout_ms=limit_ms, max_response_bytes=1 << 20
        )

    async def _deliver(self, answer: Answer | PartAnswered) -> None:
        await self.room.wait()
        if isinstance(answer, PartAnswered):
            self.parts.append(answer)
        else:
            self.answers.append(answer)

    def open(self, endpoint: Endpoint, broker: int = 1, epoch: int = 10) -> None:
        self.channels.open(OpenChannel(BrokerId(broker), BrokerEpoch(epoch), endpoint))

    def send(self, request: ControlRequest, broker: int = 1, epoch: int = 10) -> int:
        self._ids += 1
        self.channels.send(Send(BrokerId(broker), BrokerEpoch(epoch), self._ids, request))
        return self._ids

    def counts(self, broker: int = 1) -> ChannelCounts:
        (found,) = [view.counts for view in self.channels.views() if view.broker == broker]
        return found

    def numbers(self) -> list[int]:
        return [answer.request_id for answer in self.answers]


@asynccontextmanager
async def bench(
    ibp: str = "3.9", impatient: int = 0, max_request_bytes: int = DEFAULT_MAX_BYTES
) -> AsyncIterator[Bench]:
    async with asyncio.TaskGroup() as tasks:
        made = Bench(tasks, ibp, impatient, max_request_bytes)
        try:
            yield made
        finally:
            made.channels.close_all()


async def test_requests_are_answered_in_order() -> None:
    async with FakeBroker() as broker, bench() as b:
        b.open(broker.endpoint)
        first, second, third = leader_and_isr(), update(), stop_replica()
        numbers = [b.send(request) for request in (first, second, third)]
        await reach(lambda: len(b.answers) == 3)
        assert b.numbers() == numbers
        kinds = [LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived, StopReplicaResponseReceived]
        assert [type(answer) for answer in b.answers] == kinds
        assert [(answer.broker, answer.broker_epoch) for answer in b.answers] == [(1, 10)] * 3
        assert [type(request) for request in broker.requests] == [type(first), type(second), type(third)]
        assert {(seen.client_id, seen.broker_epoch) for seen in broker.seen} == {("1001", 10)}
        assert broker.connections == 1


async def test_one_request_in_flight() -> None:
    async with FakeBroker([Act.HOLD]) as broker, bench() as b:
        b.open(broker.endpoint)
        for _ in range(5):
            b.send(update())
        await reach(lambda: broker.seen)
        await asyncio.sleep(0.02)
        assert len(broker.seen) == 1
        assert b.counts().queue_size == 4
        broker.released.set()
        await reach(lambda: len(b.answers) == 5)
        assert b.counts().queue_size == 0
        assert b.counts().backlog_bytes == 0
        assert b.counts().queue_time_ms.count == 5


async def test_the_next_request_waits_until_the_answer_before_found_room() -> None:
    async with FakeBroker() as broker, bench() as b:
        b.room.clear()
        b.open(broker.endpoint)
        for _ in range(3):
            b.send(update())
        await reach(lambda: broker.seen)
        await asyncio.sleep(0.02)
        assert len(broker.seen) == 1
        b.room.set()
        await reach(lambda: len(b.answers) == 3)


@pytest.mark.parametrize(
    "ibp, versions",
    [
        ("2.2", (2, 5, 1)),
        ("2.5", (4, 6, 2)),
        ("2.6", (4, 6, 3)),
        ("2.8", (5, 7, 3)),
        ("3.3", (6, 7, 3)),
        ("3.9", (7, 8, 4)),
    ],
)
async def test_versions_follow_the_inter_broker_protocol(ibp: str, versions: tuple[int, int, int]) -> None:
    async with FakeBroker() as broker, bench(ibp) as b:
        b.open(broker.endpoint)
        for request in (leader_and_isr(), update(), stop_replica()):
            b.send(request)
        await reach(lambda: len(b.answers) == 3)
        assert tuple(seen.version for seen in broker.seen) == versions


# --- broken brokers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act, reason",
    [
        (Act.CLOSE, "lost"),
        (Act.TRUNCATE, "garbage"),
        (Act.GARBAGE, "garbage"),
        (Act.HUGE, "garbage"),
        (Act.OTHER_NUMBER, "garbage"),
        (Act.TRAILING, "garbage"),
        (Act.HOLD, "timeout"),
    ],
)
async def test_the_same_content_is_sent_until_it_is_answered(act: Act, reason: str) -> None:
    async with FakeBroker([act] * 3) as broker, bench(impatient=3 if act is Act.HOLD else 0) as b:
        b.open(broker.endpoint)
        first, second = b.send(leader_and_isr()), b.send(update())
        await reach(lambda: len(b.answers) == 2)
        assert b.numbers() == [first, second]
        assert b.counts().retries == {reason: 3}
        assert broker.requests[:4] == [leader_and_isr()] * 4
        bodies = {seen.payload[8:] for seen in broker.seen[:4]}
        assert len(bodies) == 1
        assert broker.connections == 4
        assert not b.faults


async def test_a_refused_login_and_missing_tls_are_counted_apart_and_tried_again() -> None:
    async with FakeBroker() as broker, bench() as b:
        b.refusals = [AuthenticationRefused("user lethe"), AuthenticationRefused("again"), TlsFailed("no authority")]
        b.open(broker.endpoint)
        number = b.send(update())
        await reach(lambda: b.answers)
        assert b.numbers() == [number]
        assert b.counts().retries == {"login": 2, "tls": 1}


async def test_a_broker_that_does_not_listen_yet_is_tried_until_it_does() -> None:
    async with FakeBroker() as broker:
        endpoint = broker.endpoint
    async with bench() as b:
        b.open(endpoint)
        number = b.send(update())
        await reach(lambda: b.counts().retries.get("unreachable", 0) >= 3)
        assert not b.answers
        async with FakeBroker(port=endpoint.port) as broker:
            await reach(lambda: b.answers)
            assert b.numbers() == [number]
            assert len(broker.seen) == 1


async def test_waits_grow_up_to_a_cap_and_success_resets_them() -> None:
    waits = [BackOff(100, 1000).wait_ms(attempt) for attempt in range(7)]
    assert waits == [0, 100, 200, 400, 800, 1000, 1000]
    assert BackOff(100, 5000).wait_ms(10_000) == 5000
    async with FakeBroker([Act.CLOSE, Act.CLOSE, Act.ANSWER, Act.CLOSE]) as broker, bench() as b:
        b.open(broker.endpoint)
        b.send(update())
        b.send(update())
        await reach(lambda: len(b.answers) == 2)
        (channel,) = b.channels._channels.values()
        assert channel._failures == 0


async def test_an_idle_connection_that_the_broker_closed_is_no_failure() -> None:
    async with FakeBroker() as broker, bench() as b:
        b.open(broker.endpoint)
        b.send(update())
        await reach(lambda: b.answers)
        broker.hang_up()
        await reach(lambda: broker.open_connections == 0)
        await asyncio.sleep(0.01)
        b.send(update())
        await reach(lambda: len(b.answers) == 2)
        assert b.counts().retries == {}


# --- closing ------------------------------------------------------------------------------------------------------


async def test_closing_drops_the_queue_and_hangs_up() -> None:
    async with FakeBroker([Act.HOLD]) as broker, bench() as b:
        b.open(broker.endpoint)
        b.send(update())
        b.send(update())
        await reach(lambda: broker.seen)
        b.channels.close(BrokerId(1))
        assert list(b.channels.views()) == []
        broker.released.set()
        await reach(lambda: broker.open_connections == 0)
        assert (len(broker.seen), b.answers) == (1, [])


async def test_a_bounced_broker_gets_nothing_of_the_queue_before() -> None:
    async with FakeBroker([Act.HOLD]) as broker, bench() as b:
        b.open(broker.endpoint, epoch=10)
        b.send(leader_and_isr("old"), epoch=10)
        b.send(leader_and_isr("old"), epoch=10)
        await reach(lambda: broker.seen)
        b.open(broker.endpoint, epoch=11)
        number = b.send(leader_and_isr("new"), epoch=11)
        b.send(leader_and_isr("late"), epoch=10)
        await reach(lambda: b.answers)
        assert b.numbers() == [number]
        assert [seen.broker_epoch for seen in broker.seen] == [10, 11]


async def test_a_request_without_a_channel_is_dropped() -> None:
    async with bench() as b:
        b.send(update(), broker=9)
        assert len(b.channels) == 0


@pytest.mark.parametrize("stage", ["connecting", "sending", "backing off", "delivering", "idle"])
async def test_cancelled_wherever_it_waits_a_channel_leaves_nothing(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = {"sending": [Act.HOLD], "backing off": [Act.CLOSE]}.get(stage, [])
    connecting = asyncio.Event()
    async with FakeBroker(acts) as broker, bench() as b:
        if stage == "backing off":
            monkeypatch.setattr(b.channels, "_settings", ChannelSettings(InterBrokerProtocol.parse("3.9")))
        if stage == "delivering":
            b.room.clear()
        if stage == "connecting":

            async def never(endpoint: Endpoint) -> BrokerConnection:
                connecting.set()
                await asyncio.Event().wait()
                raise ConnectionFailed("not reached")

            monkeypatch.setattr(b.channels, "_connect", never)
        b.open(broker.endpoint)
        (channel,) = b.channels._channels.values()
        if stage != "idle":
            b.send(update())
        arrived = {
            "connecting": connecting.is_set,
            "sending": lambda: broker.seen,
            "backing off": lambda: channel.counts.retries,
            "delivering": lambda: broker.seen and channel._in_flight is None,
            "idle": lambda: True,
        }[stage]
        await reach(arrived)
        b.channels.close(BrokerId(1))
        task = channel.task
        assert task is not None
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()
        broker.released.set()
        await reach(lambda: broker.open_connections == 0)
        assert (b.answers, b.faults) == ([], [])


# --- encoding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large_bytes", [0, bodies.LARGE_BYTES], ids=["on a thread", "at once"])
async def test_a_request_to_many_brokers_is_encoded_once(monkeypatch: pytest.MonkeyPatch, large_bytes: int) -> None:
    monkeypatch.setattr(bodies, "LARGE_BYTES", large_bytes)
    encoded: list[ControlRequest] = []

    def counting(request: ControlRequest, version: int) -> EncodedBody:
        encoded.append(request)
        return encode_control_body(request, version)

    monkeypatch.setattr(bodies, "encode_control_body", counting)
    async with FakeBroker() as one, FakeBroker() as two, bench() as b:
        b.open(one.endpoint, broker=1, epoch=10)
        b.open(two.endpoint, broker=2, epoch=20)
        shared = leader_and_isr(partitions=50)
        b.send(shared, broker=1, epoch=10)
        b.send(shared, broker=2, epoch=20)
        b.send(leader_and_isr(partitions=50), broker=2, epoch=20)
        await reach(lambda: len(b.answers) == 3)
        assert len(encoded) == 2
        assert [seen.broker_epoch for seen in (*one.seen, *two.seen)] == [10, 20, 20]
        await reach(lambda: len(b.channels._bodies) == 0)


@pytest.mark.parametrize("large_bytes", [0, bodies.LARGE_BYTES], ids=["on a thread", "at once"])
async def test_a_request_that_cannot_be_encoded_is_a_fault_and_not_silence(
    monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    monkeypatch.setattr(bodies, "LARGE_BYTES", large_bytes)
    async with FakeBroker() as broker, bench("2.5") as b:
        b.open(broker.endpoint)
        b.send(stop_replica((True, False)))
        await reach(lambda: b.faults)
        ((error, where),) = b.faults
        assert where == "sending to broker 1"
        assert "StopReplica" in str(error)


async def test_the_next_large_request_is_encoded_while_a_broker_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGE_BYTES", 0)
    encoded: list[ControlRequest] = []

    def noting(request: ControlRequest, version: int) -> EncodedBody:
        body = encode_control_body(request, version)
        encoded.append(request)
        return body

    monkeypatch.setattr(bodies, "encode_control_body", noting)
    async with FakeBroker([Act.HOLD]) as broker, bench() as b:
        b.open(broker.endpoint)
        first, second = leader_and_isr("first"), leader_and_isr("second")
        b.send(first)
        b.send(second)
        await reach(lambda: encoded == [first, second])
        assert b.answers == []
        broker.released.set()
        await reach(lambda: len(b.answers) == 2)


async def test_a_closed_channel_leaves_what_another_one_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGE_BYTES", 0)
    may_go_on = threading.Event()

    def slowly(request: ControlRequest, version: int) -> EncodedBody:
        assert may_go_on.wait(30)
        return encode_control_body(request, version)

    monkeypatch.setattr(bodies, "encode_control_body", slowly)
    async with FakeBroker() as one, FakeBroker() as two, bench() as b:
        b.open(one.endpoint, broker=1, epoch=10)
        b.open(two.endpoint, broker=2, epoch=20)
        shared = leader_and_isr()
        b.send(shared, broker=1, epoch=10)
        b.send(shared, broker=2, epoch=20)
        await asyncio.sleep(0)
        b.channels.close(BrokerId(1))
        may_go_on.set()
        await reach(lambda: len(b.answers) == 1)
        assert ([len(one.seen), len(two.seen)], b.faults) == ([0, 1], [])


# --- parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large_bytes", [0, bodies.LARGE_BYTES], ids=["on a thread", "at once"])
async def test_a_large_request_goes_in_parts_and_is_answered_once(
    monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    monkeypatch.setattr(bodies, "LARGE_BYTES", large_bytes)
    async with FakeBroker() as one, FakeBroker() as two, bench(max_request_bytes=500) as b:
        b.open(one.endpoint, broker=1, epoch=10)
        b.open(two.endpoint, broker=2, epoch=20)
        shared = leader_and_isr(partitions=30)
        whole = [b.send(shared, broker=1, epoch=10), b.send(shared, broker=2, epoch=20)]
        after = b.send(update(), broker=1, epoch=10)
        await reach(lambda: len(b.answers) == 3)
        assert sorted(b.numbers()) == [*whole, after]
        for broker, sent in ((one, whole[0]), (two, whole[1])):
            frames = [seen for seen in broker.seen if isinstance(seen.request, LeaderAndIsrRequest)]
            assert len(frames) > 4
            assert max(len(seen.payload) for seen in frames) <= 500
            assert len([part for part in b.parts if part.request_id == sent]) == len(frames) - 1
        assert isinstance(one.requests[-1], UpdateMetadataRequest)
        for answer in b.answers:
            if isinstance(answer, LeaderAndIsrResponseReceived):
                assert [row.partition for row in answer.response.rows] == list(range(30))


async def test_only_the_part_that_was_lost_is_sent_again() -> None:
    async with FakeBroker([Act.ANSWER, Act.CLOSE]) as broker, bench(max_request_bytes=500) as b:
        b.open(broker.endpoint)
        b.send(leader_and_isr(partitions=15))
        await reach(lambda: b.answers)
        first, lost, again, *_ = broker.requests
        assert lost == again
        assert first != lost
        numbers = [
            row.partition
            for request in (first, *broker.requests[2:])
            if isinstance(request, LeaderAndIsrRequest)
            for row in request.topics[0].partitions
        ]
        assert numbers == list(range(15))


async def test_a_partition_that_exceeds_the_limit_is_sent_alone_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeBroker() as one, FakeBroker() as two, bench(max_request_bytes=100) as b:
        b.open(one.endpoint, broker=1, epoch=10)
        b.open(two.endpoint, broker=2, epoch=20)
        shared = leader_and_isr("o" * 200, partitions=3)
        b.send(shared, broker=1, epoch=10)
        b.send(shared, broker=2, epoch=20)
        await reach(lambda: len(b.answers) == 2)
        assert [len(one.seen), len(two.seen)] == [3, 3]
        assert [b.counts(1).oversized, b.counts(2).oversized] == [3, 3]
        told = [record.message for record in caplog.records if "lethe.broker.request.max.bytes" in record.message]
        assert len(told) == 1
        assert told[0].startswith("LEADER_AND_ISR needs ")


async def test_a_growing_backlog_is_told_each_time_it_doubles(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "FIRST_WARNING_BYTES", 10_000)
    async with FakeBroker([Act.HOLD]) as broker, bench() as b:
        b.open(broker.endpoint)
        for _ in range(100):
            b.send(leader_and_isr(partitions=10))
        assert b.counts().backlog_bytes == 100 * 740
        warnings = [record for record in caplog.records if "does not take its requests" in record.message]
        assert len(warnings) == 3
        broker.released.set()
        await reach(lambda: len(b.answers) == 100)
        assert b.counts().backlog_bytes == 0
