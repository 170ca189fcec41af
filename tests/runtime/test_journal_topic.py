"""The outlet into a topic: what is acknowledged counts, the rest is tried again for a while, then given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from lethe.adapters.kafka import journal_topic
from lethe.adapters.kafka.journal_topic import Producer, ProducerFailed, TopicDestination, aiokafka_producer
from lethe.adapters.kafka.reach import PLAINTEXT_REACH

KEY = b"/lethe/controller/1"
LINES = [b"a\n", b"b\n", b"c\n"]


class FakeKafka:
    """Brokers that keep what is sent; each of `failures` ends one attempt after so many lines."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes]] = []
        self.failures: list[tuple[int, ProducerFailed]] = []
        self.starts = 0
        self.stops = 0
        self.silent = False
        self.fault: Exception | None = None
        self.asked = threading.Event()

    async def start(self) -> Producer:
        self.starts += 1
        return self

    async def deliver(self, key: bytes, lines: Sequence[bytes], acknowledged: Callable[[], None]) -> None:
        self.asked.set()
        if self.fault is not None:
            raise self.fault
        if self.silent:
            await asyncio.get_running_loop().create_future()
        count, failed = self.failures.pop(0) if self.failures else (len(lines), None)
        for line in lines[:count]:
            self.log.append((key, line))
            acknowledged()
        if failed is not None:
            raise failed

    async def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka()


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_topic, "PAUSE_S", 0.001)


def outlet_to(kafka: FakeKafka, patience_s: float = 60.0) -> TopicDestination:
    return TopicDestination(KEY.decode(), kafka.start, patience_s=patience_s)


def test_lines_go_keyed_by_their_source_through_one_producer(kafka: FakeKafka) -> None:
    outlet = outlet_to(kafka)
    assert outlet.write(LINES) == (3, None)
    assert outlet.write(LINES[:1]) == (1, None)
    outlet.close()
    outlet.close()
    assert kafka.log == [(KEY, line) for line in (*LINES, LINES[0])]
    assert (kafka.starts, kafka.stops) == (1, 1)


def test_what_was_not_acknowledged_is_sent_again_by_a_fresh_producer(kafka: FakeKafka) -> None:
    kafka.failures = [(1, ProducerFailed("gone")), (0, ProducerFailed("gone")), (1, ProducerFailed("gone"))]
    outlet = outlet_to(kafka)
    assert outlet.write(LINES) == (3, None)
    assert [line for _, line in kafka.log] == LINES
    assert (kafka.starts, kafka.stops) == (4, 3)
    outlet.close()


def test_after_its_patience_a_batch_is_given_up_and_the_next_has_one_attempt(kafka: FakeKafka) -> None:
    gone = ProducerFailed("gone")
    kafka.failures = [(1, gone), (0, gone)]
    outlet = outlet_to(kafka, patience_s=0.0)
    assert outlet.write(LINES) == (1, gone)
    outlet = outlet_to(kafka)
    kafka.failures = [(0, ProducerFailed("final", is_final=True)), (0, gone)]
    done, failed = outlet.write(LINES)
    assert (done, str(failed)) == (0, "final")
    assert outlet.write(LINES) == (0, gone)
    assert kafka.failures == []
    assert outlet.write(LINES) == (3, None)
    kafka.failures = [(0, gone)]
    assert outlet.write(LINES) == (3, None)
    outlet.close()


def test_what_a_producer_raises_besides_ends_the_attempt_only(kafka: FakeKafka) -> None:
    outlet = outlet_to(kafka, patience_s=0.0)
    kafka.fault = ValueError("Server sent wrong signature!")
    done, failed = outlet.write(LINES)
    assert (done, str(failed)) == (0, "ValueError: Server sent wrong signature!")
    kafka.fault = None
    assert outlet.write(LINES) == (3, None)
    outlet.close()


def test_brokers_that_do_not_answer_have_a_limit(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_topic, "ATTEMPT_S", 0.01)
    kafka.silent = True
    outlet = outlet_to(kafka, patience_s=0.0)
    done, failed = outlet.write(LINES)
    assert (done, str(failed)) == (0, "the brokers did not acknowledge within 0.01 s")
    assert kafka.stops == 1


async def test_haste_cuts_an_attempt_short(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_topic, "ATTEMPT_S", 600.0)
    monkeypatch.setattr(journal_topic, "HASTE_S", 0.01)
    kafka.silent = True
    outlet = outlet_to(kafka, patience_s=600.0)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(asyncio.to_thread(outlet.write, LINES), name="writing")
        await asyncio.to_thread(kafka.asked.wait, 30)
        outlet.hasten()
    assert writing.result()[0] == 0
    assert isinstance(writing.result()[1], ProducerFailed)


def test_haste_before_anything_is_written_lets_one_attempt_be(kafka: FakeKafka) -> None:
    outlet = outlet_to(kafka)
    outlet.hasten()
    kafka.failures = [(1, ProducerFailed("gone"))]
    assert outlet.write(LINES)[0] == 1
    assert outlet.write(LINES) == (3, None)
    outlet.close()


async def test_the_real_producer_says_when_no_broker_is_there(unused_tcp_port: int) -> None:
    start: Callable[[], Awaitable[Producer]] = aiokafka_producer(
        [f"127.0.0.1:{unused_tcp_port}"], "t", "lethe", PLAINTEXT_REACH
    )
    with pytest.raises(ProducerFailed, match="no broker can be reached"):
        await start()
