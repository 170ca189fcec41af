"""Performs planned faults: finds who has the role now, does the harm, and undoes it when its time is over.

At most one ZooKeeper server, one Kafka broker and two agents are down or paused at a time, so that the cluster can go
on. A fault whose candidates are all busy waits for one, and is skipped after `WAIT_S`, which the record says.

Two processes are spared: see `SPARED_ARE`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lethe.cluster.daemons import DaemonFailed, Member
from tests.chaos.cluster import AGENT_IDS, CONTROLLER_IDS, KAFKA_IDS, SESSION_TIMEOUT_MS, ChaosCluster
from tests.chaos.control import ControlWatch
from tests.chaos.ensemble import EnsembleFailed, Server
from tests.chaos.gate import Gate, Mode
from tests.chaos.half_created import set_aside
from tests.chaos.schedule import Harm, PlannedFault, Target
from tests.fakes.full_disk import fill_up

START_LIMIT_S: Final = 90.0
STARTS: Final = 4
"""Tries of a restart while other faults go on."""
WAIT_S: Final = 20.0
"""For someone who can be hit."""
RETRY_S: Final = 0.2
SPARED_PAUSE_S: Final = 2 * SESSION_TIMEOUT_MS / 1000
"""Long enough for the loss of its session."""
MOST_DOWN: Final = {"zookeeper": 1, "kafka": 1, "agent": 2, "controller": 3}
SPARED: Final = frozenset({f"controller {CONTROLLER_IDS[0]}", f"broker {AGENT_IDS[0]}"})
SPARED_ARE: Final = (
    f"no SIGKILL of one process hits {' or '.join(sorted(SPARED, reverse=True))}, so that growth is measured over a "
    "long life: it hits another of its class or, where that cannot be, becomes a SIGSTOP and is counted as one; "
    "SIGKILL of all controllers spares none"
)
"""For reports."""
_MODES: Final = {Harm.STALL: Mode.STALL, Harm.DELAY: Mode.DELAY, Harm.REFUSE: Mode.REFUSE}
Victim = Member | Server


@dataclass(slots=True)
class PerformedFault:
    """What came of a planned fault. `label` says what was done, which may be another harm than was planned."""

    planned: PlannedFault
    at_s: float
    label: str
    victims: tuple[str, ...] = ()
    skipped: str | None = None
    ended_s: float | None = None
    problem: str | None = None

    @property
    def is_performed(self) -> bool:
        """Whether it was done and undone as it should be."""
        return self.skipped is None and self.problem is None


class Skipped(Exception):
    """Nobody can be hit now; the message says why."""


@dataclass(slots=True)
class Faults:
    """All faults of one run."""

    cluster: ChaosCluster
    control: ControlWatch
    clock: Callable[[], float]
    performed: list[PerformedFault] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)
    """Names of processes that are killed or paused now, with their class."""
    failed_starts: list[str] = field(default_factory=list)
    """Lethe's own processes that did not come up in `STARTS` tries, ended or not."""

    async def run(self, schedule: Sequence[PlannedFault]) -> None:
        """Perform the schedule, and return when every fault is over and every process is up."""
        async with asyncio.TaskGroup() as group:
            for planned in schedule:
                await asyncio.sleep(max(0.0, planned.at_s - self.clock()))
                group.create_task(self._perform(planned), name=planned.label)

    def by_label(self) -> dict[str, int]:
        """Number of performed faults by what was done to whom; those with a problem are none of them."""
        return dict(Counter(each.label for each in self.performed if each.is_performed))

    def of_control(self, began_s: float, ended_s: float) -> int:
        """Number of faults of controllers, their ways to ZooKeeper and its servers that go on within this time."""
        kinds = ("controller", "zookeeper", Target.ACTIVE_TO_ZOOKEEPER.value)
        return sum(
            any(victim.startswith(kinds) for victim in each.victims)
            and each.at_s <= ended_s
            and (each.ended_s is None or each.ended_s >= began_s)
            for each in self.performed
        )

    async def _perform(self, planned: PlannedFault) -> None:
        record = PerformedFault(planned, round(self.clock(), 2), planned.label)
        self.performed.append(record)
        deadline = planned.at_s + WAIT_S
        try:
            while True:
                try:
                    await self._hit(planned, record)
                    break
                except Skipped as why:
                    if self.clock() >= deadline:
                        record.skipped = str(why)
                        break
                    await asyncio.sleep(RETRY_S)
                    record.at_s = round(self.clock(), 2)
        except (DaemonFailed, EnsembleFailed, OSError) as problem:
            record.problem = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
        finally:
            record.ended_s = round(self.clock(), 2)

    async def _hit(self, planned: PlannedFault, record: PerformedFault) -> None:
        """Do it now. Raises Skipped, and has done nothing then."""
        match planned.target:
            case Target.DISK:
                await self._fill(planned, record)
            case Target.ACTIVE_TO_ZOOKEEPER | Target.BROKER_TO_ZOOKEEPER | Target.TO_BROKER | Target.TO_CONTROLLER:
                await self._harm_way(planned, record)
            case _:
                await self._harm_processes(planned, record)

    # --- processes ------------------------------------------------------------------------------------------------

    async def _harm_processes(self, planned: PlannedFault, record: PerformedFault) -> None:
        kind, candidates = await self._candidates(planned.target)
        able = [each for each in candidates if each.name not in self.down and each.process.is_running]
        room = MOST_DOWN[kind] - list(self.down.values()).count(kind)
        if not able or room < 1:
            raise Skipped(f"{planned.target.value}: nobody can be hit now")
        if planned.target is Target.CONTROLLERS:
            if len(able) < len(candidates):
                raise Skipped(f"{planned.target.value}: not all are up now")
            victims = able
        else:
            planned, victim = _spare(planned, able)
            victims = [victim]
        record.label = planned.label
        record.victims = tuple(each.name for each in victims)
        # Marked before anything is awaited, so that no other fault takes one of them.
        self.down |= dict.fromkeys(record.victims, kind)
        await _all_of(self._harm_process(planned, victim, kind) for victim in victims)

    async def _candidates(self, target: Target) -> tuple[str, Sequence[Victim]]:
        cluster = self.cluster
        match target:
            case Target.ACTIVE:
                active = cluster.controllers.get(self.control.holder or -1)
                return "controller", [] if active is None else [active]
            case Target.CONTROLLER | Target.CONTROLLERS:
                return "controller", list(cluster.controllers.values())
            case Target.AGENT:
                return "agent", list(cluster.agents.values())
            case Target.KAFKA:
                return "kafka", list(cluster.kafka.values())
            case Target.ZOOKEEPER_LEADER:
                leader = await cluster.ensemble.leader()
                return "zookeeper", [] if leader is None else [leader]
            case _:
                return "zookeeper", cluster.ensemble.servers

    async def _harm_process(self, planned: PlannedFault, victim: Victim, kind: str) -> None:
        process = victim.process
        with contextlib.ExitStack() as undo:
            undo.callback(self.down.pop, victim.name, None)
            if kind == "controller" and victim is self.cluster.controllers.get(self.control.holder or -1):
                undo.enter_context(self._hits_control(f"{planned.harm.value} of {victim.name} at {planned.at_s:g} s"))
            if planned.harm is Harm.PAUSE:
                process.pause()
                await asyncio.sleep(planned.duration_s)
                process.resume()
            else:
                await process.kill()
                await asyncio.sleep(planned.duration_s)
                await self._start(victim)

    @contextlib.contextmanager
    def _hits_control(self, fault: str) -> Iterator[None]:
        self.control.fault_begins(fault)
        try:
            yield
        finally:
            self.control.fault_ended(fault)

    async def _start(self, victim: Victim) -> None:
        """Start it, again if it ends because of other faults. Raises DaemonFailed, EnsembleFailed."""
        for attempt in range(STARTS):
            try:
                if isinstance(victim, Server):
                    if not victim.process.is_running:
                        victim.process.start()
                    await victim.wait_serving(START_LIMIT_S)
                elif victim.is_running:
                    await victim.wait_ready(START_LIMIT_S)
                else:
                    await victim.start(START_LIMIT_S)
                return
            except (DaemonFailed, EnsembleFailed) as problem:
                if (moved := set_aside(str(problem))) is not None:
                    self.cluster.set_aside.append(f"{victim.name}: {moved}, at {self.clock():.0f} s")
                    continue
                if not victim.process.is_running:
                    self.cluster.ended.append(f"{victim.name} while it started: {str(problem).splitlines()[0]}")
                if attempt == STARTS - 1:
                    if any(victim is each for each in self.cluster.daemons):
                        self.failed_starts.append(str(problem).splitlines()[0].removesuffix(":"))
                    raise

    async def restart_ended(self) -> None:
        """Start each process again that has ended although nobody had killed it, and note it."""
        everybody: list[Victim] = [*self.cluster.members.values(), *self.cluster.ensemble.servers]
        for victim in everybody:
            if victim.name not in self.down and not victim.process.is_running:
                code = victim.process.exit_code
                self.cluster.ended.append(f"{victim.name} with exit code {code} at {self.clock():.0f} s")
                self.down[victim.name] = "ended"
                try:
                    await self._start(victim)
                finally:
                    self.down.pop(victim.name, None)

    # --- ways and disks -------------------------------------------------------------------------------------------

    async def _harm_way(self, planned: PlannedFault, record: PerformedFault) -> None:
        cluster, holder = self.cluster, self.control.holder
        brokers = (*cluster.agents, *KAFKA_IDS)
        gates: Sequence[Gate]
        match planned.target:
            case Target.ACTIVE_TO_ZOOKEEPER:
                if holder is None:
                    raise Skipped("no controller is active")
                number, gates = holder, cluster.zookeeper_gates.get(holder, ())
            case Target.BROKER_TO_ZOOKEEPER:
                number = brokers[planned.choice % len(brokers)]
                gates = cluster.zookeeper_gates[number]
            case Target.TO_BROKER:
                number = brokers[planned.choice % len(brokers)]
                gates = (cluster.listener_gates[number],)
            case _:
                number = list(cluster.controllers)[planned.choice % len(cluster.controllers)]
                gates = (cluster.listener_gates[number],)
        key = f"{planned.target.value} of {number}"
        if key in self.down or not gates:
            raise Skipped(f"{key} is harmed already")
        record.victims = (key,)
        self.down[key] = "way"
        with contextlib.ExitStack() as undo:
            undo.callback(self.down.pop, key, None)
            if planned.target is Target.ACTIVE_TO_ZOOKEEPER and planned.harm in (Harm.STALL, Harm.REFUSE):
                fault = f"{planned.harm.value} of controller {number}'s way to ZooKeeper at {planned.at_s:g} s"
                undo.enter_context(self._hits_control(fault))
            for gate in gates:
                gate.cut() if planned.harm is Harm.CUT else gate.set_mode(_MODES[planned.harm], planned.delay_s)
            try:
                await asyncio.sleep(planned.duration_s)
            finally:
                for gate in gates:
                    gate.set_mode(Mode.OPEN)

    async def _fill(self, planned: PlannedFault, record: PerformedFault) -> None:
        """Leave no block on the small disk, then free it and restart its agent, as its operator would: the controller
        asks nothing of replicas that had no space until their broker returns."""
        agent = list(self.cluster.agents.values())[-1]
        if self.cluster.disk is None:
            raise Skipped(f"there is no small disk: {self.cluster.no_disk}")
        if agent.name in self.down or "disk" in self.down or not agent.is_running:
            raise Skipped(f"{agent.name} is down")
        record.victims = (f"the disk of {agent.name}",)
        self.down["disk"] = "disk"
        try:
            fill_up(self.cluster.disk)
            await asyncio.sleep(planned.duration_s)
        finally:
            (self.cluster.disk / "ballast").unlink(missing_ok=True)
            self.down.pop("disk", None)
        while agent.name in self.down:
            await asyncio.sleep(0.2)
        self.down[agent.name] = "agent"
        try:
            await agent.stop(20.0)
            await self._start(agent)
        finally:
            self.down.pop(agent.name, None)


def _spare(planned: PlannedFault, able: Sequence[Victim]) -> tuple[PlannedFault, Victim]:
    """Return who is hit, and how: a spared process is killed by no fault of its own."""
    others = [each for each in able if each.name not in SPARED]
    if planned.harm is not Harm.KILL or not others:
        others = list(able)
    victim = others[planned.choice % len(others)]
    if planned.harm is Harm.KILL and victim.name in SPARED:
        planned = replace(planned, harm=Harm.PAUSE, duration_s=SPARED_PAUSE_S)
    return planned, victim


async def _all_of(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Await all, and raise the first exception when all have ended: none may go on unseen."""
    outcomes = await asyncio.gather(*coroutines, return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
