"""How long nobody had control, from what a stand-in ZooKeeper and stand-in agents show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tests.chaos.cluster import ChaosCluster
from tests.chaos.control import ControlWatch


class Agent:
    """Shows the epoch that it has adopted; None: it does not answer."""

    def __init__(self) -> None:
        self.epoch: int | None = 1

    async def get(self, path: str, limit_s: float) -> dict[str, int] | None:
        assert path == "/state"
        assert limit_s > 0
        return None if self.epoch is None else {"controller_epoch": self.epoch}


class Setting:
    """Controller 1001 has control under epoch 1, which three agents have adopted."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.shown: tuple[int | None, int] | None = (1001, 1)
        self.agents = [Agent() for _ in range(3)]
        cluster = cast(ChaosCluster, SimpleNamespace(agents=dict(enumerate(self.agents, 1))))
        setting = self

        class Watch(ControlWatch):
            async def _read(self) -> tuple[int | None, int] | None:
                return setting.shown

        self.watch: ControlWatch = Watch(cluster, lambda: self.now_s)

    async def look(self, at_s: float) -> None:
        self.now_s = at_s
        await self.watch._look()

    def adopt(self, *epochs: int | None) -> None:
        for agent, epoch in zip(self.agents, epochs, strict=True):
            agent.epoch = epoch


async def test_a_failover_lasts_until_most_agents_have_adopted_the_next_epoch() -> None:
    setting = Setting()
    await setting.look(10.0)
    setting.watch.fault_begins("SIGKILL of controller 1001")
    setting.shown = (1002, 2)
    setting.adopt(2, 1, 1)
    await setting.look(14.0)
    assert setting.watch.failovers == []
    setting.adopt(2, 2, None)
    await setting.look(15.5)
    (found,) = setting.watch.failovers
    assert (found.seconds, found.epoch, found.controller) == (5.5, 2, 1002)
    assert setting.watch.unended() == []


async def test_a_pause_that_the_same_controller_survives_is_no_failover() -> None:
    setting = Setting()
    await setting.look(10.0)
    setting.watch.fault_begins("SIGSTOP of controller 1001")
    await setting.look(12.0)
    assert setting.watch.unended() == ["SIGSTOP of controller 1001 at 10 s"]
    setting.watch.fault_ended("SIGSTOP of controller 1001")
    await setting.look(13.0)
    assert (setting.watch.failovers, setting.watch.unended()) == ([], [])


async def test_a_zookeeper_that_does_not_answer_ends_no_failover() -> None:
    setting = Setting()
    await setting.look(10.0)
    setting.watch.fault_begins("SIGKILL of controller 1001")
    setting.shown = None
    await setting.look(20.0)
    assert len(setting.watch.unended()) == 1
    assert not setting.watch.available
