"""What keeps Lethe's controller from deleting, for commands that order, resume or await deletions.

Only the active controller can say whether it holds deletions back. Where it does not answer, the result says so, and
the brokers' configuration is examined from outside.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import ControllerIdentity, acting_controller
from lethe.admin.controllers import ask_active_controller
from lethe.protocol.causes import CauseKind
from lethe.survey.causes import ObservedCause, sentence, unblock
from lethe.survey.evidence import ControllerReport
from lethe.survey.examine import read_holds

EVERY_TOPIC = "every marked topic"


@dataclass(frozen=True, slots=True)
class HoldCauses:
    """The causes; `unasked` says why a controller that may hold deletions back did not answer, None where it did."""

    causes: tuple[ObservedCause, ...] = ()
    unasked: str | None = None

    def lines(self) -> tuple[str, ...]:
        """Return lines `every marked topic waits for …: what helps`."""
        now_ms = time.time_ns() // 1_000_000
        said = (f"{sentence(each, EVERY_TOPIC, now_ms)}: {unblock(each, EVERY_TOPIC)}." for each in self.causes)
        if self.unasked is None:
            return tuple(said)
        return (*said, f"Whether the controller itself holds deletions back is not known: {self.unasked}.")


async def held_back(session: ZooKeeperSession) -> HoldCauses:
    """Return what holds every deletion back now, other than a pause that was ordered."""
    acting = await acting_controller(session)
    told = ControllerReport(problem=acting.text)
    if acting.is_lethe:
        told = await ask_active_controller(session, None, at_most=0)
    if told.is_known:
        pauses = (pause for pause in told.pauses if pause.kind is not CauseKind.RESUMPTION)
        return HoldCauses(
            tuple(ObservedCause(p.kind, path=p.path, since_ms=p.since_ms, detail=p.reason) for p in pauses)
        )
    if acting.broker_id is not None and not acting.is_lethe:
        return HoldCauses()
    return HoldCauses(await _from_outside(session, acting), told.problem if acting.is_lethe else None)


async def _from_outside(session: ZooKeeperSession, acting: ControllerIdentity) -> tuple[ObservedCause, ...]:
    unreadable = (await read_holds(session, acting.broker_id)).unreadable
    if unreadable is None:
        return ()
    return (ObservedCause(CauseKind.CONFIGURATION_UNREAD, path=unreadable.path, detail=unreadable.why),)
