"""What `make load` makes of what it has measured."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lethe.adapters.kafka.server import Close, Peer
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataResponse, MetadataTopic, Request, Response
from tests.fakes.answering_broker import AnsweringBroker, served
from tests.fakes.runtime import reach
from tests.load.__main__ import Memory, longest, queue_line
from tests.load.clients import LIST, METADATA, Seen, asks, is_slow, percentile


@pytest.mark.parametrize(
    "values, share, expected",
    [([5.0], 0.99, 5.0), ([3.0, 1.0, 2.0, 4.0], 0.5, 2.0), ([float(n) for n in range(1, 101)], 0.99, 99.0)],
)
def test_percentile_is_one_of_the_values(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_no_percentile_without_values() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.99)


def test_only_events_of_the_load_count() -> None:
    before = {0.1: 1.0, 1.0: 5.0, float("inf"): 5.0}
    after = {0.1: 100.0, 1.0: 105.0, float("inf"): 105.0}
    assert longest(before, after, 0.9) == 0.1
    assert longest(before, after, 1.0) == 1.0
    assert queue_line(before, after) == "events waited in the queue for at most 0.1 s (99 %), 1 s (all)"


def test_without_events_their_wait_is_unseen() -> None:
    counted = {0.1: 5.0, float("inf"): 5.0}
    assert longest({}, {}, 0.99) is None
    assert longest(counted, counted, 0.99) is None
    assert "unseen" in queue_line(counted, counted)


def test_memory_with_all_clients_is_told_apart_from_that_without() -> None:
    resident = iter([10.0, 30.0, 20.0])
    memory = Memory(lambda: next(resident))
    memory.look()
    memory.look()
    assert memory.line() == "10 MB before, 30 MB with all clients connected, 20 MB after"


async def test_the_connections_of_slow_clients_are_counted() -> None:
    """A load without them would show nothing of them."""
    seen = Seen()
    async with served(AnsweringBroker()) as broker:
        address = (broker.endpoints[1].host, broker.endpoints[1].port)
        clients = [asyncio.create_task(is_slow(address, seen, drips=drips)) for drips in (False, True)]
        await reach(lambda: seen.slow == 2)
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)


class Silent(AnsweringBroker):
    """Answers Metadata only."""

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        if not isinstance(request, MetadataRequest):
            await asyncio.Event().wait()
        return self.answer(request)


class Refusing(AnsweringBroker):
    """Every topic has an error."""

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        answer = self.answer(request)
        if not isinstance(answer, MetadataResponse):
            return answer
        refused = MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders", None, False, ())
        return replace(answer, topics=(refused,))


async def test_an_answer_with_errors_is_a_failure() -> None:
    seen = Seen()
    async with served(Refusing()) as broker:
        await asks((broker.endpoints[1].host, broker.endpoints[1].port), seen, 0, 30)
    assert seen.failures == ["ProtocolError('METADATA is answered with the errors [29]')"]


async def test_a_request_that_has_no_answer_at_the_end_is_measured() -> None:
    seen = Seen()
    async with served(Silent()) as broker:
        client = asyncio.create_task(asks((broker.endpoints[1].host, broker.endpoints[1].port), seen, 0, 30))
        await reach(lambda: len(seen.took_s[METADATA]) == 1)
        assert seen.took_s[LIST] == []
        await asyncio.sleep(0.1)
        client.cancel()
        await asyncio.wait([client])
    assert len(seen.took_s[LIST]) == 1
    assert seen.took_s[LIST][0] >= 0.09
