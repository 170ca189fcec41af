"""Two clients of a ZooKeeper that is slow, as on a slow disk: one writes much, and the other, such as a broker, must
not wait behind all of it."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import Session, open_session
from lethe.protocol.zookeeper.operations import Check, Create, Exists, Present
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, MultiPlan
from tests.fakes.tcp_proxy import TcpProxy

pytestmark = pytest.mark.zookeeper

BYTES_PER_S: Final = 250_000
"""A multi of 100 creates has some 5 kB, which takes 20 ms."""
SLOW_MS: Final = 50
NEVER_SLOW_MS: Final = 1_000_000
GROUPS: Final = 6_000
FENCE: Final = Check("/epoch", 0)


@dataclass
class World:
    proxy: TcpProxy
    writer: Session
    bystander: Session

    async def latencies_ms(self, wait: asyncio.Future[tuple[GroupOutcome, ...]]) -> list[float]:
        """Latencies of the bystander's reads, one after the other, until `wait` is done."""
        clock, found = asyncio.get_running_loop().time, []
        while not wait.done():
            began = clock()
            await self.bystander.read([Exists("/epoch")])
            found.append((clock() - began) * 1000)
        return found


@asynccontextmanager
async def world_of(chroot: str, slow_write_ms: int) -> AsyncIterator[World]:
    direct = parse_connect_string(chroot)
    (server,) = direct.servers
    async with TcpProxy(server.host, server.port) as proxy:
        connect = parse_connect_string(f"127.0.0.1:{proxy.port}{direct.chroot}")
        config = ZooKeeperConfig(connect, session_timeout_ms=30_000, slow_write_ms=slow_write_ms)
        async with open_session(config, lambda _: None) as writer, open_session(config, lambda _: None) as bystander:
            await writer.multi([Create("/epoch", None)])
            yield World(proxy, writer, bystander)


def plan_of(name: str, groups: int) -> MultiPlan:
    return MultiPlan([(Create(f"/{name}-{number:05d}", None),) for number in range(groups)], FENCE)


async def waited_ms(chroot: str, slow_write_ms: int) -> float:
    """What the bystander waited for the middle one of its reads, while the writer wrote on a slow ZooKeeper."""
    async with world_of(chroot, slow_write_ms) as world:
        world.proxy.slow_down(BYTES_PER_S)
        writing = asyncio.ensure_future(world.writer.write(plan_of(f"at-{slow_write_ms}", GROUPS)))
        found = await asyncio.wait_for(world.latencies_ms(writing), 120)
        assert all(isinstance(outcome, GroupDone) for outcome in await writing)
        assert (world.writer.write_window < 20) == (slow_write_ms == SLOW_MS)
    return statistics.median(found)


async def test_a_bystander_waits_behind_fewer_multis(zookeeper_chroot: str) -> None:
    unbounded = await waited_ms(zookeeper_chroot + "/a", NEVER_SLOW_MS)
    bounded = await waited_ms(zookeeper_chroot + "/b", SLOW_MS)
    assert bounded < unbounded / 2, (bounded, unbounded)


@pytest.mark.long
async def test_the_window_closes_while_it_is_slow_and_opens_again(zookeeper_chroot: str) -> None:
    async with world_of(zookeeper_chroot, SLOW_MS) as world:
        assert world.writer.write_window == 20
        world.proxy.slow_down(BYTES_PER_S)
        await world.writer.write(plan_of("slow", GROUPS))
        closed = world.writer.write_window
        assert closed <= 3
        world.proxy.slow_down(None)
        async with asyncio.timeout(60):
            number = 0
            while world.writer.write_window < 20:
                await world.writer.write(plan_of(f"quick-{number}", 1_000))
                number += 1


async def test_plans_share_the_window_and_keep_their_outcomes_apart(zookeeper_chroot: str) -> None:
    """A stale group fails alone in each plan, whichever multi it went in, and every other group is there."""
    async with world_of(zookeeper_chroot, SLOW_MS) as world:
        await world.writer.multi([Create("/a-00007", None), Create("/b-01234", None), Create("/c-01999", None)])
        world.proxy.slow_down(BYTES_PER_S)
        plans = [plan_of(name, 2_000) for name in "abc"]
        written = await asyncio.wait_for(asyncio.gather(*map(world.writer.write, plans)), 120)
        assert [[n for n, each in enumerate(found) if isinstance(each, GroupFailed)] for found in written] == [
            [7],
            [1234],
            [1999],
        ]
        world.proxy.slow_down(None)
        (listed,) = await world.bystander.read([Exists("/")])
        assert isinstance(listed, Present)
        assert listed.stat.num_children == 3 * 2_000 + 1
