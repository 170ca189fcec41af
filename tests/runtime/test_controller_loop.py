"""The loop with cores made for the test. The first six tests are those of Kafka's ControllerEventManagerTest."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.zookeeper.interface import SessionLost as SessionIsLost
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import AwaitedRead, ElectionLookedUp
from lethe.controller.core.controller import after_fault
from lethe.controller.core.controller_state import ControllerState
from lethe.controller.core.effects import CloseChannel, Effect, ReadZnodes, RenewSession, Send, SetTimer, WriteZnodes
from lethe.controller.core.events import (
    BrokersChanged,
    Event,
    SessionEstablished,
    SessionLost,
    TopicsChanged,
    UpdateMetadataResponseReceived,
    ZnodesRead,
    ZnodesWritten,
)
from lethe.controller.runtime.faults import FaultWhileResigning
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ControllerMetrics, QueueView
from lethe.controller.runtime.steps import MANY_PARTITIONS, may_be_long
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch
from lethe.protocol.zookeeper.operations import Data, ReadFailed, Stat, ZkError
from lethe.protocol.zookeeper.packing import GroupDone
from tests.fakes.runtime import Facts, HeldPerformer, ManualClock, new_context, reach

ANSWER = UpdateMetadataResponseReceived(BrokerId(1), BrokerEpoch(10), 1, UpdateMetadataResponse(0))
TIMERS = "kafka_controller_controllerstats"


class Bench:
    """A loop with a core that does what the test says, and what came of it."""

    def __init__(self, react: Callable[[Context, Event], list[Effect]], **settings: int) -> None:
        self.react = react
        self.fed: list[Event] = []
        self.records = Facts()
        self.metrics = ControllerMetrics()
        self.performer = HeldPerformer()
        self.loop = ControllerLoop(
            new_context(),
            self._step,
            after_fault,
            self.performer,
            ManualClock(),
            self.metrics,
            self.records.record,
            idle_reset_ms=settings.get("idle_reset_ms", 300_000),
        )
        self.metrics.sources.queue = lambda: QueueView(
            len(self.loop.queue), self.loop.queue.by_event, self.loop.queue.oldest_s, self.loop.handling_s
        )

    def _step(self, context: Context, event: Event, now_ms: int) -> list[Effect]:
        self.fed.append(event)
        return self.react(context, event)

    def value(self, name: str) -> float:
        lines = self.metrics.text().decode().splitlines()
        (line,) = [line for line in lines if line.startswith(name + " ")]
        return float(line.split()[-1])

    def outcomes(self) -> list[object]:
        return [record.data["outcome"] for record in self.records.of(EventRecordType.EVENT)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.loop.run(), name="loop")
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])


def nothing(context: Context, event: Event) -> list[Effect]:
    return []


def ask(context: Context, number: int = 1) -> list[Effect]:
    context.awaited = (AwaitedRead(number, ElectionLookedUp()),)
    return [ReadZnodes(number, ())]


# --- as in Kafka --------------------------------------------------------------------------------------------------


async def test_metrics_cleaned_on_close() -> None:
    bench = Bench(nothing)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
        assert bench.value("kafka_controller_controllereventmanager_eventqueuesize") == 0
        assert bench.value("kafka_controller_controllereventmanager_eventqueuetimems_count") == 1
    assert b"controllereventmanager" not in bench.metrics.text()


async def test_event_without_rate_metrics() -> None:
    bench = Bench(nothing)
    async with bench.running():
        await bench.loop.deliver(ANSWER)
        await reach(lambda: bench.outcomes() == ["handled"])
    assert all(sample.count == 0 for sample in bench.metrics.state_times_ms.values())


async def test_event_queue_time() -> None:
    bench = Bench(lambda context, event: ask(context) if event == BrokersChanged() else _answered(context))
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
        bench.loop.post(TopicsChanged())
        await asyncio.sleep(0.05)
        bench.performer.results.put_nowait(ZnodesRead(1, ()))
        await reach(lambda: len(bench.outcomes()) == 2)
    sample = bench.metrics.queue_time_ms
    assert sample.count == 2
    assert sample.min < sample.max
    assert sample.max >= 49


async def test_event_queue_time_reset_on_timeout() -> None:
    bench = Bench(nothing, idle_reset_ms=5)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        bench.loop.post(TopicsChanged())
        await reach(lambda: len(bench.fed) == 2)
        await reach(lambda: bench.metrics.queue_time_ms.count == 0)
        assert (bench.metrics.queue_time_ms.min, bench.metrics.queue_time_ms.max) == (0, 0)


async def test_successful_event() -> None:
    seen: list[ControllerState] = []

    def react(context: Context, event: Event) -> list[Effect]:
        seen.append(bench.metrics.state)
        return []

    bench = Bench(react)
    async with bench.running():
        bench.loop.post(TopicsChanged())
        await reach(lambda: bench.outcomes() == ["handled"])
    assert seen == [ControllerState.TOPIC_CHANGE]
    assert bench.metrics.state is ControllerState.IDLE
    assert bench.value(f"{TIMERS}_topicchangerateandtimems_count") == 1


async def test_event_that_throws_exception() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        if event == BrokersChanged():
            raise LookupError("planted")
        return []

    bench = Bench(react)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: "fault" in bench.outcomes())
        assert bench.metrics.state is ControllerState.IDLE
        assert bench.value(f"{TIMERS}_leaderelectionrateandtimems_count") == 1
        # Unlike Kafka's, this controller resigns; the consumer survives all the same.
        assert any(isinstance(effect, RenewSession) for effect in bench.performer.performed)
        bench.loop.post(TopicsChanged())
        await reach(lambda: bench.fed[-1] == TopicsChanged())


# --- results ------------------------------------------------------------------------------------------------------


def _answered(context: Context) -> list[Effect]:
    context.awaited = ()
    return []


async def test_a_result_comes_before_any_event() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        match event:
            case BrokersChanged():
                return ask(context, 1)
            case ZnodesRead(id=1):
                return ask(context, 2)
            case _:
                return _answered(context)

    bench = Bench(react)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
        bench.loop.post(TopicsChanged())
        bench.performer.results.put_nowait(ZnodesRead(1, ()))
        bench.performer.results.put_nowait(ZnodesRead(2, ()))
        await reach(lambda: len(bench.fed) == 4)
    assert bench.fed == [BrokersChanged(), ZnodesRead(1, ()), ZnodesRead(2, ()), TopicsChanged()]


async def test_a_result_that_is_awaited_no_longer_does_not_come_in_the_next_course() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        match event:
            case BrokersChanged():
                return [*ask(context, 2), *ask(context, 1)]
            case TopicsChanged():
                return ask(context, 3)
            case _:
                return _answered(context)

    bench = Bench(react)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
        for number in (1, 2):
            bench.performer.results.put_nowait(ZnodesRead(number, ()))
        bench.loop.post(TopicsChanged())
        await reach(lambda: bench.fed[-1] == TopicsChanged())
        bench.performer.results.put_nowait(ZnodesRead(3, ()))
        await reach(lambda: len(bench.fed) == 4)
    assert bench.fed == [BrokersChanged(), ZnodesRead(1, ()), TopicsChanged(), ZnodesRead(3, ())]


@pytest.mark.parametrize("result", [None, ZnodesRead(1, ()), SessionIsLost("expired")])
async def test_the_loss_of_the_session_overtakes(result: ZnodesRead | Exception | None) -> None:
    bench = Bench(lambda context, event: ask(context) if event == BrokersChanged() else _answered(context))
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
        bench.loop.post(TopicsChanged())
        await bench.loop.deliver(ANSWER)
        bench.loop.session_lost(SessionLost("expired"))
        bench.loop.post(SessionEstablished(8, b""))
        bench.performer.results.put_nowait(result)
        await reach(lambda: len(bench.fed) == 3)
    # Neither the result nor what waited was fed.
    assert bench.fed == [BrokersChanged(), SessionLost("expired"), SessionEstablished(8, b"")]
    (preemption,) = [record for record in bench.records.of(EventRecordType.EVENT) if "preempted" in record.data]
    assert preemption.data["preempted"] == {"TopicsChanged": 1, "UpdateMetadataResponseReceived": 1}


async def test_without_a_session_the_loop_waits_for_the_news_of_its_loss() -> None:
    bench = Bench(lambda context, event: ask(context) if event == BrokersChanged() else _answered(context))
    async with bench.running():
        bench.loop.post(BrokersChanged())
        bench.loop.post(TopicsChanged())
        await reach(lambda: bench.fed)
        bench.performer.results.put_nowait(None)
        await asyncio.sleep(0.02)
        assert bench.fed == [BrokersChanged()]
        bench.loop.session_lost(SessionLost("expired"))
        await reach(lambda: bench.fed[-1] == SessionLost("expired"))


# --- faults -------------------------------------------------------------------------------------------------------


async def test_a_fault_drops_what_waits_but_not_the_news_of_sessions() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        if event == BrokersChanged():
            bench.loop.post(TopicsChanged())
            bench.loop.post(SessionEstablished(9, b""))
            raise LookupError("planted")
        return []

    bench = Bench(react)
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: len(bench.fed) == 2)
    assert bench.fed == [BrokersChanged(), SessionEstablished(9, b"")]
    assert bench.performer.dropped == 1


async def test_faults_in_a_row_wait_longer_each_time() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        raise LookupError("planted")

    def has_faulted(times: int) -> bool:
        return bench.outcomes().count("fault") == times

    bench = Bench(react)
    async with bench.running():
        for count in range(1, 5):
            bench.loop.post(BrokersChanged())
            await reach(functools.partial(has_faulted, count))
    waits = [effect.at_ms - 1_000_000 for effect in bench.performer.performed if isinstance(effect, SetTimer)]
    assert waits == [500, 1000, 2000, 4000]


async def test_a_fault_of_a_helper_is_dealt_with_like_one_of_a_step() -> None:
    bench = Bench(nothing)
    async with bench.running():
        await asyncio.sleep(0)
        bench.loop.fault(LookupError("planted"), "sending to broker 1")
        await reach(lambda: bench.performer.performed)
    (fault,) = bench.records.of(EventRecordType.EVENT)
    assert fault.data["event"] == "sending to broker 1"
    assert "LookupError: planted" in str(fault.data["error"])


async def test_a_fault_while_resigning_ends_the_loop_loudly() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        raise LookupError("planted")

    bench = Bench(react)

    def broken() -> None:
        raise OSError("planted, too")

    bench.performer.drop_everything = broken  # type: ignore[method-assign]
    async with bench.running() as task:
        bench.loop.post(BrokersChanged())
        with pytest.raises(FaultWhileResigning, match="planted, too"):
            await asyncio.wait_for(asyncio.shield(task), 30)


async def test_without_memory_the_loop_ends() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        raise MemoryError

    bench = Bench(react)
    async with bench.running() as task:
        bench.loop.post(BrokersChanged())
        with pytest.raises(MemoryError):
            await asyncio.wait_for(asyncio.shield(task), 30)


async def test_cancelled_while_a_result_is_awaited_the_loop_ends_and_records_it() -> None:
    bench = Bench(lambda context, event: ask(context))
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.fed)
    assert bench.outcomes() == ["cancelled"]


# --- long steps ---------------------------------------------------------------------------------------------------


class Slow:
    """A step that takes until it is let go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def __call__(self, context: Context, event: Event) -> list[Effect]:
        assert self.may_go_on.wait(30)
        request = UpdateMetadataRequest(BrokerId(1), ControllerEpoch(7), (), ())
        return [CloseChannel(BrokerId(1)), Send(BrokerId(2), BrokerEpoch(3), 1, request)]


