"""Random histories on the model and on a real server side by side: every answer and every watch is the same.

Session ids and zxids cannot be equal; they are replaced by the number of the session and of the write that they name.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from lethe.adapters.zookeeper.bulk import FEWEST_TOGETHER
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiOutcome,
    Operation,
    Present,
    Read,
    ReadOutcome,
    SetData,
    Stat,
    WatchFired,
)
from tests.contract.conftest import Client, Clients, clients_of, real_opener
from tests.fakes.zookeeper import FakeZooKeeper

PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z", "/a/x/z/w")
STEPS = 60
SESSIONS = 3

Answer = MultiOutcome | list[ReadOutcome]
Step = tuple[int, Answer, list[list[WatchFired]]]


def random_operation(source: random.Random) -> Operation:
    path = source.choice(PATHS)
    version = source.choice((-1, -1, -1, 0, 0, 1))
    kind = source.randrange(7)
    if kind < 3:
        data = source.choice((None, b"", b"1"))
        return Create(path, data, ephemeral=source.random() < 0.2, sequential=source.random() < 0.2)
    if kind < 5:
        return SetData(path, source.choice((None, b"2")), version)
    return Delete(path, version) if kind == 5 else Check(path, version)


def random_read(source: random.Random) -> Read:
    path, watch = source.choice((*PATHS, "/")), source.random() < 0.7
    kinds: Sequence[type[Read]] = (GetData, GetChildren, Exists)
    return source.choice(kinds)(path, watch)


class History:
    """What happened on one of the two, with the names of sessions and writes in place of their numbers."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients
        self._owners = {client.session.session_id: n for n, client in enumerate(clients, start=1)}
        self._writes: dict[int, int] = {}

    def _stat(self, stat: Stat) -> Stat:
        owner = self._owners[stat.ephemeral_owner] if stat.ephemeral_owner else 0
        czxid, mzxid = self._writes.get(stat.czxid, -1), self._writes.get(stat.mzxid, -1)
        return Stat(czxid, mzxid, stat.version, owner, stat.num_children)

    async def write(self, who: int, step: int, operations: Sequence[Operation]) -> MultiOutcome:
        outcome = await self.clients[who].session.multi(operations)
        if not isinstance(outcome, MultiDone):
            return outcome
        self._writes[outcome.zxid] = step
        return MultiDone(tuple(s and self._stat(s) for s in outcome.stats), outcome.paths, step)

    async def read(self, who: int, reads: Sequence[Read]) -> list[ReadOutcome]:
        outcomes: list[ReadOutcome] = []
        for read, outcome in zip(reads, await self.clients[who].session.read(reads), strict=True):
            match outcome:
                case Data(data, stat):
                    outcomes.append(
                        Data(data, self._stat(stat) if read.path != "/" else stat._replace(czxid=0, mzxid=0))
                    )
                case Present(stat):
                    outcomes.append(Present(self._stat(stat)))
                case _:
                    outcomes.append(outcome)
        return outcomes

    async def fired(self) -> list[list[WatchFired]]:
        return [await client.take_fired() for client in self.clients]


async def play(seed: int, clients: Clients) -> list[Step]:
    """The history that the seed stands for."""
    source = random.Random(seed)
    steps: list[Step] = []
    async with AsyncExitStack() as stack:
        history = History([await stack.enter_async_context(clients()) for _ in range(SESSIONS)])
        await history.write(0, -2, [Create(path, None) for path in PATHS[:5]])
        for step in range(STEPS):
            who = source.randrange(SESSIONS)
            answer: Answer
            if source.random() < 0.6:
                operations = [random_operation(source) for _ in range(source.choice((1, 1, 1, 2, 3)))]
                answer = await history.write(who, step, operations)
            else:
                reads = [random_read(source) for _ in range(source.randint(1, 4))]
                if source.random() < 0.3:
                    reads += [GetData(source.choice((*PATHS, "/")), watch=True) for _ in range(FEWEST_TOGETHER)]
                answer = await history.read(who, reads)
            steps.append((who, answer, await history.fired()))
    return steps


@pytest.mark.zookeeper
@pytest.mark.parametrize("seed", range(25))
async def test_the_model_and_the_server_tell_the_same_story(seed: int, zookeeper_chroot: str) -> None:
    model = await play(seed, clients_of(FakeZooKeeper().open_session))
    real = await play(seed, clients_of(real_opener(zookeeper_chroot)))
    for number, (ours, theirs) in enumerate(zip(model, real, strict=True)):
        assert ours == theirs, f"step {number} of seed {seed}"
    assert sum(isinstance(answer, MultiDone) for _, answer, _ in model) >= 5
    assert any(any(fired) for _, _, fired in model)
