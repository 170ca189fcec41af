"""A large cluster without faults: `python -m tests.simulation.big --agents 1000 --topics 20000 --partitions 50`.

The same cores, agents, ZooKeeper model and checkers as with a seed, in five acts: start, creation of all topics, the
end of the active controller, the end of a broker and its return, deletion of all topics. After the last act every
promise of `convergence` must hold; after the others those about caches and leaders do.

What is different: nothing is noted in the trace, and the checks of a controller's whole memory come at growing
distances (`ControllerProcess.may_look_at_all`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lethe.admin.topic_plans import TopicPlan, creation_operations, deletion_operation
from lethe.controller.core.config import DEFAULT_LIST_PAUSE_US
from lethe.protocol.vocabulary import TopicId
from tests.simulation import convergence
from tests.simulation.agents import AgentProcess
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import ControllerProcess
from tests.simulation.mix import draw, without_faults
from tests.simulation.world import Violation, World, agent_ids

REPLICATION_FACTOR = 3
LIMIT_MS = 24 * 3_600_000
MAX_EVENTS = 1_000_000_000
SHOWN_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Act:
    """What one act took: events of the world, steps of all controllers, seconds of the world and of this machine."""

    name: str
    events: int
    steps: int
    simulated_s: float
    took_s: float


class Big:
    """One run."""

    def __init__(self, agents: int, topics: int, partitions: int, tell: Callable[[str, int], None]) -> None:
        self.world = World(1, traced=False)
        mix = without_faults(draw(Random(1)))
        self.cluster = Cluster(
            self.world,
            replace(
                mix,
                agents=agents,
                controllers=2,
                log_dirs=1,
                network_ms=(0, 2),
                delete_delay_ms=0,
                list_pause_us=DEFAULT_LIST_PAUSE_US,
            ),
        )
        ids = agent_ids(agents)
        self.plans = [_plan(number, partitions, ids) for number in range(topics)]
        self.acts: list[Act] = []
        self._tell = tell
        judge = self.world.after_event

        def count() -> None:
            judge()
            if self.world.events % SHOWN_EVERY == 0:
                tell("", self.world.events)

        self.world.after_event = count

    def play(self) -> None:
        """All acts. Raises Violation."""
        self._act("start", self._start)
        self._act("creation", self._create)
        self._act("failover", self._fail_over)
        self._act("broker failure", self._lose_broker)
        self._act("broker's return", lambda: self._last_agent.start())
        self._act("deletion", self._delete)
        convergence.everything(self.cluster, ())

    def _act(self, name: str, do: Callable[[], None]) -> None:
        self._tell(name, self.world.events)
        world = self.world
        events, steps, now_ms, began_s = world.events, self._steps(), world.now_ms, time.perf_counter()
        do()
        world.run_until_quiet(LIMIT_MS, MAX_EVENTS)
        convergence.l1_everybody_is_led(self.cluster)
        took_s = time.perf_counter() - began_s
        simulated_s = (world.now_ms - now_ms) / 1000
        self.acts.append(Act(name, world.events - events, self._steps() - steps, simulated_s, round(took_s, 1)))

    def _steps(self) -> int:
        return sum(controller.steps for controller in self.cluster.controllers)

    @property
    def _last_agent(self) -> AgentProcess:
        return list(self.cluster.agents.values())[-1]

    def _start(self) -> None:
        processes: list[AgentProcess | ControllerProcess] = [*self.cluster.agents.values(), *self.cluster.controllers]
        for process in processes:
            self.world.after(self.world.between(0, 200), process.start)

    def _create(self) -> None:
        for plan in self.plans:
            assert self.cluster.ensemble.operate(*creation_operations(plan, config_exists=False))

    def _fail_over(self) -> None:
        self.cluster.restart_later(convergence.active_controller(self.cluster))

    def _lose_broker(self) -> None:
        self._last_agent.crash(session_expires_after_ms=0)

    def _delete(self) -> None:
        for plan in self.plans:
            assert self.cluster.ensemble.operate(deletion_operation(plan.name))


def _plan(number: int, partitions: int, agents: Sequence[int]) -> TopicPlan:
    rows = (_replicas(number * partitions + partition, agents) for partition in range(partitions))
    return TopicPlan(f"topic-{number:05d}", TopicId(uuid.UUID(int=number + (1 << 64))), tuple(rows))


def _replicas(number: int, agents: Sequence[int]) -> tuple[int, ...]:
    return tuple(agents[(number + each) % len(agents)] for each in range(REPLICATION_FACTOR))


def main(arguments: list[str] | None = None) -> int:
    """0: all is well; 1: a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.big")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--topics", type=int, default=400)
    parser.add_argument("--partitions", type=int, default=50, help="of each topic")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.agents < REPLICATION_FACTOR:
        parser.error(f"--agents: at least {REPLICATION_FACTOR}, the replicas of a partition")
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:,} events"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("start", total=None)

        def tell(act: str, events: int) -> None:
            progress.update(task, completed=events, description=act or progress.tasks[task].description)

        run = Big(options.agents, options.topics, options.partitions, tell)
        problem = None
        try:
            run.play()
        except Violation as found:
            problem = str(found)
    sys.stdout.writelines(f"{line}\n" for line in _report(run, problem, as_json=options.json))
    return 0 if problem is None else 1


def _report(run: Big, problem: str | None, *, as_json: bool) -> Iterator[str]:
    if as_json:
        yield json.dumps({"acts": [asdict(act) for act in run.acts], "violation": problem}, indent=1)
        return
    yield f"{'act':<16}{'events':>12}{'steps':>10}{'simulated s':>14}{'took s':>10}"
    for act in run.acts:
        yield f"{act.name:<16}{act.events:>12,}{act.steps:>10,}{act.simulated_s:>14,.1f}{act.took_s:>10,.1f}"
    yield "every promise holds" if problem is None else problem


if __name__ == "__main__":
    sys.exit(main())
