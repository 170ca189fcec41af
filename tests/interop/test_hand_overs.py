"""Control passes from Kafka's controller to Lethe's and back while topics are being deleted, at random moments.

Short by default; `LETHE_HAND_OVERS=20` has so many in each direction, and `LETHE_SEED` draws other moments.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.rescue_control import RescueController, TakeoverSettings, in_control
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.cluster.local import LocalCluster
from lethe.controller.core.scope import EVERYTHING
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.leftovers import leftovers
from tests.chaos.exercised import CREATIONS, PARTS, REMOVALS, TAKEOVERS, in_journals
from tests.interop.conditions import (
    complaints,
    controller,
    create,
    delete,
    directories,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    plan,
    survey,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import epoch_of

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(1500)]

logger = logging.getLogger(__name__)

HAND_OVERS = int(os.environ.get("LETHE_HAND_OVERS", "2"))
SEED = os.environ.get("LETHE_SEED", "1")
TOPICS = 50
PER_ROUND = 2
MARKED_BEFORE = 15
"""Of the topics of one hand-over; the others are marked just before control goes back."""
AT_A_TIME = 5
PAUSE_S = 0.5
KEPT = tuple(f"kept-{number:02}" for number in range(12))
"""Announced in a takeover, as topics that are to be deleted are not."""
SMALL = {
    "lethe.partitions.per.slice": "20",
    "lethe.removal.operations.per.group": "8",
    "lethe.broker.request.max.bytes": "1024",
}
ROWS = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]
LETHE = BrokerId(1000)
SETTLING_LIMIT_S = 120.0


def crashes(cluster: LocalCluster) -> list[str]:
    """Complaints of Kafka's controllers about themselves: an event or a failover that ended with an exception."""
    signs = ("Error while electing", "Unexpected", "Error processing", "FATAL", "Exception")
    return [line for line in complaints(cluster) if any(sign in line for sign in signs)]


async def created(session: ZooKeeperSession, version: str, names: list[str]) -> None:
    await create(session, *(plan(name, *ROWS, version=version) for name in names))
    await until(is_known_to_all(session, 3, *names), "all brokers know the topics", SETTLING_LIMIT_S)
    for name in names:
        await until(is_whole(session, name, ROWS), f"{name} is whole", SETTLING_LIMIT_S)


async def kafka_has_control(session: ZooKeeperSession) -> None:
    async def condition() -> bool:
        found = await controller(session)
        return found is not None and found.admin is None

    await until(condition, "one of Kafka's controllers has control")


async def marked(session: ZooKeeperSession) -> int:
    """So many topics are still to be deleted."""
    return len((await topic_znodes.list_topics(session)).marked)


async def delete_by_and_by(session: ZooKeeperSession, names: Sequence[str]) -> None:
    """Mark a few at a time: marked all at once, they are gone on a fast machine before control has changed hands."""
    for start in range(0, len(names), AT_A_TIME):
        await delete(session, *names[start : start + AT_A_TIME])
        await asyncio.sleep(PAUSE_S)


class HandOver(NamedTuple):
    """Control went to Lethe and back; `left` are the topics that were still to be deleted at each of the two."""

    taken_from: BrokerId | None
    left: tuple[int, int]


async def taken_for(
    means: TakeoverSettings, session: ZooKeeperSession, hold_s: float, more: Sequence[str], begin_s: float
) -> HandOver:
    """Control is taken, and kept for so long after it has become effective; more topics are marked then, and it is
    given up while these are being deleted."""

    async def work(guest: RescueController) -> HandOver:
        taken_from = await guest.elected()
        at_first = await marked(session)
        await asyncio.sleep(hold_s)
        await delete(session, *more)
        await asyncio.sleep(begin_s)
        return HandOver(taken_from, (at_first, await marked(session)))

    return await in_control(means, EVERYTHING, work)


