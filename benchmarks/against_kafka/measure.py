"""One turn: a controller takes a workload through its phases while it is measured.

The end of a phase has the same definition for both controllers. Creation and failover end with the last control request
that an agent has applied, by its journal, once each agent has all partitions and no request has arrived for `QUIET_S`.
Deletion ends when ZooKeeper has neither topic nor marker. Nothing else runs between two phases.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from benchmarks.against_kafka import contestants
from benchmarks.against_kafka.bystander import Latencies
from benchmarks.against_kafka.observer import ActiveController, AppliedRequest, CounterSnapshot, peak_memory_mb
from benchmarks.against_kafka.plan import Phase, Workload
from benchmarks.against_kafka.testbed import START_LIMIT_S, BenchmarkFailed, Testbed
from lethe.admin.topic_plans import creation_operations, deletion_operation
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, Exists, Operation, Present
from lethe.protocol.zookeeper.packing import GroupDone, MultiPlan

QUIET_S: Final = 1.5
"""Seconds without a request after which no more is expected."""
PHASE_LIMIT_S: Final = 1_200.0
_QUIET_POLL_S: Final = 0.1
_DELETION_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class PhaseMeasurement:
    """One phase of one turn."""

    workload: str
    phase: str
    contestant: str
    round: int
    seconds: float
    cpu_s: float
    """Processor time of the controller's process, including work after the end of the phase."""
    partitions: int
    zookeeper_requests: int
    transactions: int
    control_bytes: int
    control_requests: int
    load: float
    """The machine's load average over the last minute, at the end of the phase."""
    zookeeper_mb: float | None = None
    """ZooKeeper's live heap after the phase, less what it had before the first turn; None if it was not seen."""
    bystander: Latencies | None = None
    """What another client of ZooKeeper waited for its reads in the phase."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """All phases of one turn, and the controller's peak memory from start to end."""

    workload: str
    contestant: str
    round: int
    peak_mb: float
    phases: tuple[PhaseMeasurement, ...]
    complaints: tuple[str, ...]
    """Lines of level ERROR in the controller's log; none is expected."""


class _PhaseTimes:
    """Begin and end of a phase, by the wall clock of the journals."""

    def __init__(self) -> None:
        self.began_ms = 0.0
        self.ended_ms = 0.0


class TurnSetup(NamedTuple):
    """The measured controller and its testbed."""

    testbed: Testbed
    name: str
    """Name of the controller; also the prefix of its topics."""
    number: int
    """Number of the round."""
    pid: int
    """Process id of the controller."""


