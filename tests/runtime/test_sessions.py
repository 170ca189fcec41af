import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lethe.adapters.zookeeper.interface import OnWatch, WriteRefused, ZooKeeperRefused, ZooKeeperSession
from lethe.controller.core.effects import ReadZnodes, RenewSession, RetryDeletions, SetTimer, WriteZnodes
from lethe.controller.core.events import (
    BrokersChanged,
    Queueable,
    SessionEstablished,
    SessionLost,
    TimerFired,
    ZnodesRead,
    ZnodesWritten,
)
from lethe.controller.runtime.perform import Background, Performer
from lethe.controller.runtime.queue import EventQueue
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.timers import Timers
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    GetChildren,
    GetData,
    ReadFailed,
    WatchFired,
    WatchKind,
    ZkError,
)
from lethe.protocol.zookeeper.packing import FenceFailed, GroupDone, GroupFailed, GroupUnknown
from tests.fakes.runtime import Facts, ManualClock, reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper


class Bench:
    def __init__(self) -> None:
        self.zookeeper = FakeZooKeeper()
        self.queue = EventQueue()
        self.keeper = SessionKeeper(
            self.zookeeper.open_session,
            post=self.queue.post,
            overtake=lambda event: self.overtaken.append(self.queue.overtake(event)),
            back_off=BackOff(1, 4),
            settled_after_ms=0,
            log_every_ms=0,
        )
        self.overtaken: list[object] = []
        self.faults: list[str] = []
        self.clock = ManualClock()
        self.records = Facts()
        self.latencies: list[str] = []
        self.channels = Channels()
        self.performer = self._performer(None)

    def run_behind(self, tasks: asyncio.TaskGroup) -> None:
        """Have a performer that writes in the background, on these tasks."""
        self.performer = self._performer(
            Background(tasks.create_task, self.queue.post, lambda _, where: self.faults.append(where))
        )

    def _performer(self, background: Background | None) -> Performer:
        return Performer(
            self.keeper,
            self.channels,
            Timers(self.clock, self.queue.post),
            self.records.record,
            lambda kind, _took_s, _counts: self.latencies.append(kind),
            "controller/1001",
            background=background,
        )

    @property
    def session(self) -> FakeSession:
        (session,) = self.zookeeper.sessions.values()
        return session

    async def next(self) -> Queueable:
        async with asyncio.timeout(30):
            while (queued := await self.queue.take()) is None:
                pass
        return queued.event

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SessionEstablished]:
        task = asyncio.create_task(self.keeper.run(), name="keeper")
        try:
            event = await self.next()
            assert isinstance(event, SessionEstablished)
            yield event
        finally:
            task.cancel()
            await asyncio.wait([task])


class Channels:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def open(self, effect: object) -> None:
        self.calls.append(effect)

    def close(self, broker: object) -> None:
        self.calls.append(("close", broker))

    def send(self, effect: object) -> None:
        self.calls.append(effect)

    def close_all(self) -> None:
        self.calls.append("close all")


# --- sessions -----------------------------------------------------------------------------------------------------


async def test_a_session_is_announced_with_fresh_entropy() -> None:
    b = Bench()
    async with b.running() as first:
        assert len(first.entropy) == 32
        assert first.session_id == b.session.session_id
        b.session.end("expired")
        assert await b.next() == SessionLost("expired")
        second = await b.next()
        assert isinstance(second, SessionEstablished)
        assert second.session_id != first.session_id
        assert second.entropy != first.entropy


async def test_watches_come_in_as_events() -> None:
    b = Bench()
    async with b.running():
        await b.session.ensure_path("/brokers/ids")
        await b.session.read([GetChildren("/brokers/ids", watch=True)])
        await b.session.multi([Create("/brokers/ids/3", b"{}")])
        assert await b.next() == BrokersChanged()


