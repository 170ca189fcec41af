"""One turn: a controller takes a workload through its phases, and is watched.

A phase has an end that is the same whoever controls: for creation and failover the last control request that an agent
has carried out, by its journal, once each agent has been told of all partitions and nothing more has come for a while;
for deletion the moment at which ZooKeeper shows neither topic nor marker. Nothing else runs between two phases.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from benchmarks.against_kafka import contestants
from benchmarks.against_kafka.observer import Counts, Holder, Told, peak_memory_mb
from benchmarks.against_kafka.plan import BROKERS, REPLICATION_FACTOR, Phase, Workload
from benchmarks.against_kafka.stage import BenchmarkFailed, Stage
from lethe.admin.topic_plans import creation_operations, deletion_operation
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, Exists, Operation, Present
from lethe.protocol.zookeeper.packing import GroupDone, MultiPlan

QUIET_S: Final = 1.5
"""Nothing has come for so long: nothing more will."""
PHASE_LIMIT_S: Final = 1_200.0
_QUIET_POLL_S: Final = 0.1
_DELETION_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase of one turn."""

    workload: str
    phase: str
    contestant: str
    round: int
    seconds: float
    cpu_s: float
    """Processor time of the controller's process, what it did after the end of the phase included."""
    partitions: int
    zookeeper_requests: int
    transactions: int
    control_bytes: int
    control_requests: int
    load: float
    """The machine's load average over the last minute, when the phase ended."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All phases of one turn, and the most memory that the controller had from its start to its end."""

    workload: str
    contestant: str
    round: int
    peak_mb: float
    phases: tuple[Measured, ...]
    complaints: tuple[str, ...]
    """What the controller's log has at level ERROR; none is expected."""


class _Clock:
    """When a phase began and ended, by the wall clock that the journals have, too."""

    def __init__(self) -> None:
        self.began_ms = 0.0
        self.ended_ms = 0.0


class Scene(NamedTuple):
    """Who is measured, and where."""

    stage: Stage
    name: str
    """Of the controller; topics are called after it."""
    number: int
    """Of the round."""
    pid: int
    """Of the controller's process."""


