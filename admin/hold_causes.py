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
from lethe.survey.evidence import ControllerReport, DeletionHolds
from lethe.survey.examine import read_holds

EVERY_TOPIC = "every marked topic"


@dataclass(frozen=True, slots=True)
class HoldCauses:
    """The causes; `unasked` says why a controller that may hold deletions back did not answer, None where it did."""

    acting: ControllerIdentity
    causes: tuple[ObservedCause, ...] = ()
    unasked: str | None = None
    is_deleting: bool = False
    """True if Lethe's controller answered that it deletes. Kafka's controller cannot be asked."""

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
    if acting.is_kafka:
        return HoldCauses(acting)
    told = ControllerReport(problem=acting.text)
    if acting.is_lethe:
        told = await ask_active_controller(session, None, at_most=0)
    return hold_causes(acting, told, await read_holds(session, acting.broker_id))


def hold_causes(acting: ControllerIdentity, told: ControllerReport, holds: DeletionHolds) -> HoldCauses:
    """Return the causes by the answer of the controller; without an answer, by ZooKeeper."""
    configured = holds.delete_topic_enable
    is_disabled = configured is not None and not configured.value
    if told.is_known and told.deletion_enabled is not None:
        is_disabled = not told.deletion_enabled
    causes = []
    if acting.is_absent:
        causes.append(ObservedCause(CauseKind.NO_CONTROLLER))
    if told.is_known:
        pauses = (pause for pause in told.pauses if pause.kind is not CauseKind.RESUMPTION)
        causes += [ObservedCause(p.kind, path=p.path, since_ms=p.since_ms, detail=p.reason) for p in pauses]
    elif holds.unreadable is not None:
        causes.append(
            ObservedCause(CauseKind.CONFIGURATION_UNREAD, path=holds.unreadable.path, detail=holds.unreadable.why)
        )
    if is_disabled:
        where = configured.path if configured is not None and not configured.value else None
        causes.append(ObservedCause(CauseKind.DISABLED, path=where))
    unasked = None if told.is_known or acting.is_absent else told.problem
    if told.is_known and told.deletion_enabled is None and not causes:
        unasked = "its answer lacks delete.topic.enable"
    return HoldCauses(acting, tuple(causes), unasked, told.is_known and not causes and unasked is None)