class TurnRunner:
    """Runs the phases of one turn."""

    def __init__(
        self, setup: TurnSetup, holder: ActiveController, workload: Workload, tell: Callable[[str], None]
    ) -> None:
        self._testbed, self._name, self._number, self._pid = setup
        self._holder = holder
        self._tell = tell
        self._workload = workload
        self._topics: list[str] = []
        self.measured: list[PhaseMeasurement] = []

    async def run(self) -> None:
        """Run all phases in order. The last one is the deletion, which leaves an empty cluster."""
        for phase in self._workload.phases:
            await self._wait_for_quiet()
            match phase:
                case Phase.CREATION:
                    await self._creation()
                case Phase.FAILOVER:
                    await self._failover()
                case Phase.FAILURE:
                    await self._failure()
                case Phase.DELETION:
                    await self._deletion()

    # --- phases ---------------------------------------------------------------------------------------------------

    async def _creation(self) -> None:
        plans = tuple(self._workload.plans(f"{self._name}-{self._number}"))
        self._topics = [plan.name for plan in plans]
        configs = await self._testbed.session.read([Exists(paths.config_topic(name)) for name in self._topics])
        groups = [
            creation_operations(plan, config_exists=isinstance(config, Present))
            for plan, config in zip(plans, configs, strict=True)
        ]
        async with self._measuring(Phase.CREATION) as clock:
            await self._write(groups)
            clock.ended_ms = await self._all_applied(after_epoch=-1)

    async def _failover(self) -> None:
        epoch = await self._testbed.observer.controller_epoch()
        async with self._measuring(Phase.FAILOVER) as clock:
            await self._write([(Delete(paths.CONTROLLER, ANY_VERSION),)])
            elected = await self._testbed.wait_for_controller(self._holder.broker_id, after=self._holder.czxid)
            self._holder = elected
            clock.began_ms = elected.since_ms
            clock.ended_ms = await self._all_applied(after_epoch=epoch)

    async def _failure(self) -> None:
        """Kill the last broker; it is back before the next phase."""
        here, number = self._testbed, self._workload.brokers - 1
        victim = here.agents[number]
        here.observer.leave_out(number)

        async def is_gone() -> bool:
            return not await here.observer.is_registered(number + 1)

        lost = self._workload.replicas_by_broker()[number + 1]
        wanted = {(agent, ApiKey.UPDATE_METADATA): lost for agent in range(number)}
        async with self._measuring(Phase.FAILURE) as clock:
            await victim.kill()
            await here.until(is_gone, f"the session of broker {number + 1} is over", PHASE_LIMIT_S)
            clock.began_ms = time.time() * 1000
            clock.ended_ms = await self._applied(wanted)
        victim.launch()
        await victim.wait_ready(START_LIMIT_S)
        here.observer.count_again()

    async def _deletion(self) -> None:
        marks: list[tuple[Operation, ...]] = [(deletion_operation(name),) for name in self._topics]
        await self._testbed.until(
            self._testbed.observer.settled, "the agents have filled their replicas", PHASE_LIMIT_S
        )

        async def nothing_is_left() -> bool:
            return await self._testbed.observer.left() == (0, 0)

        async with self._measuring(Phase.DELETION) as clock:
            await self._write(marks)
            await self._testbed.until(nothing_is_left, "all topics are deleted", PHASE_LIMIT_S, poll_s=_DELETION_POLL_S)
            clock.ended_ms = time.time() * 1000
            # What follows the end, such as telling brokers of it, is counted and not timed.
            await self._wait_for_quiet()

    # --- measuring ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _measuring(self, phase: Phase) -> AsyncIterator[_PhaseTimes]:
        before = await self._testbed.observer.counts(self._holder.session_id, self._pid)
        clock = _PhaseTimes()
        clock.began_ms = time.time() * 1000
        yield clock
        counts = (await self._testbed.observer.counts(self._holder.session_id, self._pid)).since(before)
        found = await self._measurement(phase, clock, counts)
        self.measured.append(found)
        self._tell(
            f"{self._workload.name} {phase}, {self._name}: {found.seconds:.2f} s, "
            f"processor {found.cpu_s:.2f} s (load {found.load:.1f}), ZooKeeper's heap {found.zookeeper_mb} MB, "
            f"bystander {found.bystander}"
        )

    async def _measurement(self, phase: Phase, clock: _PhaseTimes, counts: CounterSnapshot) -> PhaseMeasurement:
        here = self._testbed
        if here.bystander.problem is not None:
            raise BenchmarkFailed(here.bystander.problem)
        heap_mb, empty_mb = await here.observer.live_heap_mb(), here.empty_heap_mb
        return PhaseMeasurement(
            self._workload.name,
            str(phase),
            self._name,
            self._number,
            round((clock.ended_ms - clock.began_ms) / 1000, 3),
            round(counts.cpu_s, 2),
            self._workload.partitions,
            counts.zookeeper_requests,
            counts.transactions,
            counts.control_bytes,
            counts.control_requests,
            round(os.getloadavg()[0], 2),
            None if heap_mb is None or empty_mb is None else round(heap_mb - empty_mb, 1),
            here.bystander.latencies(clock.began_ms, clock.ended_ms),
        )

    async def _write(self, groups: list[tuple[Operation, ...]]) -> None:
        outcomes = await self._testbed.session.write(MultiPlan(groups, None))
        if failed := [outcome for outcome in outcomes if not isinstance(outcome, GroupDone)]:
            raise BenchmarkFailed(f"{len(failed)} of {len(groups)} writes failed, the first with {failed[0]}")

    async def _wait_for_quiet(self) -> None:
        """Wait until no agent receives requests any more."""
        await self._last_applied(lambda _: None, lambda: True, "the brokers receive no more requests")

    async def _all_applied(self, *, after_epoch: int) -> float:
        """Return when the last agent had applied the last request about all partitions, in milliseconds. Only requests
        after that epoch count."""
        wanted: dict[tuple[int, ApiKey], int] = {}
        for broker, replicas in self._workload.replicas_by_broker().items():
            wanted[broker - 1, ApiKey.LEADER_AND_ISR] = replicas
            wanted[broker - 1, ApiKey.UPDATE_METADATA] = self._workload.partitions
        return await self._applied(wanted, after_epoch)

    async def _applied(self, wanted: Mapping[tuple[int, ApiKey], int], after_epoch: int = -1) -> float:
        """Return when the last agent had applied requests about so many partitions, in milliseconds."""
        applied: dict[tuple[int, str], int] = {}

        def note(found: list[list[AppliedRequest]]) -> None:
            for agent, requests in enumerate(found):
                for request in requests:
                    if request.controller_epoch > after_epoch:
                        applied[agent, request.api] = applied.get((agent, request.api), 0) + request.partitions

        def is_complete() -> bool:
            return all(applied.get((agent, api.name), 0) >= count for (agent, api), count in wanted.items())

        return await self._last_applied(note, is_complete, "all brokers know their partitions")

    async def _last_applied(
        self, note: Callable[[list[list[AppliedRequest]]], None], is_complete: Callable[[], bool], what: str
    ) -> float:
        last_ms = 0.0
        quiet_since_s = time.monotonic()

        async def is_over() -> bool:
            nonlocal last_ms, quiet_since_s
            found = self._testbed.observer.applied_requests()
            note(found)
            times = [request.time_ms for requests in found for request in requests if request.partitions]
            if times:
                last_ms, quiet_since_s = max(last_ms, *times), time.monotonic()
            return is_complete() and time.monotonic() - quiet_since_s >= QUIET_S

        await self._testbed.until(is_over, what, PHASE_LIMIT_S, poll_s=_QUIET_POLL_S)
        return last_ms


async def run_turn(
    testbed: Testbed, name: str, number: int, workload: Workload, warm_up: Workload, tell: Callable[[str], None]
) -> TurnResult:
    """Start the controller, warm it up, run the workload, stop the controller. Raises BenchmarkFailed, DaemonFailed."""
    async with testbed.turn(name, number) as (member, holder):
        assert member.pid is not None
        setup = TurnSetup(testbed, f"warm-{name}", number, member.pid)
        await TurnRunner(setup, holder, warm_up, lambda _: None).run()
        await testbed.fill_log()
        holder = await testbed.wait_for_controller(holder.broker_id)
        runner = TurnRunner(setup._replace(name=name), holder, workload, tell)
        await runner.run()
        peak_mb = round(peak_memory_mb(member.pid), 1)
    return TurnResult(
        workload.name, name, number, peak_mb, tuple(runner.measured), tuple(contestants.complaints(member)[:20])
    )
