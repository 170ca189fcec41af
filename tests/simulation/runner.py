"""One run: trouble for a while, then healing, then the bill.

The healing comes in two acts. First everything but one broker is mended and up again: what does not need that broker
has to be done although others wait (L3), and who waits has to name it (L1). Then that broker comes back, and nothing
may be left to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tests.simulation import convergence, silent_act
from tests.simulation.agents import AgentProcess
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import ControllerProcess
from tests.simulation.faults import Faults
from tests.simulation.ghosts import Ghosts
from tests.simulation.operators import Operators
from tests.simulation.world import Violation, World

MAX_EVENTS = 60_000
SILENCES = {"hush_agent": 6, "sulk_agent": 4, "stop_controller": 3}
HEALING_LIMIT_MS = 900_000


@dataclass(frozen=True, slots=True)
class Result:
    """What one seed showed. `violation` is None where all was well."""

    seed: int
    digest: str
    events: int
    topics: int
    deletions: int
    simulated_ms: int
    took_s: float
    violation: str | None
    lines: tuple[str, ...]
    """The last lines of the trace, or all of them."""


def simulate(seed: int, *, keep_trace: bool = False, planted: AbstractContextManager[object] | None = None) -> Result:
    """Run one seed; `planted` is a bug that is there for as long as the run takes."""
    started_s = time.perf_counter()
    world = World(seed, keep_trace=keep_trace)
    run = _Run(world)
    violation: str | None = None
    with planted if planted is not None else nullcontext():
        try:
            run.play()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001 - a rule that falls over is a finding like any other
            violation = f"fault: {type(error).__name__}: {error}"
    ledger = run.cluster.ledger
    return Result(
        seed,
        world.digest,
        world.events,
        len(ledger.all),
        sum(each.asked for each in ledger.all),
        world.now_ms,
        time.perf_counter() - started_s,
        violation,
        tuple(world.lines),
    )


class _Run:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = Cluster(world)
        self.operators = Operators(self.cluster)
        self.faults = Faults(self.cluster)

    def play(self) -> None:
        """All acts."""
        cluster, mix = self.cluster, self.cluster.mix
        processes: list[AgentProcess | ControllerProcess] = [*cluster.agents.values(), *cluster.controllers]
        for process in processes:
            self.world.after(self.world.between(0, 200), process.start)
        Ghosts(cluster).schedule()
        self.operators.begin()
        cluster.authority.plan()
        self._repeat(mix.operator_every_ms, self.operators.act, lambda: cluster.mix.operator_weights)
        self._repeat(mix.theme_every_ms, self.operators.act, lambda: cluster.mix.theme_weights)
        self._repeat(mix.fault_every_ms, self.faults.strike, lambda: cluster.mix.fault_weights)
        if mix.has_silences:
            self._repeat((100, 3_000), self.faults.strike, lambda: SILENCES if cluster.mix.fault_weights else {})
        self.world.run_until(self.world.now_ms + mix.chaos_ms, MAX_EVENTS)
        self.heal()

    def heal(self) -> None:
        """Stop all trouble and demand the promises."""
        cluster, world = self.cluster, self.world
        world.note("world", "heals")
        away = None
        if cluster.mix.one_broker_stays_away:
            away = list(cluster.agents)[world.between(0, len(cluster.agents) - 1)]
            cluster.kept_away[away] = None
            cluster.agents[away].crash(session_expires_after_ms=0)
        cluster.end_faults()
        self.operators.mend_all(paused=cluster.mix.stays_paused)
        for agent in cluster.agents.values():
            if (agent.disk.broken or agent.disk.refused_something) and agent.id != away:
                self.faults.mend(agent)
        processes: list[AgentProcess | ControllerProcess] = [*cluster.agents.values(), *cluster.controllers]
        for process in processes:
            if process.id != away:
                world.after(world.between(0, 1_000), process.start)
        cluster.authority.advise()
        if cluster.mix.has_silences and not (cluster.is_paused or cluster.authority.has_seen_higher_epoch):
            silent_act.play(cluster, self.operators, away)

        def restart_few() -> None:
            cluster.authority.restart_few_that_refuse()
            cluster.authority.restart_those_of_removed_states()
            cluster.authority.move_from_removed_states()

        # What waits for such a broker is tried again for as long as nobody restarts it: it is never quiet.
        world.after(HEALING_LIMIT_MS // 2, restart_few)
        world.run_until_quiet(HEALING_LIMIT_MS, MAX_EVENTS)
        if cluster.authority.restart_few_that_refuse():
            world.run_until_quiet(HEALING_LIMIT_MS, MAX_EVENTS)
        if cluster.is_paused:
            convergence.everything_marked_is_kept(cluster)
            self.operators.mend_all(paused=False)
            world.run_until_quiet(HEALING_LIMIT_MS, MAX_EVENTS)
        if away is not None:
            convergence.all_but_those_of(cluster, away)
            world.note("world", f"broker {away} comes back")
            cluster.kept_away.clear()
            cluster.agents[away].disk.repair()
            cluster.agents[away].start()
            world.run_until_quiet(HEALING_LIMIT_MS, MAX_EVENTS)
        convergence.everything(cluster, self.operators.removed_by_hand)

    def _repeat(
        self, every_ms: tuple[int, int], do: Callable[[str], None], weights: Callable[[], dict[str, int]]
    ) -> None:
        """Something drawn by weight, again and again, until the weights are gone."""

        def once() -> None:
            choices = weights()
            if choices:
                do(self.world.random.choices(list(choices), list(choices.values()))[0])
                self.world.after(self.world.between(*every_ms), once)

        self.world.after(self.world.between(*every_ms), once)
