"""The demo: start a cluster, create topics, delete them, and survey ZooKeeper, caches and disks.

Its stages are start, create, delete, verdict. Chaos adds an extension between the marking and the end of deletions.
Nothing here prints: a watcher receives the progress, and the result is returned.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.demo_plan import DemoOptions, plan_topics
from lethe.cluster.demo_real import FillFailed, fill, note_freed, real_cluster_settings
from lethe.cluster.demo_result import BrokerTotals, DemoResult, PhaseTimes, phase_times
from lethe.cluster.demo_totals import JournalFollower, JournalTotals
from lethe.cluster.demo_waits import WaitLog
from lethe.cluster.demo_watch import ProgressBar, ProgressWatcher
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.counting import counted
from lethe.protocol.findings import Standing
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.survey.leftovers import leftovers
from lethe.survey.take import take_survey
from lethe.survey.views import Survey

POLL_S: Final = 0.1
JOURNAL_LIMIT_S: Final = 10.0
"""How long the journals may lag behind the disks."""
MEANINGS: Final = {
    "tombstoned": "gone from all caches",
    "acknowledged": "all replicas renamed",
    "removed": "znodes gone",
}


class DemoFailed(Exception):
    """The demo failed; the message says why."""


@dataclass(slots=True)
class DemoRun:
    """State of a demo from its start to its end."""

    options: DemoOptions
    cluster: LocalCluster
    watcher: ProgressWatcher
    session: ZooKeeperSession
    follower: JournalFollower
    totals: JournalTotals = field(default_factory=JournalTotals)
    plans: Sequence[TopicPlan] = ()
    before: Survey | None = None
    waits: WaitLog | None = None
    marked_ms: int = 0
    limit_passed: str | None = None
    created_s: float = 0.0
    reclaimed_s: float = 0.0
    untouched: int = 0
    """Number of topics without replicas on the broker that chaos kills."""

    @property
    def names(self) -> list[str]:
        return [plan.name for plan in self.plans]

    def follow(self) -> None:
        """Read the journals' new entries."""
        for entry in self.follower.entries():
            self.totals.note(entry)

    async def look(self) -> Survey:
        """Take a survey of everything, the disks included."""
        survey = await take_survey(self.session, PLAINTEXT_REACH, log_dirs=self.cluster.log_dirs)
        if self.cluster.kafka_brokers and self.before is not None:
            note_freed(self.totals, self.before, survey)
        return survey


class DemoExtension(Protocol):
    """Further actions while topics are being deleted."""

    async def before(self, demo: DemoRun) -> None:
        """Act before the topics are marked."""
        ...

    async def during(self, demo: DemoRun) -> None:
        """Act after the marking."""
        ...


