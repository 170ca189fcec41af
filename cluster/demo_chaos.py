"""Chaos: a broker and then the active controller are killed with SIGKILL while topics are being deleted.

Observations decide the moments, never the clock:

    pause the broker         before the topics are marked; otherwise the deletion would end too soon
    kill the broker          all topics without replicas on it are acknowledged, all others wait for it
    kill the controller      it reports that those others wait for the broker
    start the broker again   the new controller reports the same
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lethe.cluster.daemons import ControllerDaemon, Member
from lethe.cluster.demo import DemoRun, note_waits, until
from lethe.cluster.demo_totals import ClusterChange
from lethe.cluster.demo_waits import WaitCause, WaitLog
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted

GONE = CauseKind.BROKER_TO_RETURN.name
UNANSWERED = CauseKind.ANSWER.name


class Chaos:
    """An extension of the demo: kills a broker and the active controller. `at_worst` runs while both are dead and the
    successor waits for the broker."""

    def __init__(self, at_worst: Callable[[DemoRun], Awaitable[None]] | None = None) -> None:
        self._at_worst: Final = at_worst

    async def before(self, demo: DemoRun) -> None:
        """Pause the last broker, and start to record why topics wait."""
        demo.waits = WaitLog()
        victim = demo.cluster.all_brokers[-1]
        victim.pause()
        _tell(demo, f"{victim.name} is paused, so that it can be killed in the middle of its work")

    async def during(self, demo: DemoRun) -> None:
        """Kill both, wait for the successor, start the broker again."""
        victim = demo.cluster.all_brokers[-1]
        concerned = _topics_on(demo, victim.id)
        others = [name for name in demo.names if name not in concerned]
        demo.untouched = len(others)
        await _until_half_done(demo, victim, concerned, others)
        await victim.kill()
        counts = (
            f"{counted(len(others), 'topic is', 'topics are')} acknowledged, "
            f"{counted(len(concerned), 'waits', 'wait')} for its answer"
        )
        _tell(demo, f"kill -9 of {victim.name}: {counts}")

        active = await _until_wait_reported(demo, victim.id, concerned)
        await _until_removed(demo, others)
        await active.kill()
        _tell(demo, f"kill -9 of {active.name}, the active controller")
        await _until_wait_reported(demo, victim.id, concerned)
        if self._at_worst is not None:
            await self._at_worst(demo)
        await victim.start(demo.options.limit_s)
        _tell(demo, f"{victim.name} is back")


async def _until_half_done(demo: DemoRun, victim: Member, concerned: Sequence[str], others: Sequence[str]) -> None:
    async def half_done() -> bool:
        await note_waits(demo)
        waiting = demo.waits.topics if demo.waits is not None else {}
        # On a slow machine the paused broker's session may have timed out already.
        causes = {WaitCause(UNANSWERED, victim.id), WaitCause(GONE, victim.id)}
        waits_for_it = all(causes.intersection(waiting.get(topic, ())) for topic in concerned)
        return waits_for_it and len(demo.totals.reached("acknowledged", others)) == len(others)

    await until(demo, half_done, f"the deletion comes to wait for {victim.name}")


async def _until_wait_reported(demo: DemoRun, victim: int, topics: Sequence[str]) -> ControllerDaemon:
    """Return the active controller once it has reported that all these topics wait for the broker's return."""
    teller: list[ControllerDaemon] = []

    async def told() -> bool:
        teller[:] = [await demo.cluster.active_controller(demo.options.limit_s)]
        await note_waits(demo)
        waiting = demo.waits.topics if demo.waits is not None else {}
        seen = [waiting.get(topic, {}).get(WaitCause(GONE, victim)) for topic in topics]
        return all(each is not None and teller[0].id in each.told_by for each in seen)

    await until(demo, told, f"a controller says that topics wait for broker {victim}")
    _tell(
        demo,
        f"{teller[0].name} says that {counted(len(topics), 'topic waits', 'topics wait')} "
        f"for broker {victim} to return",
    )
    return teller[0]


async def _until_removed(demo: DemoRun, topics: Sequence[str]) -> None:
    async def removed() -> bool:
        await note_waits(demo)
        return len(demo.totals.reached("removed", topics)) == len(topics)

    await until(demo, removed, f"the other {counted(len(topics), 'topic is', 'topics are')} gone")


def _topics_on(demo: DemoRun, broker: int) -> list[str]:
    return [plan.name for plan in demo.plans if any(broker in replicas for replicas in plan.assignment)]


def _tell(demo: DemoRun, text: str) -> None:
    demo.watcher.note(text)
    demo.totals.happenings.append(ClusterChange(time.time_ns() // 1_000_000, text))
