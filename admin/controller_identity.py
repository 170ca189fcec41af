"""Which controller acts on what a command writes: Lethe's, Kafka's, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import active_controller
from lethe.protocol.zookeeper.znodes import MalformedZnode

NO_CONTROLLER_ACTIVE: Final = "no controller is active"


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """The active controller: its id (None: there is none), and whether it is known to be Lethe's. `problem` says why
    `/controller` cannot be understood; then the id is -1."""

    broker_id: int | None
    is_lethe: bool
    problem: str | None = None

    @property
    def is_absent(self) -> bool:
        return self.broker_id is None

    @property
    def is_kafka(self) -> bool:
        """True if `/controller` can be understood and is not known to be Lethe's."""
        return not (self.is_absent or self.is_lethe or self.problem is not None)

    @property
    def text(self) -> str:
        if self.broker_id is None:
            return NO_CONTROLLER_ACTIVE
        if self.problem is not None:
            return f"the active controller is unseen: {self.problem}"
        whose = "Lethe's" if self.is_lethe else "not Lethe's, as far as can be seen"
        return f"the active controller {self.broker_id} is {whose}"

    def note(self, effect: str) -> str:
        """Return a note that what was requested, `effect`, waits for a controller; empty where one is active."""
        return f"note: {NO_CONTROLLER_ACTIVE}; {effect} when there is one" if self.is_absent else ""


async def acting_controller(session: ZooKeeperSession) -> ControllerIdentity:
    """Return the active controller. An unreadable `/controller` counts as not Lethe's."""
    try:
        active = await active_controller(session)
    except MalformedZnode as malformed:
        return ControllerIdentity(-1, False, str(malformed))
    if active is None:
        return ControllerIdentity(None, False)
    return ControllerIdentity(int(active.znode.broker_id), active.znode.admin is not None)
