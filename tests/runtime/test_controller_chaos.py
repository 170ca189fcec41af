"""Two controllers over a ZooKeeper and brokers that misbehave, then heal: in the end one leads and all work is done."""

import asyncio
import functools
import random

import pytest

from lethe.controller.core.context import Role
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Children, Create, Delete, GetChildren
from tests.fakes.broken_broker import Act, FakeBroker
from tests.fakes.runtime import reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.runtime.test_controller_app import Running, controller, observer, register

BREAKING = (Act.CLOSE, Act.TRUNCATE, Act.GARBAGE, Act.OTHER_NUMBER)


async def misbehave(
    chance: random.Random, zookeeper: FakeZooKeeper, mine: FakeSession, brokers: list[FakeBroker]
) -> None:
    """One fault, somewhere."""
    others = [session for session in zookeeper.sessions.values() if session is not mine]
    session = chance.choice(others) if others else None
    match chance.randrange(6):
        case 0 if session is not None:
            zookeeper.expire(session.session_id)
        case 1 if session is not None:
            session.disconnect()
            await asyncio.sleep(chance.random() * 0.01)
            if not session.lost.is_set():
                session.reconnect()
        case 2 if session is not None:
            session.lose_next_reply(applied=chance.random() < 0.5)
        case 3:
            await mine.multi([Delete("/controller")])
        case 4:
            chance.choice(brokers).acts.append(chance.choice(BREAKING))
        case _:
            chance.choice(brokers).hang_up()


@pytest.mark.parametrize("seed", range(10))
async def test_after_the_trouble_one_leads_and_every_deletion_is_done(seed: int) -> None:
    chance = random.Random(seed)
    zookeeper = FakeZooKeeper()
    async with (
        FakeBroker() as first,
        FakeBroker() as second,
        observer(zookeeper) as session,
        controller(zookeeper, 1001) as one,
        controller(zookeeper, 1002) as two,
    ):
        await register(session, 1, first.endpoint)
        await register(session, 2, second.endpoint)
        await session.ensure_path(paths.DELETE_TOPICS)
        names = [f"topic-{number}" for number in range(8)]
        for number, name in enumerate(names):
            topic = znodes.TopicZnode({p: ReplicaAssignment((1 + p % 2, 2 - p % 2)) for p in range(3)}, None)
            await session.multi([Create(paths.topic(name), znodes.encode_topic(topic))])
            await misbehave(chance, zookeeper, session, [first, second])
            await asyncio.sleep(chance.random() * 0.01)
            if number % 2:
                await session.multi([Create(paths.delete_topic(names[number - 1]), None)])
                await misbehave(chance, zookeeper, session, [first, second])
        await reach(functools.partial(has_settled, names[1::2], one, two), 60)
        marked, topics = await session.read([GetChildren(paths.DELETE_TOPICS), GetChildren(paths.BROKER_TOPICS)])
        assert (marked, topics) == (Children(()), Children(tuple(names[1::2])))


def has_settled(remaining: list[str], *controllers: Running) -> bool:
    """One leads, the other stands by, and nothing is left to do."""
    leading = [each.context for each in controllers if each.context.role is Role.ACTIVE]
    standing_by = [each for each in controllers if each.context.role is Role.STANDING_BY]
    if len(leading) != 1 or len(leading) + len(standing_by) != len(controllers):
        return False
    (leader,) = leading
    is_done = not leader.cluster.deletions and not leader.cluster.outstanding and not leader.awaiting_result
    return is_done and sorted(leader.cluster.topics) == remaining and sorted(leader.cluster.brokers) == [1, 2]
