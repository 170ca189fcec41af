"""Agents that are dead while their topics are deleted: what they owe, and that exactly this goes when they are back.

In the short form two of five agents are dead; in the long one twenty of fifty, and 5,000 of 5,500 topics are deleted.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lethe.adapters.debts import read_debts
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.marker_orders import order_owing
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, GetChildren
from lethe.survey.directories import read_log_dir
from lethe.survey.leftovers import leftovers
from lethe.survey.take import take_survey
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]

FILL_BYTES = 2_000
SHOWN = 10
Found = dict[tuple[str, str], int]
"""Directories of a broker by name and topic id, with their sizes."""


@dataclass(frozen=True)
class Size:
    agents: int
    dead: int
    topics: int
    limit_s: float


SHORT = Size(agents=5, dead=2, topics=44, limit_s=120)
LONG = Size(agents=50, dead=20, topics=5_500, limit_s=1_200)


def is_kept(plan: TopicPlan) -> bool:
    """One topic of eleven lives on."""
    return int(plan.name[-4:]) % 11 == 0


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float) -> None:
    """Waits for the condition; fails naming it where it does not come."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        await asyncio.sleep(0.1)


async def until_all_have(cluster: LocalCluster, made: Sequence[TopicPlan], limit_s: float) -> None:
    """Waits until every agent has its directories of these topics and no other; fails with the difference."""
    deadline = time.monotonic() + limit_s
    while left := [each async for each in differences(cluster, made)]:
        assert time.monotonic() < deadline, f"not within {limit_s} s: {'; '.join(left)}"
        await asyncio.sleep(0.1)


def on_disk(cluster: LocalCluster, broker: int) -> Found:
    """The replicas that nobody has begun to remove."""
    views = (read_log_dir(BrokerId(broker), log_dir, None) for log_dir in cluster.log_dirs[broker])
    return {
        (found.name, "" if found.topic_id is None else topic_id_to_text(found.topic_id)): found.size_bytes
        for view in views
        for found in view.directories
        if found.kind is DirectoryKind.REPLICA
    }


def plans(names: Sequence[str], size: Size, source: random.Random) -> list[TopicPlan]:
    """Topics of two partitions on three agents each, the same for the same source."""
    brokers = range(1, size.agents + 1)
    return [
        TopicPlan(
            name, TopicId(uuid.UUID(int=source.getrandbits(128))), tuple(tuple(source.sample(brokers, 3)) for _ in "ab")
        )
        for name in names
    ]


async def create(session: ZooKeeperSession, made: Sequence[TopicPlan]) -> None:
    outcomes = await topic_znodes.create_topics(session, made)
    assert [outcome.problem for outcome in outcomes if outcome.problem] == []


def wanted_on(made: Sequence[TopicPlan], broker: int) -> set[tuple[str, str]]:
    """The directories that a broker is to have of these topics."""
    found = set()
    for plan in made:
        assert plan.topic_id is not None
        for number, replicas in enumerate(plan.assignment):
            if broker in replicas:
                found.add((f"{plan.name}-{number}", topic_id_to_text(plan.topic_id)))
    return found


async def differences(cluster: LocalCluster, made: Sequence[TopicPlan]) -> AsyncIterator[str]:
    """Which agent lacks which of its directories of these topics, and which other ones it has."""
    for broker in cluster.log_dirs:
        found = (await asyncio.to_thread(on_disk, cluster, broker)).keys()
        wanted = wanted_on(made, broker)
        for what, names in (("lacks", wanted - found), ("should not have", found - wanted)):
            if names:
                yield f"broker {broker} {what} {len(names)} directories: {sorted(names)[:SHOWN]}"