class Course:
    """The phases of one turn."""

    def __init__(self, scene: Scene, holder: Holder, workload: Workload, tell: Callable[[str], None]) -> None:
        self._stage, self._name, self._number, self._pid = scene
        self._holder = holder
        self._tell = tell
        self._workload = workload
        self._topics: list[str] = []
        self.measured: list[Measured] = []

    async def run(self) -> None:
        """All phases in order, ending with the deletion: what follows finds an empty cluster."""
        for phase in self._workload.phases:
            await self._quiet()
            match phase:
                case Phase.CREATION:
                    await self._creation()
                case Phase.FAILOVER:
                    await self._failover()
                case Phase.DELETION:
                    await self._deletion()

    # --- phases ---------------------------------------------------------------------------------------------------

    async def _creation(self) -> None:
        plans = tuple(self._workload.plans(f"{self._name}-{self._number}"))
        self._topics = [plan.name for plan in plans]
        configs = await self._stage.session.read([Exists(paths.config_topic(name)) for name in self._topics])
        groups = [
            creation_operations(plan, config_exists=isinstance(config, Present))
            for plan, config in zip(plans, configs, strict=True)
        ]
        async with self._measuring(Phase.CREATION) as clock:
            await self._write(groups)
            clock.ended_ms = await self._all_told(after_epoch=-1)

    async def _failover(self) -> None:
        epoch = await self._stage.observer.controller_epoch()
        async with self._measuring(Phase.FAILOVER) as clock:
            await self._write([(Delete(paths.CONTROLLER, ANY_VERSION),)])
            elected = await self._stage.in_charge(self._holder.broker_id, after=self._holder.czxid)
            self._holder = elected
            clock.began_ms = elected.since_ms
            clock.ended_ms = await self._all_told(after_epoch=epoch)

    async def _deletion(self) -> None:
        marks: list[tuple[Operation, ...]] = [(deletion_operation(name),) for name in self._topics]
        await self._stage.until(self._stage.observer.settled, "the agents have filled their replicas", PHASE_LIMIT_S)

        async def nothing_is_left() -> bool:
            return await self._stage.observer.left() == (0, 0)

        async with self._measuring(Phase.DELETION) as clock:
            await self._write(marks)
            await self._stage.until(nothing_is_left, "all topics are deleted", PHASE_LIMIT_S, poll_s=_DELETION_POLL_S)
            clock.ended_ms = time.time() * 1000
            # What follows the end, such as telling brokers of it, is counted and not timed.
            await self._quiet()

    # --- measuring ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _measuring(self, phase: Phase) -> AsyncIterator[_Clock]:
        before = await self._stage.observer.counts(self._holder.session_id, self._pid)
        clock = _Clock()
        clock.began_ms = time.time() * 1000
        yield clock
        counts = (await self._stage.observer.counts(self._holder.session_id, self._pid)).since(before)
        found = self._found(phase, (clock.ended_ms - clock.began_ms) / 1000, counts)
        self.measured.append(found)
        self._tell(
            f"{self._workload.name} {phase}, {self._name}: {found.seconds:.2f} s, "
            f"processor {found.cpu_s:.2f} s (load {found.load:.1f})"
        )

    def _found(self, phase: Phase, seconds: float, counts: Counts) -> Measured:
        return Measured(
            self._workload.name,
            str(phase),
            self._name,
            self._number,
            round(seconds, 3),
            round(counts.cpu_s, 2),
            self._workload.partitions,
            counts.zookeeper_requests,
            counts.transactions,
            counts.control_bytes,
            counts.control_requests,
            round(os.getloadavg()[0], 2),
        )

    async def _write(self, groups: list[tuple[Operation, ...]]) -> None:
        outcomes = await self._stage.session.write(MultiPlan(groups, None))
        if failed := [outcome for outcome in outcomes if not isinstance(outcome, GroupDone)]:
            raise BenchmarkFailed(f"{len(failed)} of {len(groups)} writes failed, the first with {failed[0]}")

    async def _quiet(self) -> None:
        """Wait until no agent is told anything any more."""
        await self._last_told(lambda _: None, lambda: True, "the brokers are left in peace")

    async def _all_told(self, *, after_epoch: int) -> float:
        """When the last of the agents had carried out the last of the requests about all partitions, in milliseconds;
        counts what a later epoch than that told them."""
        told: dict[tuple[int, str], int] = {}
        wanted = self._workload.partitions * REPLICATION_FACTOR // len(BROKERS)

        def note(found: list[list[Told]]) -> None:
            for agent, requests in enumerate(found):
                for request in requests:
                    if request.controller_epoch > after_epoch:
                        told[agent, request.api] = told.get((agent, request.api), 0) + request.partitions

        def is_complete() -> bool:
            return all(
                told.get((agent, api.name), 0) >= wanted
                for agent in range(len(BROKERS))
                for api in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA)
            )

        return await self._last_told(note, is_complete, f"all brokers know {wanted:,} partitions")

    async def _last_told(
        self, note: Callable[[list[list[Told]]], None], is_complete: Callable[[], bool], what: str
    ) -> float:
        last_ms = 0.0
        quiet_since_s = time.monotonic()

        async def is_over() -> bool:
            nonlocal last_ms, quiet_since_s
            found = self._stage.observer.told()
            note(found)
            times = [request.time_ms for requests in found for request in requests if request.partitions]
            if times:
                last_ms, quiet_since_s = max(last_ms, *times), time.monotonic()
            return is_complete() and time.monotonic() - quiet_since_s >= QUIET_S

        await self._stage.until(is_over, what, PHASE_LIMIT_S, poll_s=_QUIET_POLL_S)
        return last_ms


async def take_turn(
    stage: Stage, name: str, number: int, workload: Workload, warm_up: Workload, tell: Callable[[str], None]
) -> Turn:
    """Start that controller, warm it up, take the workload through its phases, stop it. Raises BenchmarkFailed,
    DaemonFailed."""
    async with stage.turn(name, number) as (member, holder):
        assert member.pid is not None
        scene = Scene(stage, f"warm-{name}", number, member.pid)
        await Course(scene, holder, warm_up, lambda _: None).run()
        holder = await stage.in_charge(holder.broker_id)
        course = Course(scene._replace(name=name), holder, workload, tell)
        await course.run()
        peak_mb = round(peak_memory_mb(member.pid), 1)
    return Turn(
        workload.name, name, number, peak_mb, tuple(course.measured), tuple(contestants.complaints(member)[:20])
    )
