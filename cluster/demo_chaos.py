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
from lethe.cluster.demo import Story, note_waits, until
from lethe.cluster.demo_ledger import Happening
from lethe.cluster.demo_waits import Cause, WaitLog
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted

GONE = CauseKind.BROKER_TO_RETURN.name
UNANSWERED = CauseKind.ANSWER.name


class Chaos:
    """A chapter of the demo's story. `at_worst` runs while both are dead and the successor waits for the broker."""

    def __init__(self, at_worst: Callable[[Story], Awaitable[None]] | None = None) -> None:
        self._at_worst: Final = at_worst

    async def before(self, story: Story) -> None:
        """Pause the last broker, and start to record why topics wait."""
        story.waits = WaitLog()
        victim = story.cluster.all_brokers[-1]
        victim.pause()
        _tell(story, f"{victim.name} is paused, so that it can be killed in the middle of its work")

    async def during(self, story: Story) -> None:
        """Kill both, wait for the successor, start the broker again."""
        victim = story.cluster.all_brokers[-1]
        concerned = _topics_on(story, victim.id)
        others = [name for name in story.names if name not in concerned]
        story.untouched = len(others)
        await _until_half_done(story, victim, concerned, others)
        await victim.kill()
        counts = (
            f"{counted(len(others), 'topic is', 'topics are')} acknowledged, "
            f"{counted(len(concerned), 'waits', 'wait')} for its answer"
        )
        _tell(story, f"kill -9 of {victim.name}: {counts}")

        active = await _until_told(story, victim.id, concerned)
        await _until_removed(story, others)
        await active.kill()
        _tell(story, f"kill -9 of {active.name}, the active controller")
        await _until_told(story, victim.id, concerned)
        if self._at_worst is not None:
            await self._at_worst(story)
        await victim.start(story.options.limit_s)
        _tell(story, f"{victim.name} is back")


async def _until_half_done(story: Story, victim: Member, concerned: Sequence[str], others: Sequence[str]) -> None:
    async def half_done() -> bool:
        await note_waits(story)
        waiting = story.waits.topics if story.waits is not None else {}
        # On a slow machine the paused broker's session may have timed out already.
        causes = {Cause(UNANSWERED, victim.id), Cause(GONE, victim.id)}
        waits_for_it = all(causes.intersection(waiting.get(topic, ())) for topic in concerned)
        return waits_for_it and len(story.ledger.reached("acknowledged", others)) == len(others)

    await until(story, half_done, f"the deletion comes to wait for {victim.name}")


async def _until_told(story: Story, victim: int, topics: Sequence[str]) -> ControllerDaemon:
    """Return the active controller once it has reported that all these topics wait for the broker's return."""
    teller: list[ControllerDaemon] = []

    async def told() -> bool:
        teller[:] = [await story.cluster.active_controller(story.options.limit_s)]
        await note_waits(story)
        waiting = story.waits.topics if story.waits is not None else {}
        seen = [waiting.get(topic, {}).get(Cause(GONE, victim)) for topic in topics]
        return all(each is not None and teller[0].id in each.told_by for each in seen)

    await until(story, told, f"a controller says that topics wait for broker {victim}")
    _tell(
        story,
        f"{teller[0].name} says that {counted(len(topics), 'topic waits', 'topics wait')} "
        f"for broker {victim} to return",
    )
    return teller[0]


async def _until_removed(story: Story, topics: Sequence[str]) -> None:
    async def removed() -> bool:
        await note_waits(story)
        return len(story.ledger.reached("removed", topics)) == len(topics)

    await until(story, removed, f"the other {counted(len(topics), 'topic is', 'topics are')} gone")


def _topics_on(story: Story, broker: int) -> list[str]:
    return [plan.name for plan in story.plans if any(broker in replicas for replicas in plan.assignment)]


def _tell(story: Story, text: str) -> None:
    story.watcher.note(text)
    story.ledger.happenings.append(Happening(time.time_ns() // 1_000_000, text))
