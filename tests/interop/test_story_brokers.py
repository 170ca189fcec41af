"""The life of a topic on three real brokers with our controller in charge: nothing acknowledged is lost, nothing stays.

A guest is not found by brokers, so what they have to ask a controller for is left out of its story: an ISR that grows
(from 2.7 on), a controlled shutdown, and producer ids (from 3.0 on).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import LeaderAndIsr
from tests.fakes.command_line import Lethe
from tests.interop.clients import Stored, bootstrap, produce, produce_in_transactions, read_all
from tests.interop.conditions import (
    answers,
    complaints,
    controller,
    directories,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    states,
    stops_in_good_order,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]
RECORDS = 20_000
REPLICAS = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]
ALL = [(1, 2, 3)] * len(REPLICAS)


@dataclass(frozen=True, slots=True)
class Story:
    """One run of it: `advertised` where brokers find our controller and ask it."""

    cluster: LocalCluster
    session: ZooKeeperSession
    version: KafkaVersion
    advertised: bool

    @property
    def lethe(self) -> Lethe:
        return Lethe(self.cluster.zookeeper_connect)

    @property
    def isr_grows(self) -> bool:
        """Older leaders write an ISR to ZooKeeper themselves."""
        return self.advertised or self.version < (2, 7, 0)

    @property
    def has_producer_ids(self) -> bool:
        """Older brokers take them from ZooKeeper themselves."""
        return self.advertised or self.version < (3, 0, 0)

    async def states(self, partitions: int = len(REPLICAS)) -> list[LeaderAndIsr]:
        return [state for state in await states(self.session, "orders", partitions) if state is not None]

    async def create(self) -> None:
        """And wait until all three brokers serve it."""
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS)
        ran = await self.lethe("topics", "create", "--topic", "orders", "--replica-assignment", assignment)
        assert ran.code == 0, ran.err
        await until(is_known_to_all(self.session, 3, "orders"), "all brokers know the topic")
        await until(is_whole(self.session, "orders", ALL), "the topic is whole")

    async def delete(self) -> None:
        """Only the mark."""
        ran = await self.lethe("topics", "delete", "--topic", "orders", "--yes")
        assert ran.code == 0, ran.err

    async def read(self, partitions: int = len(REPLICAS)) -> list[Stored]:
        return await read_all(bootstrap(self.cluster), "orders", partitions)


@pytest.mark.parametrize(
    "advertised", [pytest.param(False, id="guest", marks=pytest.mark.slow), pytest.param(True, id="resident")]
)
async def test_the_life_of_a_topic(kafka_cluster: MakeCluster, version: str, advertised: bool) -> None:
    async with kafka_cluster(version, listed=advertised) as cluster, cluster.session() as session:
        story = Story(cluster, session, KafkaVersion.parse(version), advertised)
        active = await cluster.active_controller()
        await story.create()
        stored = await a_leader_is_killed(story)
        await it_comes_back(story)
        if advertised:
            await another_is_shut_down(story)
        await partitions_are_added(story, stored)
        await story.delete()
        await gone_everywhere(cluster, session, "orders")
        await the_name_is_used_again(story)
        await a_deletion_waits_for_a_dead_broker(story)
        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == active.id
        assert complaints(cluster) == []


async def a_leader_is_killed(story: Story) -> list[Stored]:
    """With `kill -9`, while records are being sent to it. All are acknowledged in the end, and all are there."""
    before = await story.states()
    victim = story.cluster.kafka_broker(before[0].leader)
    stored = await produce(
        bootstrap(story.cluster), "orders", range(RECORDS), idempotent=story.has_producer_ids, halfway=victim.kill
    )
    assert [record.number for record in stored] == list(range(RECORDS))

    async def all_lead_again() -> bool:
        return all(state.leader not in (victim.id, -1) and victim.id not in state.isr for state in await story.states())

    await until(all_lead_again, "every partition has another leader")
    after = await story.states()
    assert [state.leader_epoch for state in after] == [state.leader_epoch + 1 for state in before]
    found = await story.read()
    assert set(stored) <= set(found)
    if story.has_producer_ids:
        assert len(found) == len(stored)
    if story.advertised and story.version >= (3, 0, 0):
        stored += await transactions(story)
    return stored


async def transactions(story: Story) -> list[Stored]:
    """Who reads committed records sees the committed ones and no other."""
    servers = bootstrap(story.cluster)
    numbers = range(RECORDS, RECORDS + 2_000)
    committed, aborted = await produce_in_transactions(servers, "orders", numbers, "story")
    seen = {record.number for record in await read_all(servers, "orders", len(REPLICAS), committed=True)}
    assert {record.number for record in committed} <= seen
    assert not {record.number for record in aborted} & seen
    return committed


async def it_comes_back(story: Story) -> None:
    """And into every ISR, without another election."""
    (victim,) = [broker for broker in story.cluster.kafka_brokers if not broker.is_running]
    before = await story.states()
    await victim.start(120)
    if not story.isr_grows:
        return
    await until(is_whole(story.session, "orders", ALL), "every ISR is whole again")
    assert [state.leader_epoch for state in await story.states()] == [state.leader_epoch for state in before]


async def another_is_shut_down(story: Story) -> None:
    """In good order: its leaderships have moved before it goes, and it goes at once."""
    leaving = story.cluster.kafka_broker((await story.states())[0].leader)
    await stops_in_good_order(story.cluster, leaving.id)
    assert all(state.leader not in (leaving.id, -1) for state in await story.states())
    await leaving.start(120)
    await until(is_whole(story.session, "orders", ALL), "every ISR is whole after the shutdown")


async def partitions_are_added(story: Story, stored: list[Stored]) -> None:
    """Two, which take records as the others do; what was stored before is still there."""
    ran = await story.lethe("topics", "alter", "orders", "--partitions", "6")
    assert ran.code == 0, ran.err

    async def all_lead() -> bool:
        found = await story.states(6)
        return len(found) == 6 and all(state.leader in state.isr for state in found)

    await until(all_lead, "six partitions have leaders")

    async def all_know_them() -> bool:
        found = await directories_of_new_partitions(story)
        return len(found) == 2 * 3

    async def all_show_them() -> bool:
        shown = [told.cache.get("orders") for told in await answers(story.session) if told.cache is not None]
        return [topic and topic.partitions for topic in shown] == [tuple(range(6))] * 3

    await until(all_know_them, "the new partitions are on the disks of all brokers")
    await until(all_show_them, "all brokers tell clients of six partitions")
    more = await produce(bootstrap(story.cluster), "orders", range(100_000, 100_600))
    assert len(more) == 600
    assert {record.partition for record in more} == set(range(6))
    assert set(stored) | set(more) <= set(await story.read(6))


async def directories_of_new_partitions(story: Story) -> list[str]:
    return [name for name in directories(story.cluster, "orders") if name.endswith(("/orders-4", "/orders-5"))]


async def the_name_is_used_again(story: Story) -> None:
    """At once, and nobody finds an old record under it."""
    await story.create()
    stored = await produce(bootstrap(story.cluster), "orders", range(1_000_000, 1_000_100))
    assert len(stored) == 100
    assert sorted(await story.read()) == sorted(stored)
    assert min(record.offset for record in stored) == 0


async def a_deletion_waits_for_a_dead_broker(story: Story) -> None:
    """And for nothing else; it ends when the broker is back."""
    dead = story.cluster.kafka_brokers[-1]
    await dead.kill()
    await story.delete()

    async def only_it_has_any() -> bool:
        return {name.split("/")[0] for name in directories(story.cluster, "orders")} == {str(dead.id)}

    await until(only_it_has_any, "only the dead broker has directories")
    listed = await topic_znodes.list_topics(story.session)
    assert listed.marked == ("orders",)
    assert "orders" in listed.names
    explained = await story.lethe("explain", "orders")
    assert f"broker {dead.id}" in explained.out
    await dead.start(120)
    await gone_everywhere(story.cluster, story.session, "orders")