async def test_control_goes_to_and_fro_in_the_middle_of_deletions(kafka_cluster: MakeCluster, version: str) -> None:
    chance = random.Random(f"{SEED} {version}")
    async with kafka_cluster(version, controllers=0) as cluster, cluster.session() as session:
        ibp = InterBrokerProtocol.parse(KafkaVersion.parse(version).inter_broker_protocol)
        means = TakeoverSettings(cluster.zookeeper_connect, LETHE, ibp, BrokerReach("PLAINTEXT"))
        await created(session, version, ["kept"])
        done: list[HandOver] = []
        while len(done) < HAND_OVERS:
            # The same names each time: nothing of the last ones may come back.
            names = [f"orders-{number}" for number in range(TOPICS)]
            await created(session, version, names)
            before = await epoch_of(session)
            for number in range(PER_ROUND):
                going = names[number::PER_ROUND]
                async with asyncio.TaskGroup() as deleting:
                    deleting.create_task(delete_by_and_by(session, going[:MARKED_BEFORE]), name="deleting")
                    await asyncio.sleep(chance.uniform(0.0, 1.0))
                    hold_s, begin_s = chance.uniform(0.0, 3.0), chance.uniform(0.0, 0.2)
                    done.append(await taken_for(means, session, hold_s, going[MARKED_BEFORE:], begin_s))
                    await kafka_has_control(session)
            await gone_everywhere(cluster, session, *names, limit_s=SETTLING_LIMIT_S)
            assert await epoch_of(session) > before
        left = " ".join(f"{each.left[0]}>{each.left[1]}" for each in done)
        logger.info("Kafka %s, seed %s, topics left when control came and went: %s", version, SEED, left)
        assert all(each.taken_from is not None for each in done)
        for what, counts in zip(("taken", "given back"), zip(*(each.left for each in done), strict=True), strict=True):
            in_the_middle = sum(count > 0 for count in counts)
            assert 2 * in_the_middle >= len(done), f"control was {what} in the middle of deletions, most times: {left}"
        await until(is_whole(session, "kept", ROWS), "what nobody wanted gone is whole")
        assert len([each for each in directories(cluster, "kept") if not each.endswith("-delete")]) == 12
        assert (await topic_znodes.list_topics(session)).names == ("kept",), "no topic has come back"
        assert crashes(cluster) == []


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [pytest.param({}, id="whole"), pytest.param(SMALL, id="in slices and parts")])
async def test_either_controller_killed_in_the_middle_leaves_what_the_other_one_can_finish(
    kafka_cluster: MakeCluster, version: str, sizes: dict[str, str]
) -> None:
    chance = random.Random(f"{SEED} {version} kill")
    always = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000", **sizes}
    async with kafka_cluster(version, controller_properties=always) as cluster, cluster.session() as session:
        lethe = await cluster.active_controller()
        names = [f"orders-{number}" for number in range(TOPICS)]

        await created(session, version, [*names, *KEPT])
        await delete(session, *names)
        await asyncio.sleep(chance.uniform(0.0, 0.4))
        await lethe.kill()
        await kafka_has_control(session)
        await gone_everywhere(cluster, session, *names, limit_s=SETTLING_LIMIT_S)

        await created(session, version, names)
        holder = await controller(session)
        assert holder is not None
        victim = cluster.kafka_broker(int(holder.broker_id))
        await delete(session, *names)
        await asyncio.sleep(chance.uniform(0.0, 0.4))
        await victim.kill()
        await lethe.start()
        assert (await cluster.active_controller()).id == lethe.id, "control is taken from whoever has it"
        await victim.start()
        await gone_everywhere(cluster, session, *names, limit_s=SETTLING_LIMIT_S)
        await lethe.stop()
        await kafka_has_control(session)
        for name in KEPT:
            await until(is_whole(session, name, ROWS), f"{name} is whole under Kafka's controller", SETTLING_LIMIT_S)

        async def is_clean() -> bool:
            seen = await survey(cluster, session)
            return seen.is_complete and not leftovers(seen)

        await until(is_clean, "the survey is clean")
        assert (await topic_znodes.list_topics(session)).names == KEPT, "no topic has come back"
        assert crashes(cluster) == []
        exercised = in_journals([lethe.journal_dir])
        logger.info("Kafka %s, seed %s, exercised: %s", version, SEED, dict(exercised))
        for what in (TAKEOVERS, CREATIONS, REMOVALS, PARTS):
            assert exercised[what] or not sizes, what
