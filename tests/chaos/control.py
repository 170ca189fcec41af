"""Who has control, seen from outside, and how long nobody had it.

Control is available once a controller holds `/controller` under an epoch that more than half of the agents that answer
have adopted from its requests. A failover lasts from the fault that hit the active controller until control is
available under a higher epoch.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.cluster import ChaosCluster
from tests.chaos.ensemble import HOST
from tests.chaos.history import CONTROLLER, CONTROLLER_EPOCH
from tests.chaos.raw_zookeeper import RawZooKeeper, ReadFailed

POLL_S: Final = 0.1
ANSWER_LIMIT_S: Final = 0.7


@dataclass(frozen=True, slots=True)
class Failover:
    """One fault that hit the active controller, and the seconds until the next one was active and announced.

    `others` is the number of further faults of controllers and ZooKeeper servers meanwhile.
    """

    fault: str
    at_s: float
    seconds: float
    epoch: int
    controller: int
    others: int = 0


@dataclass(slots=True)
class _Pending:
    fault: str
    began: float
    epoch: int
    may_pass: bool = False
    """The fault is over, so the same controller may go on."""


@dataclass(slots=True)
class ControlWatch:
    """Polls until it is cancelled. `clock` returns the seconds of the run."""

    cluster: ChaosCluster
    clock: Callable[[], float]
    holder: int | None = None
    epoch: int = 0
    available: bool = False
    failovers: list[Failover] = field(default_factory=list)
    _pending: list[_Pending] = field(default_factory=list)
    _lost: float | None = None
    """When the controller of the present epoch was first seen to have gone."""
    _settled: int = 0
    """The newest epoch under which control was available."""
    _reader: RawZooKeeper | None = None
    _server: int = 0

    # --- faults ---------------------------------------------------------------------------------------------------

    def fault_begins(self, fault: str) -> None:
        """A fault hits the active controller now."""
        self._pending.append(_Pending(fault, self.clock(), self.epoch))
        self.available = False

    def fault_ended(self, fault: str) -> None:
        """That fault is over: the same controller may still have control, which is no failover."""
        for each in self._pending:
            if each.fault == fault:
                each.may_pass = True

    def unended(self) -> list[str]:
        """Faults of the active controller after which no other has taken control, nor the same one gone on."""
        return [f"{each.fault} at {each.began:.0f} s" for each in self._pending]

    # --- looking --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look again and again."""
        try:
            while True:
                began = time.monotonic()
                await self._look()
                await asyncio.sleep(max(0.0, POLL_S - (time.monotonic() - began)))
        finally:
            self._drop()

    async def _look(self) -> None:
        found = await self._read()
        if found is None:
            return
        if found != (self.holder, self.epoch):
            if self.available and self._lost is None:
                self._lost = self.clock()
            self.available = False
        self.holder, self.epoch = found
        if self.holder is None or (self.available and not self._pending):
            return
        if await self._is_announced(self.epoch):
            self.available = True
            self._settle()

    def _settle(self) -> None:
        now = self.clock()
        if self._lost is not None and not self._pending and self.epoch > self._settled:
            # ZooKeeper's own faults cost sessions, too.
            self._pending.append(_Pending(f"no fault of the controller itself at {self._lost:.0f} s", self._lost, 0))
        self._lost, self._settled = None, self.epoch
        for each in list(self._pending):
            if self.epoch > each.epoch:
                assert self.holder is not None
                self.failovers.append(
                    Failover(each.fault, round(each.began, 1), round(now - each.began, 2), self.epoch, self.holder)
                )
                self._pending.remove(each)
            elif each.may_pass and now - each.began > 1.0:
                self._pending.remove(each)

    async def _read(self) -> tuple[int | None, int] | None:
        """Return the holder of `/controller`, and the epoch; None where ZooKeeper does not tell."""
        try:
            if self._reader is None:
                server = self.cluster.ensemble.servers[self._server]
                self._reader = RawZooKeeper(HOST, server.port, limit_s=1.5)
                await self._reader.connect()
            holder, epoch = await self._reader.get(CONTROLLER), await self._reader.get(CONTROLLER_EPOCH)
        except (ReadFailed, OSError):
            self._drop()
            self._server = (self._server + 1) % len(self.cluster.ensemble.servers)
            return None
        number = None if holder is None else int(json.loads(holder)["brokerid"])
        return number, 0 if epoch is None else int(epoch)

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def _is_announced(self, epoch: int) -> bool:
        states = await asyncio.gather(*(agent.get("/state", ANSWER_LIMIT_S) for agent in self.cluster.agents.values()))
        epochs = [state.get("controller_epoch") for state in states if state is not None]
        return 2 * epochs.count(epoch) > len(epochs) > 0


@dataclass(frozen=True, slots=True)
class Unavailability:
    """Seconds without control per failover. `worst_alone_s` is the worst without another fault meanwhile."""

    failovers: int
    median_s: float | None
    worst_s: float | None
    worst_alone_s: float | None


def unavailability(failovers: list[Failover]) -> Unavailability:
    """Return the number, median and worst."""
    seconds = [each.seconds for each in failovers]
    if not seconds:
        return Unavailability(0, None, None, None)
    alone = max((each.seconds for each in failovers if not each.others), default=None)
    return Unavailability(len(seconds), round(statistics.median(seconds), 2), max(seconds), alone)