@pytest.fixture
def slow() -> Iterator[Slow]:
    step = Slow()
    yield step
    step.may_go_on.set()


async def test_a_long_step_does_not_hold_the_event_loop_up(slow: Slow) -> None:
    bench = Bench(slow)
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.loop.steps.is_stepping)
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert bench.loop.readable() is None
        slow.may_go_on.set()
        await bench.loop.between_steps()
        await reach(lambda: bench.outcomes() == ["handled"])
    assert [type(effect) for effect in bench.performer.performed] == [CloseChannel, Send]


async def test_nothing_is_sent_after_the_session_was_lost_during_a_long_step(slow: Slow) -> None:
    bench = Bench(lambda context, event: slow(context, event) if event == BrokersChanged() else [])
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.loop.steps.is_stepping)
        bench.loop.session_lost(SessionLost("expired"))
        slow.may_go_on.set()
        await reach(lambda: len(bench.outcomes()) == 2)
    assert [type(effect) for effect in bench.performer.performed] == [CloseChannel]
    assert bench.fed == [BrokersChanged(), SessionLost("expired")]


async def test_what_a_long_step_asks_does_not_cross_to_the_session_that_was_opened_meanwhile(slow: Slow) -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        if event != BrokersChanged():
            return _answered(context)
        slow(context, event)
        return [*ask(context), WriteZnodes(1, (), None), RenewSession("the old one")]

    bench = Bench(react)
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.loop.steps.is_stepping)
        bench.loop.session_lost(SessionLost("expired"))
        bench.loop.post(SessionEstablished(8, b""))
        slow.may_go_on.set()
        await reach(lambda: len(bench.fed) == 3)
        await reach(lambda: len(bench.outcomes()) >= 3)
    assert bench.performer.performed == []
    assert "abandoned: the session was lost" in bench.outcomes()