async def test_zookeeper_that_is_not_there_is_tried_until_it_is(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    b.zookeeper.unavailable = "connection refused"
    task = asyncio.create_task(b.keeper.run(), name="keeper")
    await reach(lambda: b.keeper.counts.failed_attempts >= 3)
    assert b.keeper.session is None
    assert "connection refused" in str(b.keeper.problem)
    assert "ZooKeeper cannot be used" in caplog.text
    b.zookeeper.unavailable = None
    assert isinstance(await b.next(), SessionEstablished)
    assert b.keeper.problem is None
    task.cancel()
    await asyncio.wait([task])
    assert b.zookeeper.sessions == {}


async def test_a_refused_login_is_told_once_and_tried_with_the_longest_pause(caplog: pytest.LogCaptureFixture) -> None:
    zookeeper, refusals = FakeZooKeeper(), 6
    waited: list[int] = []

    class Recording(BackOff):
        def wait_ms(self, attempt: int) -> int:
            waited.append(super().wait_ms(attempt))
            return 0

    @asynccontextmanager
    async def opening(on_watch: OnWatch) -> AsyncIterator[ZooKeeperSession]:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise ZooKeeperRefused("zk:2181 refuses kafka" if refusals else "zk:2181 refuses kafka in other words")
        async with zookeeper.open_session(on_watch) as session:
            yield session

    keeper = SessionKeeper(
        opening, post=lambda _: None, overtake=lambda _: None, back_off=Recording(100, 5_000), log_every_ms=0
    )
    running = asyncio.create_task(keeper.run())
    await reach(lambda: keeper.session is not None)
    assert waited == [0] + [5_000] * 6
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [each.partition(". ")[0] for each in told] == [
        "zk:2181 refuses kafka",
        "zk:2181 refuses kafka in other words",
    ]
    assert "every 5 s, and this is said once" in told[0]
    assert (keeper.counts.failed_attempts, keeper.problem) == (6, None)
    running.cancel()


async def test_an_access_list_that_forbids_the_first_writes_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    errors = [WriteRefused("/brokers/ids", ZkError.NO_AUTH), WriteRefused("/brokers/ids", ZkError.NO_AUTH)]

    async def prepare(session: ZooKeeperSession) -> None:
        if errors:
            raise errors.pop(0)

    b.keeper._prepare = prepare
    b.keeper._back_off = BackOff(1, 1)
    async with b.running():
        told = [record.message for record in caplog.records if record.levelname == "ERROR"]
        assert len(told) == 1
        assert (b.keeper.problem, b.keeper.is_refused) == (None, False), "it is over"
        assert told[0].startswith("ZooKeeper refuses to write /brokers/ids: NO_AUTH, since its access list")
        assert "cannot be used" not in caplog.text


async def test_an_unexpected_error_while_opening_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    errors = [LookupError("planted"), OSError("planted")]

    async def prepare(session: ZooKeeperSession) -> None:
        if errors:
            raise errors.pop(0)

    b.keeper._prepare = prepare
    async with b.running():
        assert "LookupError: planted" in caplog.text
        assert len(b.zookeeper.sessions) == 1


async def test_a_session_that_breaks_at_once_counts_as_a_failed_attempt() -> None:
    b = Bench()
    b.keeper._settled_after_ms = 60_000
    async with b.running():
        b.session.end("expired")
        await reach(lambda: b.keeper.counts.opened == 2)
        b.session.end("expired")
        await reach(lambda: b.keeper._attempts == 2)


async def test_renewing_closes_the_session_and_overtakes_before_the_next_one() -> None:
    b = Bench()
    async with b.running() as first:
        b.queue.post(BrokersChanged())
        b.performer.perform([RenewSession("a fault")])
        assert b.keeper.session is None
        assert await b.next() == SessionLost("a fault")
        second = await b.next()
        assert isinstance(second, SessionEstablished)
        assert second.session_id != first.session_id
        assert len(b.zookeeper.sessions) == 1


async def test_renewing_twice_or_without_a_session_is_harmless() -> None:
    b = Bench()
    b.keeper.renew("nothing to renew")
    async with b.running():
        b.keeper.renew("once")
        b.keeper.renew("twice")
        assert await b.next() == SessionLost("once")
        assert isinstance(await b.next(), SessionEstablished)
        assert b.keeper.counts.opened == 2


async def test_watches_of_a_session_that_was_given_up_are_not_heard() -> None:
    b = Bench()
    heard: list[OnWatch] = []
    opened = b.zookeeper.open_session

    @asynccontextmanager
    async def listening(on_watch: OnWatch) -> AsyncIterator[FakeSession]:
        heard.append(on_watch)
        async with opened(on_watch) as session:
            yield session

    b.keeper._open_session = listening
    async with b.running():
        b.keeper.renew("a fault")
        assert await b.next() == SessionLost("a fault")
        assert isinstance(await b.next(), SessionEstablished)
        heard[0](WatchFired(WatchKind.CHILDREN_CHANGED, "/brokers/ids"))
        assert len(b.queue) == 0
        heard[1](WatchFired(WatchKind.CHILDREN_CHANGED, "/brokers/ids"))
        assert await b.next() == BrokersChanged()


async def test_cancelling_closes_the_session() -> None:
    b = Bench()
    async with b.running():
        assert len(b.zookeeper.sessions) == 1
    assert b.zookeeper.sessions == {}


# --- results ------------------------------------------------------------------------------------------------------


async def test_reads_give_their_outcomes_in_order() -> None:
    b = Bench()
    async with b.running():
        await b.session.multi([Create("/a", b"1")])
        b.performer.perform([ReadZnodes(5, (GetData("/missing"), GetData("/a")))])
        result = await b.performer.result()
        assert isinstance(result, ZnodesRead)
        assert result.id == 5
        missing, found = result.outcomes
        assert missing == ReadFailed(ZkError.NO_NODE)
        assert isinstance(found, Data)
        assert found.data == b"1"
        assert b.latencies == ["GetData"]


async def test_a_group_that_fails_is_set_apart() -> None:
    b = Bench()
    async with b.running():
        await b.session.multi([Create("/fence", b"1")])
        groups = ((Create("/a", b""),), (Delete("/missing"),), (Create("/b", b""),))
        b.performer.perform([WriteZnodes(6, groups, Check("/fence", 0))])
        result = await b.performer.result()
        assert isinstance(result, ZnodesWritten)
        assert [type(outcome) for outcome in result.outcomes] == [GroupDone, GroupFailed, GroupDone]
        (record,) = b.records.of(EventRecordType.ZNODE_WRITE)
        assert schema_problems(record) == ()
        assert record.data["outcomes"] == {"done": 2, "failed: NO_NODE": 1}
        assert record.data["operations"] == {"Create": 2, "Delete": 1}
        assert not result.controller_moved


async def test_a_fence_that_does_not_hold_is_told() -> None:
    b = Bench()
    async with b.running():
        await b.session.multi([Create("/fence", b"1")])
        b.performer.perform([WriteZnodes(6, ((Create("/a", b""),),), Check("/fence", 3))])
        result = await b.performer.result()
        assert isinstance(result, ZnodesWritten)
        assert result.controller_moved
        assert isinstance(result.outcomes[0], FenceFailed)


async def test_a_lost_reply_is_an_unknown_outcome() -> None:
    b = Bench()
    async with b.running():
        b.session.lose_next_reply(applied=True)
        b.performer.perform([WriteZnodes(6, ((Create("/a", b""),),), None)])
        result = await b.performer.result()
        assert isinstance(result, ZnodesWritten)
        assert isinstance(result.outcomes[0], GroupUnknown)


@pytest.mark.parametrize("when", ["before asking", "while waiting", "after the session was given up"])
async def test_a_result_of_a_dead_session_is_none(when: str) -> None:
    b = Bench()
    async with b.running():
        session = b.session
        if when == "while waiting":
            session.disconnect()
        b.performer.perform([ReadZnodes(5, (GetData("/"),))])
        if when == "before asking":
            session.end("expired")
        asking = asyncio.create_task(b.performer.result(), name="result")
        if when == "while waiting":
            await asyncio.sleep(0)
            session.end("expired")
        if when == "after the session was given up":
            b.keeper.renew("a fault")
        assert await asking is None


BEHIND = WriteZnodes(7, ((Create("/a", b""),),), None, in_background=True)


async def test_a_write_in_the_background_ends_with_an_event_and_other_results_come_before_it() -> None:
    b = Bench()
    async with b.running(), asyncio.TaskGroup() as tasks:
        b.run_behind(tasks)
        b.performer.perform([BEHIND, ReadZnodes(8, (GetData("/"),))])
        result = await b.performer.result()
        assert isinstance(result, ZnodesRead)
        assert result.id == 8
        event = await b.next()
        assert isinstance(event, ZnodesWritten)
        assert (event.id, [type(outcome) for outcome in event.outcomes]) == (7, [GroupDone])
        assert len(b.records.of(EventRecordType.ZNODE_WRITE)) == 1
    assert b.faults == []


@pytest.mark.parametrize("when", ["before", "after", "given up"])
async def test_a_write_in_the_background_of_a_dead_session_ends_with_nothing(when: str) -> None:
    b = Bench()
    async with b.running():
        async with asyncio.TaskGroup() as tasks:
            b.run_behind(tasks)
            if when == "before":
                b.session.end("expired")
            if when == "after":
                b.session.disconnect()
            b.performer.perform([BEHIND])
            await asyncio.sleep(0)
            if when == "after":
                b.session.end("expired")
            if when == "given up":
                b.keeper.renew("a fault")
        assert not any(isinstance(event, ZnodesWritten) for event in b.queue.events)
        assert b.faults == []


async def test_an_exception_of_a_write_in_the_background_is_a_fault() -> None:
    b = Bench()
    async with b.running():
        async with asyncio.TaskGroup() as tasks:
            b.run_behind(tasks)
            b.performer.perform([replace(BEHIND, groups=((GetData("/"),),))])  # type: ignore[arg-type]
        assert b.faults == ["a write in the background"]


async def test_results_come_in_the_order_of_the_requests() -> None:
    b = Bench()
    async with b.running():
        b.session.disconnect()
        b.performer.perform([ReadZnodes(5, (GetData("/"),)), WriteZnodes(6, ((Create("/a", b""),),), None)])
        b.performer.perform([ReadZnodes(7, (GetData("/a"),))])
        b.session.reconnect()
        results = [await b.performer.result() for _ in range(3)]
        assert [None if result is None else result.id for result in results] == [5, 6, 7]


async def test_results_that_are_forgotten_do_not_come_and_what_was_asked_goes_on() -> None:
    b = Bench()
    async with b.running():
        b.session.disconnect()
        b.performer.perform([WriteZnodes(5, ((Create("/a", b""),),), None)])
        await asyncio.sleep(0)
        b.performer.forget_results()
        b.performer.perform([ReadZnodes(6, (GetData("/"),))])
        b.session.reconnect()
        result = await b.performer.result()
        assert isinstance(result, ZnodesRead)
        assert result.id == 6
        await reach(lambda: b.zookeeper.model.node("/a") is not None)
        await reach(lambda: not b.performer._running)


async def test_waiting_for_what_was_not_asked_is_a_fault() -> None:
    b = Bench()
    with pytest.raises(LookupError, match="of no request"):
        await b.performer.result()


async def test_dropping_everything_ends_what_was_asked_timers_and_channels() -> None:
    b = Bench()
    async with b.running():
        b.session.disconnect()
        b.performer.perform([ReadZnodes(5, (GetData("/"),)), SetTimer(RetryDeletions(), b.clock.now_ms() + 1)])
        b.performer.drop_everything()
        assert b.channels.calls == ["close all"]
        await reach(lambda: not b.performer._running)
        with pytest.raises(LookupError):
            await b.performer.result()
        b.clock.ms += 1000
        await asyncio.sleep(0.01)
        assert len(b.queue) == 0


# --- timers -------------------------------------------------------------------------------------------------------


async def test_a_timer_fires_once_when_it_is_due_and_not_before() -> None:
    fired: list[TimerFired] = []
    clock = ManualClock()
    timers = Timers(clock, fired.append)
    timers.set(RetryDeletions(), clock.ms + 3)
    await asyncio.sleep(0.02)
    assert fired == [], "the event loop's clock has gone on, the one that counts has not"
    clock.ms += 3
    await reach(lambda: fired)
    assert fired == [TimerFired(RetryDeletions())]
    assert len(timers) == 0


async def test_a_timer_that_is_set_again_is_moved() -> None:
    fired: list[TimerFired] = []
    clock = ManualClock()
    timers = Timers(clock, fired.append)
    timers.set(RetryDeletions(), clock.ms)
    timers.set(RetryDeletions(), clock.ms + 60_000)
    await asyncio.sleep(0.01)
    assert fired == []
    timers.set(RetryDeletions(), clock.ms - 5)
    await reach(lambda: fired)
    assert len(fired) == 1