def cluster_settings(options: DemoOptions, kafka: KafkaDistribution | None = None) -> ClusterSettings:
    """Return the settings of the demo's cluster, with agents or with real brokers."""
    if kafka is not None:
        return real_cluster_settings(options, kafka)
    return ClusterSettings(
        controllers=options.controllers,
        brokers=options.brokers,
        work_dir=options.work_dir,
        zookeeper_connect=options.zookeeper_connect,
        session_timeout_ms=options.session_timeout_ms,
        broker_properties={
            "lethe.fill.bytes": str(options.bytes_per_replica),
            "lethe.fill.segment.bytes": str(max(options.bytes_per_replica // 4, 4096)),
            "log.segment.delete.delay.ms": str(options.delete_delay_ms),
            "replica.catch.up.delay.ms": "100",
        },
    )


async def run_demo(
    options: DemoOptions,
    watcher: ProgressWatcher,
    *,
    kafka: KafkaDistribution | None = None,
    extension: DemoExtension | None = None,
    afterwards: Callable[[LocalCluster, DemoResult], Awaitable[None]] | None = None,
) -> DemoResult:
    """Run the demo on its own cluster and stop that at the end; `afterwards` runs before the stop.

    With `kafka` the brokers are real. Raises ZooKeeperStartFailed, DaemonFailed and DemoFailed.
    """
    began = time.monotonic()
    cluster = LocalCluster(cluster_settings(options, kafka))
    of = "" if kafka is None else f" of Kafka {kafka.version}"
    brokers = f"{counted(options.brokers, 'agent' if kafka is None else 'broker')}{of}"
    standing_by = max(options.controllers - 1, 0)
    watcher.stage("Starting")
    watcher.note(
        f"a ZooKeeper, {counted(options.controllers, 'controller')} ({standing_by} to stand by) and {brokers}, "
        f"in {cluster.work_dir}"
    )
    async with cluster, cluster.session() as session:
        started_s = time.monotonic() - began
        active = await cluster.active_controller()
        watcher.note(f"{active.name} is active after {started_s:.1f} s; ZooKeeper is {cluster.zookeeper_connect}")
        follower = JournalFollower(daemon.journal_dir for daemon in cluster.daemons)
        totals = JournalTotals(acks_of="broker" if kafka is None else "controller")
        demo = DemoRun(options, cluster, watcher, session, follower, totals)
        await create(demo)
        await delete(demo, extension)
        result = await summarize(demo, started_s)
        if afterwards is not None:
            await afterwards(cluster, result)
        return result


# --- create -------------------------------------------------------------------------------------------------------


async def create(demo: DemoRun) -> None:
    """Create the topics and wait until every replica has its bytes and every metadata cache has every topic."""
    options, watcher = demo.options, demo.watcher
    watcher.stage("Creating")
    demo.plans = plan_topics(options, [broker.id for broker in demo.cluster.all_brokers], os.urandom)
    began = time.monotonic()
    for outcome in await topic_znodes.create_topics(demo.session, demo.plans):
        if outcome.problem is not None:
            raise DemoFailed(outcome.problem)
    real = demo.cluster.kafka_brokers
    filled_bytes = 0 if real else options.bytes_per_replica
    wanted = Counter(broker for plan in demo.plans for replicas in plan.assignment for broker in replicas)
    while True:
        survey = await demo.look()
        has = _replicas(survey, filled_bytes)
        known = [len(answer.cache or ()) for answer in survey.answers]
        watcher.bars(
            [
                ProgressBar("known to all brokers", min(known, default=0), options.topics),
                *(ProgressBar(f"broker {b} replicas", has[b], wanted[b]) for b in sorted(wanted)),
            ]
        )
        if all(has[broker] >= count for broker, count in wanted.items()) and _all_known(survey, demo.names):
            break
        if time.monotonic() - began > options.limit_s:
            raise DemoFailed(f"the topics were not created within {options.limit_s:g} s")
        await asyncio.sleep(POLL_S)
    if real and options.bytes_per_replica:
        try:
            await fill(real, demo.names, options)
        except FillFailed as error:
            raise DemoFailed(str(error)) from error
        survey = await demo.look()
    demo.before = survey
    demo.created_s = time.monotonic() - began
    size = sum(_sizes(survey).values())
    watcher.note(
        f"{counted(options.topics, 'topic')} with {counted(options.topics * options.partitions, 'partition')} and "
        f"{counted(options.replicas, 'replica')}, "
        f"{size / 1e6:.1f} MB in {counted(len(survey.log_dirs), 'log directory', 'log directories')}, "
        f"after {demo.created_s:.1f} s"
    )


def _replicas(survey: Survey, min_bytes: int = 0) -> Counter[int]:
    """Count the replicas of at least `min_bytes` by broker."""
    found: Counter[int] = Counter()
    for view in survey.log_dirs:
        kept = (d for d in view.directories if d.kind is DirectoryKind.REPLICA)
        found[view.broker] += sum(d.size_bytes >= min_bytes for d in kept)
    return found


def _sizes(survey: Survey) -> Counter[int]:
    found: Counter[int] = Counter()
    for view in survey.log_dirs:
        found[view.broker] += sum(directory.size_bytes for directory in view.directories)
    return found


def _all_known(survey: Survey, names: Sequence[str]) -> bool:
    caches = [answer.cache for answer in survey.answers]
    return bool(caches) and all(cache is not None and cache.keys() >= set(names) for cache in caches)


# --- delete -------------------------------------------------------------------------------------------------------


async def delete(demo: DemoRun, extension: DemoExtension | None) -> None:
    """Mark the topics and wait until no trace of them is left in ZooKeeper, caches and disks."""
    options, watcher = demo.options, demo.watcher
    watcher.stage("Deleting")
    if extension is not None:
        await extension.before(demo)
    demo.marked_ms = time.time_ns() // 1_000_000
    began = time.monotonic()
    for outcome in await topic_znodes.mark_for_deletion(demo.session, demo.names):
        if outcome.problem is not None:
            raise DemoFailed(outcome.problem)
    watcher.note(f"{counted(options.topics, 'topic is', 'topics are')} marked for deletion")
    if extension is not None:
        await extension.during(demo)
    limit = time.monotonic() + options.limit_s
    while True:
        survey = await demo.look()
        demo.follow()
        show(demo, survey)
        if _is_over(survey, demo):
            break
        if time.monotonic() > limit:
            demo.limit_passed = f"not everything was deleted and reclaimed within {options.limit_s:g} s"
            watcher.note(demo.limit_passed)
            break
        await note_waits(demo)
        await asyncio.sleep(POLL_S)
    demo.reclaimed_s = time.monotonic() - began
    watcher.note(f"deleted and reclaimed after {demo.reclaimed_s:.1f} s")


def show(demo: DemoRun, survey: Survey | None = None) -> None:
    """Show the watcher the progress of the deletion."""
    totals, total = demo.totals, demo.options.topics
    bars = [ProgressBar(phase, len(totals.reached(phase, demo.names)), total) for phase in MEANINGS]
    sizes = _sizes(demo.before) if demo.before is not None else Counter[int]()
    bars += [
        ProgressBar(f"broker {broker} freed", min(totals.freed_bytes[broker], size), size, True)
        for broker, size in sorted(sizes.items())
    ]
    if survey is not None:
        known = [len(answer.cache.keys() & set(demo.names)) for answer in survey.answers if answer.cache is not None]
        bars.append(ProgressBar("forgotten by all caches", total - max(known, default=total), total))
    demo.watcher.bars(bars)


def _is_over(survey: Survey, demo: DemoRun) -> bool:
    """Return whether nothing of our topics is left and nothing is pending. Other leftovers are for the verdict."""
    ours = set(demo.names)
    return (
        survey.is_complete
        and not any(finding.topic in ours or finding.standing is Standing.PENDING for finding in leftovers(survey))
        and not ours.intersection(survey.in_motion)
    )


async def note_waits(demo: DemoRun) -> None:
    """With chaos: record why topics wait, as reported by the controllers at `/waits`."""
    if demo.waits is None:
        return
    for controller in demo.cluster.controllers:
        document = await controller.get("/waits")
        if document is not None and "topics" in document:
            demo.waits.note(controller.id, document, time.time_ns() // 1_000_000)


async def until(demo: DemoRun, condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll the condition, with journals and watcher updated. Raises DemoFailed at the stage's deadline."""
    limit = time.monotonic() + demo.options.limit_s
    while not await condition():
        if time.monotonic() > limit:
            raise DemoFailed(f"{what}: not within {demo.options.limit_s:g} s")
        await asyncio.sleep(POLL_S)
        demo.follow()
        show(demo)


# --- verdict ------------------------------------------------------------------------------------------------------


async def summarize(demo: DemoRun, started_s: float) -> DemoResult:
    """Take the last survey and add up the journals."""
    demo.watcher.stage("Looking at all three places")
    survey = await demo.look()
    await until_written(demo.totals, demo.follow, demo.before or survey, survey)
    totals, names = demo.totals, demo.names
    removed = totals.reached("removed", names)
    return DemoResult(
        demo.options,
        started_s,
        demo.created_s,
        (removed[-1] - demo.marked_ms) / 1000 if removed else 0.0,
        demo.reclaimed_s,
        tuple(_phases(demo)),
        tuple(_brokers(demo, survey)),
        survey,
        leftovers(survey),
        limit_passed=demo.limit_passed,
        began_ms=demo.marked_ms,
        happenings=tuple(h for h in totals.happenings if h.time_ms >= demo.marked_ms) if demo.waits else (),
        waits=demo.waits,
        untouched=demo.untouched,
        lost_records=totals.lost_records,
        refusals=dict(totals.refusals),
    )


async def until_written(
    totals: JournalTotals, follow: Callable[[], None], before: Survey, now: Survey, limit_s: float = JOURNAL_LIMIT_S
) -> None:
    """Follow the journals until they account for all bytes that are gone from the disks, or until the limit.

    Agents write their entries shortly after the removal. An agent that was killed may never write them.
    """
    sizes, left = _sizes(before), _sizes(now)
    limit = time.monotonic() + limit_s
    follow()
    while any(totals.freed_bytes[broker] < size - left[broker] for broker, size in sizes.items()):
        if time.monotonic() > limit:
            return
        await asyncio.sleep(POLL_S)
        follow()


def _phases(demo: DemoRun) -> list[PhaseTimes]:
    totals = demo.totals
    found = [
        phase_times(phase, meaning, totals.reached(phase, demo.names), demo.marked_ms)
        for phase, meaning in MEANINGS.items()
    ]
    freed = sorted(totals.last_freed_ms.values())
    return [*found, phase_times("reclaimed", "bytes gone, by broker", freed, demo.marked_ms)]


def _brokers(demo: DemoRun, survey: Survey) -> list[BrokerTotals]:
    if demo.before is None:
        return []
    replicas, before, after = _replicas(demo.before), _sizes(demo.before), _sizes(survey)
    totals = demo.totals
    return [
        BrokerTotals(
            broker.id,
            replicas[broker.id],
            before[broker.id],
            totals.acknowledged[broker.id],
            totals.freed_bytes[broker.id],
            totals.freed_files[broker.id],
            after[broker.id],
        )
        for broker in demo.cluster.all_brokers
    ]


__all__ = [
    "DaemonFailed",
    "DemoExtension",
    "DemoFailed",
    "DemoRun",
    "cluster_settings",
    "note_waits",
    "run_demo",
    "show",
    "until",
]
