"""The demo for the pipeline: chaos, kept surveys, and leftovers for the report.

Surveys are kept before the marks, when a broker and the active controller are dead, when everything is deleted, and at
the end. By then there are leftovers as in an old cluster: a topic that waits for a dead broker, a directory and a
configuration without a topic.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin import topic_znodes
from lethe.admin.outcomes import Outcome
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.demo import POLL_S, DemoFailed, DemoRun, run_demo
from lethe.cluster.demo_chaos import GONE, Chaos
from lethe.cluster.demo_plan import DemoOptions, new_topic_id
from lethe.cluster.demo_result import DemoResult
from lethe.cluster.demo_watch import ProgressWatcher
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, MultiDone
from lethe.survey.keep import require_writable, save_survey
from lethe.survey.take import take_survey

WAITING: Final = "audit-log"
"""A topic whose deletion waits for a broker at the end."""
ORPHAN: Final = "forgotten-0"
"""A directory without a topic, on the first broker."""
CONFIGURED: Final = "old-orders"
"""A topic name that has only a configuration."""
ORPHAN_BYTES: Final = 300_000


async def run_report_demo(options: DemoOptions, watcher: ProgressWatcher, surveys: Path) -> DemoResult:
    """Run the demo with chaos and keep surveys below `surveys`. The cluster's directories stay in its work directory.

    Raises the errors of `run_demo`, and SaveFailed.
    """
    await asyncio.to_thread(require_writable, surveys)
    extension = _ChaosWithSurveys(surveys)

    async def afterwards(cluster: LocalCluster, _: DemoResult) -> None:
        await extension.leave_something(cluster, watcher, options.limit_s)

    return await run_demo(options, watcher, extension=extension, afterwards=afterwards)


class _ChaosWithSurveys(Chaos):
    """Chaos with surveys before, during and after it."""

    def __init__(self, surveys: Path) -> None:
        super().__init__(at_worst=self._keep_of)
        self._surveys: Final = surveys

    async def before(self, demo: DemoRun) -> None:
        await self._keep_of(demo)
        await super().before(demo)

    async def _keep_of(self, demo: DemoRun) -> None:
        await self._keep(demo.cluster, demo.watcher)

    async def _keep(self, cluster: LocalCluster, watcher: ProgressWatcher) -> None:
        async with cluster.session() as session:
            survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs, with_times=True)
        kept = await asyncio.to_thread(save_survey, survey, self._surveys)
        watcher.note(f"a survey is kept in {kept}")

    async def leave_something(self, cluster: LocalCluster, watcher: ProgressWatcher, limit_s: float) -> None:
        """Create leftovers after the verdict, which has found none."""
        await self._keep(cluster, watcher)
        watcher.stage("Leaving something over")
        victim = cluster.all_brokers[-1]
        await _create(cluster, WAITING, [cluster.all_brokers[0].id, victim.id], limit_s)
        await victim.kill()
        watcher.note(f"kill -9 of {victim.name}; {WAITING} has replicas there and is marked for deletion")
        async with cluster.session() as session:
            _demand(await topic_znodes.mark_for_deletion(session, [WAITING]))
            (made,) = await session.multis([(Create(paths.config_topic(CONFIGURED), b'{"version":1,"config":{}}'),)])
            if not isinstance(made, MultiDone):
                raise DemoFailed(f"the configuration of {CONFIGURED} could not be written: {made}")
        orphan = cluster.log_dirs[cluster.all_brokers[0].id][0] / ORPHAN
        await asyncio.to_thread(_plant, orphan)
        watcher.note(f"a directory of no topic: {orphan}; a configuration of no topic: {CONFIGURED}")
        await _wait(lambda: _waits_for(cluster, victim.id), limit_s, f"{WAITING} waits for {victim.name}")
        await self._keep(cluster, watcher)


async def _create(cluster: LocalCluster, name: str, brokers: list[int], limit_s: float) -> None:
    """Create a topic of two partitions on all these brokers, and wait until its replicas are filled."""
    assignment = (tuple(brokers), tuple(reversed(brokers)))
    plan = TopicPlan(name, new_topic_id(os.urandom), assignment)
    async with cluster.session() as session:
        _demand(await topic_znodes.create_topics(session, [plan]))
    wanted = len(assignment) * len(brokers)

    async def all_there() -> bool:
        found = [path for path in await asyncio.to_thread(_directories, cluster, name) if _is_filled(path)]
        return len(found) == wanted

    await _wait(all_there, limit_s, f"the replicas of {name} are there")


def _directories(cluster: LocalCluster, name: str) -> list[Path]:
    roots = [root for directories in cluster.log_dirs.values() for root in directories]
    return [path for root in roots for path in sorted(root.glob(f"{name}-[0-9]*"))]


def _is_filled(directory: Path) -> bool:
    return any(path.stat().st_size for path in directory.glob("*.log"))


def _plant(orphan: Path) -> None:
    orphan.mkdir()
    (orphan / "00000000000000000000.log").write_bytes(bytes(ORPHAN_BYTES))


async def _waits_for(cluster: LocalCluster, broker: int) -> bool:
    controller = await cluster.active_controller()
    document = await controller.get("/waits")
    waits = {} if document is None else document.get("topics", {})
    return any((each["waiting_for"], each["broker"]) == (GONE, broker) for each in waits.get(WAITING, ()))


async def _wait(condition: Callable[[], Awaitable[bool]], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not await condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"{what}: not within {limit_s:g} s")
        await asyncio.sleep(POLL_S)


def _demand(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.problem is not None:
            raise DemoFailed(outcome.problem)
