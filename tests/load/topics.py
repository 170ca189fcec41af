"""Many topics created and deleted in one request each, and how long that takes."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.kafka.admin import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from lethe.protocol.kafka.queries import Response
from lethe.protocol.kafka.to_controller import AdminRequest
from tests.fakes.administrator import Address, Administrator
from tests.judge.sides import settle

TIMEOUT_MS: Final = 120_000
"""Longer than any request may take: an answer that says "timed out" says nothing about the time."""
REPLICAS: Final = 2


class Took(NamedTuple):
    """In seconds, since the request was sent."""

    answered_s: float
    settled_s: float
    """ZooKeeper and every broker's cache agree; seen to a tenth of a second."""


def names_of(count: int) -> tuple[str, ...]:
    return tuple(f"load-{number:05}" for number in range(count))


async def create(address: Address, names: tuple[str, ...]) -> float:
    """Create the topics in one request, of one partition each; the time until it is answered."""
    topics = tuple(CreatableTopic(name, 1, REPLICAS) for name in names)
    return await _timed(address, CreateTopicsRequest(topics, TIMEOUT_MS), CreateTopicsResponse)


async def delete(address: Address, names: tuple[str, ...]) -> float:
    """Delete the topics in one request; the time until it is answered."""
    return await _timed(
        address, DeleteTopicsRequest(tuple(map(DeletableTopic, names)), TIMEOUT_MS), DeleteTopicsResponse
    )


async def both(address: Address, session: ZooKeeperSession, names: tuple[str, ...]) -> tuple[Took, Took]:
    """Create the topics, and delete them again."""
    began_s = time.perf_counter()
    created_s = await create(address, names)
    made_s = await _settled(session, began_s)
    began_s = time.perf_counter()
    deleted_s = await delete(address, names)
    return Took(created_s, made_s), Took(deleted_s, await _settled(session, began_s))


async def _settled(session: ZooKeeperSession, began_s: float) -> float:
    assert await settle(session, TIMEOUT_MS / 1000), "ZooKeeper and the brokers' caches do not agree"
    return time.perf_counter() - began_s


async def _timed(
    address: Address, request: AdminRequest, kind: type[CreateTopicsResponse] | type[DeleteTopicsResponse]
) -> float:
    administrator = Administrator(address)
    began_s = time.perf_counter()
    answer: Response | None = await administrator.ask(request, kind, TIMEOUT_MS + 10_000)
    took_s = time.perf_counter() - began_s
    await administrator.close()
    assert isinstance(answer, kind), "the answer was lost"
    assert {row.error for row in answer.topics} == {0}, answer
    return took_s
