"""Which controller acts on what a command writes: Lethe's, Kafka's, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import active_controller
from lethe.protocol.zookeeper.znodes import MalformedZnode
from lethe.survey.znodes import ZnodeUnreadable

NO_CONTROLLER_ACTIVE: Final = "no controller is active"


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """The active controller: its id (None: there is none, or it is unseen), and whether it is known to be Lethe's.
    `problem` says why `/controller` cannot be read or understood: then the controller is unseen."""

    broker_id: int | None
    is_lethe: bool
    problem: str | None = None

    @property
    def is_absent(self) -> bool:
        return self.broker_id is None and self.problem is None

    @property
    def is_kafka(self) -> bool:
        """True if `/controller` can be read and understood, and is not known to be Lethe's."""
        return not (self.is_absent or self.is_lethe or self.problem is not None)

    @property
    def may_be_lethe(self) -> bool | None:
        """`is_lethe`; None where the controller is unseen."""
        return None if self.problem is not None else self.is_lethe

    @property
    def text(self) -> str:
        if self.problem is not None:
            return f"the active controller is unseen: {self.problem}"
        if self.broker_id is None:
            return NO_CONTROLLER_ACTIVE
        whose = "Lethe's" if self.is_lethe else "not Lethe's, as far as can be seen"
        return f"the active controller {self.broker_id} is {whose}"

    def note(self, effect: str) -> str:
        """Return a note that what was requested, `effect`, waits for a controller, or may; empty where one is
        active."""
        return f"note: {self.text}; {effect} when there is one" if self.broker_id is None else ""


async def acting_controller(session: ZooKeeperSession) -> ControllerIdentity:
    """Return the active controller."""
    try:
        active = await active_controller(session)
    except (MalformedZnode, ZnodeUnreadable) as unseen:
        return ControllerIdentity(None, False, str(unseen))
    if active is None:
        return ControllerIdentity(None, False)
    return ControllerIdentity(int(active.znode.broker_id), active.znode.admin is not None)
