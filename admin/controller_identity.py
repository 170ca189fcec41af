"""Which controller acts on what a command writes: Lethe's, Kafka's, or none."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import active_controller
from lethe.protocol.zookeeper.znodes import MalformedZnode


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """The active controller: its id (None: there is none), and whether it is known to be Lethe's."""

    broker_id: int | None
    is_lethe: bool

    @property
    def text(self) -> str:
        if self.broker_id is None:
            return "no controller is active"
        whose = "Lethe's" if self.is_lethe else "not Lethe's, as far as can be seen"
        return f"the active controller {self.broker_id} is {whose}"


async def acting_controller(session: ZooKeeperSession) -> ControllerIdentity:
    """Return the active controller. An unreadable `/controller` counts as not Lethe's."""
    try:
        active = await active_controller(session)
    except MalformedZnode:
        return ControllerIdentity(-1, False)
    if active is None:
        return ControllerIdentity(None, False)
    return ControllerIdentity(int(active.znode.broker_id), active.znode.admin is not None)