async def test_memory_is_not_read_in_the_step_that_follows_at_once(slow: Slow) -> None:
    bench = Bench(slow)
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        bench.loop.post(TopicsChanged())
        await reach(lambda: bench.loop.steps.is_stepping)
        slow.may_go_on.set()
        assert await bench.loop.between_steps() is bench.loop.readable()
        assert bench.fed == [BrokersChanged(), TopicsChanged()]


async def test_a_fault_in_a_long_step_is_a_fault() -> None:
    def react(context: Context, event: Event) -> list[Effect]:
        raise LookupError("planted")

    bench = Bench(react)
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.outcomes() == ["fault"])
        assert bench.performer.dropped == 1


async def test_cancelled_during_a_long_step_the_loop_does_not_wait_for_it(slow: Slow) -> None:
    bench = Bench(slow)
    bench.loop.context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.loop.steps.is_stepping)
    assert bench.outcomes() == ["cancelled"]
    assert bench.performer.performed == []


@pytest.mark.parametrize(
    "event, long",
    [
        (BrokersChanged(), False),
        (ZnodesRead(1, ()), False),
        (ZnodesRead(1, (ReadFailed(ZkError.NO_NODE),) * 100), True),
        (ZnodesRead(1, (Data(b"x" * 40_000, Stat(1, 1, 0, 0)),)), True),
        (ZnodesWritten(1, (GroupDone(()),) * 99), False),
        (ZnodesWritten(1, (GroupDone(()),) * 100), True),
    ],
)
def test_which_steps_may_be_long(event: Event, long: bool) -> None:
    context = new_context()
    assert may_be_long(context, event) is long
    context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    assert may_be_long(context, event)


async def test_an_event_that_goes_on_step_by_step_does_not_stand_still() -> None:
    bench = Bench(lambda context, event: ask(context, 2 if isinstance(event, ZnodesRead) else 1))
    async with bench.running():
        bench.loop.post(BrokersChanged())
        await reach(lambda: bench.loop.standing_s > 0.05)
        bench.performer.results.put_nowait(ZnodesRead(1, ()))
        await reach(lambda: len(bench.fed) == 2)
        assert bench.loop.handling_s - bench.loop.standing_s > 0.05
