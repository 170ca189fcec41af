"""What is done to stand-in processes, which sleep: the harm, its label, and who is spared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lethe.cluster.daemons import DaemonFailed, Member
from lethe.cluster.process import ChildProcess
from tests.chaos.cluster import AGENT_IDS, CONTROLLER_IDS, KAFKA_IDS, ChaosCluster
from tests.chaos.control import ControlWatch
from tests.chaos.faults import Faults
from tests.chaos.schedule import Harm, PlannedFault, Target


class Sleeper(Member):
    """A process that only sleeps. `fails` keeps it from starting again, `hangs` from being ready."""

    def __init__(self, kind: str, number: int, directory: Path) -> None:
        process = ChildProcess(f"{kind} {number}", ["sleep", "600"], log_file=directory / f"{kind}-{number}.log")
        super().__init__(number, directory, process)
        self.pids: list[int | None] = []
        self.fails = False
        self.hangs = False

    def write_configuration(self) -> None:
        self.fails_now()

    def fails_now(self) -> None:
        if self.fails:
            raise DaemonFailed(f"{self.name} does not start")

    def launch(self) -> None:
        super().launch()
        self.pids.append(self.pid)

    async def is_ready(self) -> bool:
        return self.is_running and not self.hangs


class Setting:
    """Three controllers, of which 1001 is active, five agents and two Kafka brokers."""

    def __init__(self, directory: Path) -> None:
        self.controllers = {number: Sleeper("controller", number, directory) for number in CONTROLLER_IDS}
        self.agents = {number: Sleeper("broker", number, directory) for number in AGENT_IDS}
        self.kafka = {number: Sleeper("broker", number, directory) for number in KAFKA_IDS}
        self.members: Mapping[int, Sleeper] = {**self.controllers, **self.agents, **self.kafka}
        stand_in = SimpleNamespace(
            controllers=self.controllers,
            agents=self.agents,
            kafka=self.kafka,
            daemons=(*self.controllers.values(), *self.agents.values()),
            set_aside=[],
            ended=[],
        )
        cluster = cast(ChaosCluster, stand_in)
        self.control = ControlWatch(cluster, lambda: 0.0, holder=CONTROLLER_IDS[0], epoch=1)
        self.faults = Faults(cluster, self.control, asyncio.get_running_loop().time)

    async def hit(self, target: Target, harm: Harm, choice: int = 0) -> None:
        at_s = asyncio.get_running_loop().time()
        await self.faults.run([PlannedFault(at_s, target, harm, choice, 0.0)])

    def restarted(self) -> list[int]:
        return [number for number, each in self.members.items() if len(each.pids) > 1]


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    made = Setting(tmp_path)
    try:
        for each in made.members.values():
            await each.start()
        yield made
    finally:
        for each in made.members.values():
            each.process.close()


async def test_a_kill_of_all_controllers_kills_the_spared_one_too(setting: Setting) -> None:
    await setting.hit(Target.CONTROLLERS, Harm.KILL)
    assert setting.restarted() == list(CONTROLLER_IDS)
    assert setting.faults.by_label() == {"SIGKILL all controllers": 1}
    (performed,) = setting.faults.performed
    assert performed.victims == tuple(f"controller {number}" for number in CONTROLLER_IDS)
    assert len(setting.control.unended()) == 1, "the active one was hit"


@pytest.mark.parametrize("choice", range(len(AGENT_IDS)))
async def test_a_kill_of_one_agent_spares_the_first(setting: Setting, choice: int) -> None:
    await setting.hit(Target.AGENT, Harm.KILL, choice)
    (killed,) = setting.restarted()
    assert killed != AGENT_IDS[0]
    assert setting.faults.by_label() == {"SIGKILL an agent": 1}


async def test_the_active_controller_is_paused_where_it_is_spared_and_the_label_says_so(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.chaos.faults.SPARED_PAUSE_S", 0.0)
    await setting.hit(Target.ACTIVE, Harm.KILL)
    assert setting.restarted() == []
    assert setting.faults.by_label() == {"SIGSTOP the active controller": 1}


async def test_a_fault_with_a_problem_is_not_performed(setting: Setting) -> None:
    setting.agents[2].fails = True
    await setting.hit(Target.AGENT, Harm.KILL, 0)
    (record,) = setting.faults.performed
    assert record.problem is not None
    assert "does not start" in record.problem
    assert setting.faults.by_label() == {}


@pytest.mark.parametrize(
    "target, victim, is_lethe",
    [(Target.CONTROLLER, 1002, True), (Target.AGENT, 2, True), (Target.KAFKA, KAFKA_IDS[0], False)],
)
async def test_a_process_of_lethe_that_runs_and_is_never_ready_is_a_failed_start(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, target: Target, victim: int, is_lethe: bool
) -> None:
    monkeypatch.setattr("tests.chaos.faults.START_LIMIT_S", 0.0)
    setting.members[victim].hangs = True
    await setting.hit(target, Harm.KILL)
    assert setting.members[victim].is_running
    assert [each.problem is not None for each in setting.faults.performed] == [True]
    name = setting.members[victim].name
    assert [each.startswith(f"{name} is not ready") for each in setting.faults.failed_starts] == [True] * is_lethe


async def test_where_nobody_can_be_hit_the_fault_is_skipped(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.faults.WAIT_S", 0.0)
    setting.faults.down["controller 1002"] = "controller"
    await setting.hit(Target.CONTROLLERS, Harm.KILL)
    (record,) = setting.faults.performed
    assert record.skipped == "all controllers: not all are up now"
    assert (setting.restarted(), setting.faults.by_label()) == ([], {})