async def fail_over(cluster: LocalCluster) -> None:
    """The active controller dies, another one takes over, and it comes back to stand by."""
    active = await cluster.active_controller()
    await active.kill()
    await active.start()
    await cluster.active_controller()


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(SHORT, id="short", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(LONG, id="long", marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7_200)]),
    ],
)
@pytest.mark.parametrize("seed", [1])
async def test_what_is_owed_goes_when_they_return_and_nothing_else(
    zookeeper_chroot: str, tmp_path: Path, size: Size, seed: int
) -> None:
    source = random.Random(seed)
    settings = ClusterSettings(
        controllers=2,
        brokers=size.agents,
        work_dir=tmp_path,
        zookeeper_connect=zookeeper_chroot,
        broker_properties={"lethe.fill.bytes": str(FILL_BYTES), "log.segment.delete.delay.ms": "100"},
    )
    names = [f"topic-{number:04}" for number in range(size.topics)]
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        first = plans(names, size, source)
        await create(session, first)
        everyone = range(1, size.agents + 1)

        async def all_have_them() -> bool:
            found = {broker: await asyncio.to_thread(on_disk, cluster, broker) for broker in everyone}
            are_there = all(found[broker].keys() == wanted_on(first, broker) for broker in everyone)
            return are_there and all(size >= FILL_BYTES for each in found.values() for size in each.values())

        await until(all_have_them, "every agent has its replicas", size.limit_s)
        dead = sorted(source.sample(everyone, size.dead))
        for broker in dead:
            await cluster.broker(broker).kill()

        async def are_given_up() -> bool:
            (listed,) = await session.read([GetChildren(paths.BROKER_IDS)])
            assert isinstance(listed, Children)
            return not {str(broker) for broker in dead} & {*listed.names}

        await until(are_given_up, "the dead are not registered", size.limit_s)
        before = {broker: await asyncio.to_thread(on_disk, cluster, broker) for broker in dead}

        doomed = [plan for plan in first if not is_kept(plan)]
        kept = [plan for plan in first if is_kept(plan)]
        outcomes = await order_owing(session, [plan.name for plan in doomed])
        assert [outcome.problem for outcome in outcomes if outcome.problem] == []
        await fail_over(cluster)

        async def are_gone() -> bool:
            listed = await topic_znodes.list_topics(session)
            return not {plan.name for plan in doomed} & {*listed.names, *listed.marked}

        await until(are_gone, "the deletions have ended without the dead", size.limit_s)
        owed = await read_debts(session)
        assert owed.unseen == ()
        assert {
            (debt.broker, f"{debt.topic}-{partition}") for debt in owed.debts for partition in debt.debt.partitions
        } == {(broker, name) for broker in dead for name, _ in wanted_on(doomed, broker)}

        again = plans([plan.name for plan in doomed if not int(plan.name[-4:]) % 3], size, source)
        await create(session, again)
        returning = source.sample(dead, len(dead))
        for number, broker in enumerate(returning):
            there = await asyncio.to_thread(on_disk, cluster, broker)
            assert there == before[broker], "nothing goes while its broker is away"
            await cluster.broker(broker).start()
            if number == len(returning) // 2:
                await fail_over(cluster)

        async def all_is_settled() -> bool:
            return (await read_debts(session)).debts == ()

        await until(all_is_settled, "nothing is owed any more", size.limit_s)
        present = [*kept, *again]

        await until_all_have(cluster, present, size.limit_s)
        for broker in dead:
            now = await asyncio.to_thread(on_disk, cluster, broker)
            for directory in wanted_on(kept, broker):
                assert now[directory] == before[broker][directory], "what nobody wanted gone is as it was"

        async def is_clean() -> bool:
            seen = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
            return seen.is_complete and not leftovers(seen)

        await until(is_clean, "the survey is clean", size.limit_s)
    # Logs and journals are of use after a failure only, and in the long form they are large.
    await asyncio.to_thread(shutil.rmtree, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_broker_that_never_returns_is_forgotten(zookeeper_chroot: str) -> None:
    """What it owes is written off, and the deletion that waits for it ends; what lives stays as it is."""
    settings = ClusterSettings(controllers=1, brokers=3, zookeeper_connect=zookeeper_chroot)
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        names = ("owed", "waits", "lives")
        await create(session, [TopicPlan(name, TopicId(uuid.uuid4()), ((1, 3),)) for name in names])

        async def all_have_them() -> bool:
            return {f"{name}-0" for name in names} == {name for name, _ in on_disk(cluster, 3)}

        await until(all_have_them, "agent 3 has its replicas", 90)
        registered = await lethe("brokers", "forget", "3", "--yes")
        assert (registered.code, "broker 3 is registered" in registered.err) == (1, True), registered
        await cluster.broker(3).kill()

        async def is_given_up() -> bool:
            (listed,) = await session.read([GetChildren(paths.BROKER_IDS)])
            return isinstance(listed, Children) and "3" not in listed.names

        await until(is_given_up, "agent 3 is not registered", 90)
        owed = await lethe("topics", "delete", "owed", "--owe", "--wait", "--timeout-ms", "60000")
        assert owed.code == 0, owed
        assert "broker 3 owes 1 partition of 1 deleted topic" in owed.out
        waits = await lethe("topics", "delete", "waits", "--wait", "--timeout-ms", "3000")
        assert waits.code == 4, waits
        asked = await lethe("brokers", "forget", "3")
        assert asked.code == 2, "nobody sits here who could agree"
        forgotten = await lethe("brokers", "forget", "3", "--yes")
        assert forgotten.code == 0, forgotten
        assert "Written off: 1 partition of 1 deleted topic" in forgotten.out
        assert "1 deletion ends without it: waits." in forgotten.out
        assert "One replica short is 1 living partition: lives-0." in forgotten.out
        assert forgotten.out.endswith("Broker 3 is forgotten.\n")
        assert (await read_debts(session)).debts == ()
        assert (await topic_znodes.list_topics(session)).names == ("lives",)
