"""One run: the cluster comes up, faults and work go on together, all is healed, and the checker decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError

from benchmarks.provenance import commit
from lethe.cluster.kafka_fetch import KafkaDistribution
from tests.chaos.checker import PLACES, UNSEEN, Finding, Verdict
from tests.chaos.cluster import ChaosCluster, chaos_cluster
from tests.chaos.control import ControlWatch
from tests.chaos.disks import DiskWatch, unlawful
from tests.chaos.exercised import SPREAD, in_journals, spread_removals
from tests.chaos.faults import Faults, PerformedFault
from tests.chaos.gate import Mode
from tests.chaos.history import History
from tests.chaos.looking import look, read_transactions
from tests.chaos.raw_zookeeper import ReadFailed
from tests.chaos.records import Records
from tests.chaos.report import Report, demanded_kinds, topic_counts
from tests.chaos.schedule import draw
from tests.chaos.txn_log import Unreadable
from tests.chaos.vitals import Vitals, growths, unmeasured
from tests.chaos.workload import Workload

SETTLE_LIMIT_S: Final = 240.0
LOOK_S: Final = 3.0
PROGRESS_S: Final = 2.0
SUPERVISE_S: Final = 1.0


@dataclass(slots=True)
class Run:
    """Settings and parts of one run. `say` takes progress, `note` a line of the log."""

    seed: int
    minutes: float
    kafka: KafkaDistribution
    directory: Path
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list)
    started: float = 0.0

    def clock(self) -> float:
        """Seconds since the faults began."""
        return time.monotonic() - self.started if self.started else 0.0

    def note(self, text: str) -> None:
        self.notes.append(f"{self.clock():8.2f} {text}")

    async def perform(self) -> Report:
        """Do all of it. Whatever happens, nothing of it runs afterwards."""
        report = Report(self.seed, self.minutes, str(self.kafka.version), commit())
        self.say("starting: 3 ZooKeeper servers, 3 controllers, 5 agents, 2 Kafka brokers")
        async with chaos_cluster(self.directory, self.kafka) as cluster:
            if cluster.no_disk is not None:
                report.left_out.append(f"full disks: {cluster.no_disk}")
            await _Performance(self, cluster, report).play()
        return report


class _Performance:
    """The run on a cluster that is up."""

    def __init__(self, run: Run, cluster: ChaosCluster, report: Report) -> None:
        self.run, self.cluster, self.report = run, cluster, report
        self.control = ControlWatch(cluster, run.clock)
        self.faults = Faults(cluster, self.control, run.clock)
        self.workload = Workload(cluster, run.seed, run.note)
        self.records = Records(cluster, run.note)
        self.disks = DiskWatch(cluster.log_dirs, frozenset(cluster.agents))
        self.vitals = Vitals(cluster.daemons)

    async def play(self) -> None:
        await self.workload.prepare()
        schedule = draw(self.run.seed, self.run.minutes * 60)
        has_disk = self.cluster.disk is not None
        self.report.demanded = demanded_kinds(schedule, self.run.minutes, has_disk=has_disk)
        self.run.started = time.monotonic()
        async with _running(self.control.run(), self.disks.run(), self.vitals.run(), self._progress()):
            async with _running(self.workload.run(), self.records.run(), self._supervise()):
                await self.faults.run(schedule)
                await asyncio.sleep(max(0.0, self.run.minutes * 60 - self.run.clock()))
            self._heal()
            await self.faults.restart_ended()
            await self._settle()
        self._tell_faults()
        self.report.growth = growths(self.vitals.lives.values())
        self.report.growth_unseen = unmeasured(self.vitals.lives.values())
        self.report.failovers = [
            replace(each, others=max(0, self.faults.of_control(each.at_s, each.at_s + each.seconds) - 1))
            for each in self.control.failovers
        ]
        self.report.unended = self.control.unended()
        self.report.scans = self.disks.scans
        self.report.ended = self.cluster.ended
        self.report.judge()

    async def _supervise(self) -> None:
        """Start again what ends by itself, as systemd would."""
        while True:
            await asyncio.sleep(SUPERVISE_S)
            await self.faults.restart_ended()

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            listed, done = self.workload.listed, self.faults.performed
            self.run.say(
                f"{self.run.clock():5.0f} s  faults {len(done)}  down {sorted(self.faults.down)}  "
                f"topics {len(listed.names)}, {len(listed.marked)} marked  asked {dict(self.workload.asked)}  "
                f"controller {self.control.holder} epoch {self.control.epoch}"
            )

    def _heal(self) -> None:
        for gates in (*self.cluster.zookeeper_gates.values(), tuple(self.cluster.listener_gates.values())):
            for gate in gates:
                gate.set_mode(Mode.OPEN)

    # --- the end --------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Look until nothing is wrong and control is back, or the limit is over; what is wrong then is the verdict."""
        began = time.monotonic()
        problem = "nothing was seen"
        history, verdict = History(), Verdict()
        while True:
            try:
                history, verdict = await look(self.cluster)
                verdict.findings += await self._not_ready()
                problem = ""
            except (ReadFailed, OSError, Unreadable) as unseen:
                problem = f"the cluster is unseen: {type(unseen).__name__}: {unseen}"
            without_control = self.control.unended()
            if not problem and not verdict.findings and not without_control:
                self.report.settled_s = round(time.monotonic() - began, 1)
                break
            if time.monotonic() - began > SETTLE_LIMIT_S:
                break
            wrong = [problem] if problem else [each.text for each in verdict.findings]
            wrong += [f"no control seen since {each}" for each in without_control]
            self.run.say(f"settling for {time.monotonic() - began:.0f} s: {len(wrong)} findings, such as {wrong[0]}")
            await asyncio.sleep(LOOK_S)
        if problem:
            verdict.findings += [Finding(UNSEEN, place, problem) for place in PLACES]
        await self._tell(history, verdict)

    async def _not_ready(self) -> list[Finding]:
        return [
            Finding(UNSEEN, "processes", f"{member.name} is not ready")
            for member in self.cluster.members.values()
            if not await member.is_ready()
        ]

    async def _tell(self, history: History, verdict: Verdict) -> None:
        report = self.report
        report.findings = verdict.findings
        report.left_by_moves = verdict.left_by_moves
        report.left_by_kafka = verdict.left_by_kafka + self.cluster.set_aside
        report.violations += history.violations
        report.violations += unlawful(self.disks.vanished, history)
        report.violations += [
            f"broker {term.controller} took control under epoch {term.epoch}, which no Kafka broker may here"
            for term in history.terms
            if term.controller not in self.cluster.controllers
        ]
        report.violations += _faults_in_logs(self.cluster)
        report.violations += [each for each in self.cluster.ended if not each.startswith("zookeeper")]
        report.topics = topic_counts(history)
        report.terms = len(history.terms)
        transactions = await read_transactions(self.cluster)
        report.transactions = len(transactions)
        journals = [controller.journal_dir for controller in self.cluster.controllers.values()]
        exercised = await asyncio.to_thread(in_journals, journals)
        report.exercised = {**exercised, SPREAD: spread_removals(transactions)}
        await self._compare_records()

    async def _compare_records(self) -> None:
        self.report.records = len(self.records.acknowledged)
        try:
            missing = await self.records.missing()
        except (KafkaError, OSError) as problem:
            self.report.violations.append(f"the records cannot be read: {type(problem).__name__}: {problem}")
            return
        self.report.violations += [f"an acknowledged record is lost: {record}" for record in missing[:20]]

    def _tell_faults(self) -> None:
        report = self.report
        report.failed_starts = self.faults.failed_starts
        report.faults = self.faults.by_label()
        report.skipped = sum(each.skipped is not None for each in self.faults.performed)
        report.performed = [_as_line(each) for each in self.faults.performed]
        report.fault_problems = [
            f"{each.label} at {each.at_s:g} s: {each.problem}" for each in self.faults.performed if each.problem
        ]


def _as_line(fault: PerformedFault) -> str:
    what = f"skipped: {fault.skipped}" if fault.skipped else ", ".join(fault.victims)
    what += f"; problem: {fault.problem}" if fault.problem else ""
    return f"{fault.at_s:7.2f} s to {fault.ended_s:7.2f} s  {fault.label}: {what}"


def _faults_in_logs(cluster: ChaosCluster) -> Iterator[str]:
    """Yield what Lethe's own processes call a fault of theirs: tracebacks and broken invariants."""
    for daemon in cluster.daemons:
        lines = daemon.log_file.read_text(errors="replace").splitlines()
        for line in lines:
            if "Traceback (most recent call last)" in line or "invariant" in line.lower():
                yield f"{daemon.name} logs: {line.strip()[:300]}"


@asynccontextmanager
async def _running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these beside the block, and end them with it. If one fails, so does the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in coroutines]
        yield
        for task in tasks:
            task.cancel()
