"""Whose requests are decoded when."""

import asyncio

from lethe.adapters.kafka.limits import DecodedRequests


async def test_requests_are_decoded_in_their_order_as_far_as_there_is_room() -> None:
    decoded = DecodedRequests(4)
    first, second, third = decoded.turn(3), decoded.turn(2), decoded.turn(1)
    assert [each.done() for each in (first, second, third)] == [True, False, False]
    decoded.give_back(3)
    assert second.done()
    assert third.done()
    assert decoded.bytes == 3


async def test_one_that_is_larger_than_the_limit_is_decoded_alone() -> None:
    decoded = DecodedRequests(4)
    small, large = decoded.turn(1), decoded.turn(9)
    assert small.done()
    assert not large.done()
    decoded.give_back(1)
    assert large.done()


async def test_a_turn_that_is_given_up_keeps_nobody_waiting() -> None:
    decoded = DecodedRequests(4)
    turns: list[asyncio.Future[None]] = [decoded.turn(4), decoded.turn(4), decoded.turn(4)]
    turns[1].cancel()
    decoded.give_back(4)
    assert turns[2].done()
    assert decoded.bytes == 4
