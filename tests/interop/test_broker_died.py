"""Two brokers never return: what docs/broker-died.md types then, under Lethe's controller and under Kafka's."""

from __future__ import annotations

import asyncio

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from tests.fakes.command_line import Lethe
from tests.interop.conditions import create, delete, is_whole, kafka_leads, plan, states, until
from tests.interop.conftest import MakeCluster
from tests.interop.pages import Page
from tests.interop.test_debts import dies, open_debts

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
ROWS: dict[str, list[tuple[int, ...]]] = {
    "owed": [(1, 3)],
    "both": [(1, 3, 4), (3, 4, 1)],
    "bills": [(1, 3), (3, 1)],
    "only3": [(3,)],
    "later": [(1, 3), (2, 3)],
}


async def are_gone(session: ZooKeeperSession, *names: str) -> bool:
    listed = await topic_znodes.list_topics(session)
    return not set(names) & {*listed.names, *listed.marked}


async def test_brokers_that_never_return_are_forgotten_as_the_page_says(
    kafka_cluster: MakeCluster, version: str
) -> None:
    page = Page("broker-died.md")
    async with kafka_cluster(version, 4, listed=True) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        await create(session, *(plan(name, *rows, version=version) for name, rows in ROWS.items()))
        for name, rows in ROWS.items():
            await until(is_whole(session, name, rows), f"{name} is whole")
        for number in (3, 4):
            await dies(session, cluster.kafka_broker(number))
        owed = await lethe("topics", "delete", "owed", "--owe", "--wait")
        assert (owed.code, "broker 3 owes 1 partition" in owed.out) == (0, True), owed
        await delete(session, "both")

        alone = await lethe("brokers", "forget", "3", "--yes", "--timeout-ms", "3000")
        assert alone.code == 3, alone
        assert "1 deletion waits for other absent brokers too: both (broker 4)." in alone.out
        assert await open_debts(session) == {(3, "owed")}, "nothing is written off"
        shown = await page.typed(lethe, "brokers forget 3 --dry-run")
        assert "NO OTHER live replica is in sync of 1 living partition: only3-0." in shown.out, shown
        page.demand("lethe brokers forget 3 --yes & lethe brokers forget 4 --yes; wait")
        ran = await asyncio.gather(*(lethe("brokers", "forget", number, "--yes") for number in ("3", "4")))
        assert [each.code for each in ran] == [0, 0], ran
        assert await are_gone(session, "owed", "both")
        assert await open_debts(session) == set()

        moved = await page.typed(lethe, "partitions reassign bills:0=1,2 bills:1=1,2 --wait", "--yes")
        assert moved.code == 0, moved
        await until(is_whole(session, "bills", [(1, 2), (1, 2)]), "bills is whole on live brokers")
        assert (await lethe("partitions", "reassign", "only3:0=1,2", "--yes")).code == 0
        elected = await page.typed(lethe, "partitions elect --unclean only3:0", "--yes")
        assert elected.code == 0, elected
        (state,) = await states(session, "only3", 1)
        assert state is not None
        assert state.leader in (1, 2)

        await cluster.controllers[0].stop()
        await kafka_leads(session)
        await delete(session, "later")
        refused = await lethe("brokers", "forget", "3", "--yes")
        assert (refused.code, "`lethe rescue --forget 3` takes control for it" in refused.err) == (1, True), refused
        shown = await page.typed(lethe, "rescue --forget 3 --dry-run")
        assert "1 deletion ends without it: later." in shown.out, shown
        forgotten = await page.typed(lethe, "rescue --forget 3", "--yes")
        assert (forgotten.code, "Broker 3 is forgotten." in forgotten.out) == (0, True), forgotten
        await kafka_leads(session)
        assert await are_gone(session, "later")
        assert await open_debts(session) == set()
