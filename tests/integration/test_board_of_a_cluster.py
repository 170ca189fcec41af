"""The board of real processes: a broker that is gone, a controller that is killed, and nobody loads the page anew."""

from __future__ import annotations

import uuid

import pytest

from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.vocabulary import TopicId
from tests.fakes.board_page import COUNTS, EXPLAINED
from tools.browser import MISSING, find_browser, open_page, until

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_browser() is None, reason=MISSING),
]
WITH_THREE = [f"with-{number}" for number in range(12)]
WITHOUT = [f"without-{number}" for number in range(8)]
BROKERS = "document.getElementById('broker-rows').innerText"
WAITING = "document.querySelectorAll('.card.waits').length"
GROUP = "document.querySelector('.card.group.waits')"
ONE_OF_GROUP = "document.querySelector('.card.waits:not(.group)')"


def plans() -> list[TopicPlan]:
    """Topics with replicas on brokers 1 to 3, and others that broker 3 has no part in."""
    placed = [(name, (1, 2, 3)) for name in WITH_THREE] + [(name, (1, 2)) for name in WITHOUT]
    return [TopicPlan(name, TopicId(uuid.uuid4()), (replicas,)) for name, replicas in placed]


async def test_a_broker_goes_and_comes_and_the_controller_too(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(controllers=2, brokers=3, zookeeper_connect=zookeeper_chroot, session_timeout_ms=6_000)
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        outcomes = await topic_znodes.create_topics(session, plans())
        assert [outcome.problem for outcome in outcomes] == [None] * len(outcomes)
        first = await cluster.active_controller()
        assert first.http_url is not None
        async with open_page(first.http_url + "/", width=1440, height=900) as view:
            page = view.page
            await until(page, "document.getElementById('connection').dataset.state === 'live'")
            await cluster.broker(3).kill()
            outcomes = await topic_znodes.mark_for_deletion(session, [*WITH_THREE, *WITHOUT])
            assert [outcome.problem for outcome in outcomes] == [None] * 20
            await until(page, f"({COUNTS}).done === '8' && /12 topics ← broker 3/.test({GROUP}?.innerText)")
            await page.evaluate(f"{GROUP}.click()")
            await until(page, f"{WAITING} === 13")
            await page.evaluate(f"{ONE_OF_GROUP}.click()")
            await until(page, f"/broker 3/.test({EXPLAINED})")

            (second,) = (daemon for daemon in cluster.controllers if daemon is not first)
            assert second.http_url is not None
            await first.kill()
            await until(page, "document.getElementById('connection').dataset.state !== 'live'")
            assert all("net::ERR_" in complaint for complaint in view.complaints), "of the lost connection alone"

        assert await cluster.active_controller() is second
        async with open_page(second.http_url + "/", width=390, height=844, dark=True) as view:
            await until(view.page, f"/12 topics ← broker 3/.test({GROUP}?.innerText)")
            await cluster.broker(3).start()
            await until(view.page, f"({COUNTS}).done === '12' && {WAITING} === 0")
            assert "3" in await view.page.evaluate(BROKERS)
            assert view.complaints == []
