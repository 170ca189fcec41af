"""One client of the proxy: how its requests are looked at before they are copied."""

from __future__ import annotations

import asyncio
import struct
from typing import cast

import pytest

from lethe.adapters.kafka.forwarded_client import ForwardedClient
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy
from lethe.protocol.kafka.connection import ServerConnection
from lethe.protocol.kafka.forwarding import request_head


class Counting(ServerConnection):
    """Counts the bytes that are looked at."""

    def __init__(self) -> None:
        super().__init__({}, passes_on=True)
        self.looked_at = 0

    def peek(self, count: int) -> bytes:
        start = super().peek(count)
        self.looked_at += len(start)
        return start


class BrokerReached(Exception):
    """The request would be copied now."""


class NoBroker:
    """A proxy that only says when it is asked for a broker."""

    async def connect(self, *_: object) -> None:
        raise BrokerReached


def a_produce_of_many_tags(count: int) -> bytes:
    """Produce v9 without acks, whose header has so many empty tagged fields."""
    tags = bytes((count & 127 | 128, count >> 7 & 127 | 128, count >> 14)) + b"\x01\x00" * count
    payload = struct.pack(">hhih", 0, 9, 7, -1) + tags + b"\0" + struct.pack(">h", 0) + bytes(8)
    return struct.pack(">i", len(payload)) + payload


async def test_a_request_that_comes_byte_by_byte_is_not_looked_at_for_each() -> None:
    frame = a_produce_of_many_tags(20_000)
    left = iter(frame[16:])
    protocol = Counting()
    protocol.receive(frame[:16])

    async def one_byte() -> None:
        protocol.receive(bytes((next(left),)))

    client = ForwardedClient(
        cast(ForwardingProxy, NoBroker()),
        "PLAINTEXT",
        protocol,
        cast(asyncio.StreamWriter, None),
        more=one_byte,
        lost=lambda _: None,
        spawn=asyncio.get_running_loop().create_task,
        max_idle_ms=1000,
    )
    with pytest.raises(BrokerReached):
        await client.forward(request_head(frame[:12]))
    assert protocol.looked_at < 4 * len(frame)
