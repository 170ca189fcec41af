import asyncio

from lethe.controller.core.effects import RetryDeletions
from lethe.controller.core.events import (
    BrokerModified,
    BrokersChanged,
    ControllerDeleted,
    External,
    SessionEstablished,
    SessionLost,
    TimerFired,
    TopicsChanged,
    TopicsModified,
    UpdateMetadataResponseReceived,
)
from lethe.controller.runtime.queue import EventQueue
from lethe.protocol.kafka.control import UpdateMetadataResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from tests.fakes.runtime import reach


def answer(request_id: int) -> UpdateMetadataResponseReceived:
    return UpdateMetadataResponseReceived(BrokerId(1), BrokerEpoch(10), request_id, UpdateMetadataResponse(0))


async def taken(queue: EventQueue) -> object:
    queued = await queue.take()
    assert queued is not None
    return queued.event


async def test_first_in_first_out() -> None:
    queue = EventQueue()
    events: list[External] = [BrokersChanged(), BrokerModified(BrokerId(1)), TopicsChanged()]
    for event in events:
        queue.post(event)
    assert [await taken(queue) for _ in events] == events


async def test_a_watch_that_waits_is_not_queued_twice() -> None:
    queue = EventQueue()
    for _ in range(3):
        queue.post(BrokersChanged())
        queue.post(BrokerModified(BrokerId(1)))
        queue.post(BrokerModified(BrokerId(2)))
        queue.post(TimerFired(RetryDeletions()))
    assert len(queue) == 4


async def test_a_watch_that_was_taken_is_queued_again() -> None:
    queue = EventQueue()
    queue.post(BrokersChanged())
    assert await taken(queue) == BrokersChanged()
    queue.post(BrokersChanged())
    assert len(queue) == 1


async def test_sessions_and_answers_are_never_merged() -> None:
    queue = EventQueue()
    for _ in range(2):
        queue.post(SessionEstablished(7, b""))
        await queue.deliver(answer(1))
    assert len(queue) == 4


async def test_answers_wait_for_room_and_watches_do_not() -> None:
    queue = EventQueue(max_answers=2)
    await queue.deliver(answer(1))
    await queue.deliver(answer(2))
    third = asyncio.ensure_future(queue.deliver(answer(3)))
    await asyncio.sleep(0)
    assert not third.done()
    queue.post(BrokersChanged())
    assert await taken(queue) == answer(1)
    await third
    assert [await taken(queue) for _ in range(3)] == [answer(2), BrokersChanged(), answer(3)]


async def test_an_answer_that_was_cancelled_while_waiting_takes_no_room() -> None:
    queue = EventQueue(max_answers=1)
    await queue.deliver(answer(1))
    waiting = asyncio.ensure_future(queue.deliver(answer(2)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await taken(queue) == answer(1)
    await queue.deliver(answer(3))
    assert await taken(queue) == answer(3)


async def test_overtaking_drops_what_waits_and_gives_its_room_back() -> None:
    queue = EventQueue(max_answers=1)
    queue.post(BrokersChanged())
    await queue.deliver(answer(1))
    preempted = queue.overtake(SessionLost("expired"))
    assert [queued.event for queued in preempted] == [BrokersChanged(), answer(1)]
    assert queue.overtaken.is_set()
    await queue.deliver(answer(2))
    queue.post(BrokersChanged())
    assert await taken(queue) == SessionLost("expired")
    assert not queue.overtaken.is_set()
    assert len(queue) == 2


async def test_clearing_can_spare_the_sessions() -> None:
    queue = EventQueue()
    queue.overtake(SessionLost("expired"))
    queue.post(ControllerDeleted())
    queue.post(SessionEstablished(8, b""))
    dropped = queue.clear(keep_sessions=True)
    assert [queued.event for queued in dropped] == [ControllerDeleted()]
    assert queue.overtaken.is_set()
    assert [await taken(queue), await taken(queue)] == [SessionLost("expired"), SessionEstablished(8, b"")]


async def test_take_waits_and_loses_nothing_when_cancelled() -> None:
    queue = EventQueue()
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.post(BrokersChanged())
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled() or len(queue) == 0
    if waiting.cancelled():
        assert await taken(queue) == BrokersChanged()


async def test_waking_gives_none() -> None:
    queue = EventQueue()
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.wake()
    await reach(waiting.done)
    assert waiting.result() is None


async def test_topics_modified_one_after_the_other_wait_as_one_event() -> None:
    queue = EventQueue()
    for name in ("b", "a", "b"):
        queue.post(TopicsModified((name,)))
    queue.post(TopicsChanged())
    queue.post(TopicsModified(("c",)))
    taken = [await queue.take() for _ in range(len(queue))]
    assert [t.event for t in taken if t] == [TopicsModified(("b", "a", "c")), TopicsChanged()]
    queue.post(TopicsModified(("d",)))
    again = await queue.take()
    assert again is not None
    assert again.event == TopicsModified(("d",))


async def test_what_waits_is_counted_by_kind_and_the_oldest_is_the_first() -> None:
    queue = EventQueue()
    assert (queue.by_event, queue.oldest_s) == ({}, 0.0)
    queue.post(TopicsChanged())
    queue.post(TopicsChanged())
    queue.post(BrokersChanged())
    assert queue.by_event == {"TopicsChanged": 1, "BrokersChanged": 1}
    assert queue.oldest_s > 0
    await queue.take()
    assert queue.by_event == {"TopicsChanged": 0, "BrokersChanged": 1}
    queue.overtake(SessionLost("gone"))
    assert queue.by_event == {"TopicsChanged": 0, "BrokersChanged": 0, "SessionLost": 1}
