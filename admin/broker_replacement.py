"""Whether an empty broker may take the id of a broker, as far as ZooKeeper and Lethe's controller tell.

of the broker                                                                     an empty one may take its id
--------------------------------------------------------------------------------  -----------------------------------
a living partition, or one of a topic in the trash, is in sync on no other broker  no
a topic, a state, the fate of a marked topic or the trash is not known             not known
it is registered, or its registration cannot be understood                         not known: look once it is stopped
none of these                                                                      yes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lethe.admin.broker_loads import BrokerLoad, ClusterLoad
from lethe.protocol.counting import listed

LOOK_AGAIN: Final = "no living partition depends on its disks; look again once it is stopped"


@dataclass(frozen=True, slots=True)
class EmptyBrokerVerdict:
    """`is_allowed` None: not known, because of `unknown`. `depends`: what depends on the broker's disks, or may."""

    is_allowed: bool | None
    depends: tuple[str, ...] = ()
    unknown: str | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not allowed, or not known; empty where it is allowed."""
        return (*self.depends, *(() if self.unknown is None else (self.unknown,)))


def empty_broker_verdict(seen: ClusterLoad, number: int) -> EmptyBrokerVerdict:
    """Return whether an empty broker may take this id."""
    load = seen.loads.get(number) or BrokerLoad(number)
    depends = tuple(_depends(seen, load))
    if load.only_here or seen.only_here_in_trash(number):
        return EmptyBrokerVerdict(False, depends)
    if topics := _unknown(seen, load):
        return EmptyBrokerVerdict(None, depends, f"see topics {listed(topics)}")
    if seen.trash_unseen is not None:
        return EmptyBrokerVerdict(None, depends, str(seen.trash_unseen))
    if number in seen.views.brokers or number in seen.unreadable:
        return EmptyBrokerVerdict(None, depends, LOOK_AGAIN)
    return EmptyBrokerVerdict(True, depends)


def _depends(seen: ClusterLoad, load: BrokerLoad) -> Iterator[str]:
    if load.only_here:
        yield f"in sync on no other live broker: {listed(load.only_here)}"
    if trashed := seen.only_here_in_trash(load.broker):
        yield f"in the trash, and in sync on no other live broker: {listed(trashed)}"
    if load.perhaps_only_here:
        yield (
            "marked, in sync on no other live broker, and whether the deletion has begun is not known: "
            f"{listed(load.perhaps_only_here)}"
        )


def _unknown(seen: ClusterLoad, load: BrokerLoad) -> list[str]:
    """Return the topics of which it is not known whether they depend on its disks."""
    unseen = {partition.topic for partition in (*load.unseen, *load.perhaps_only_here)}
    unread = [name for name in seen.views.there.names if name in seen.views.problems or name in unseen]
    return [*unread, *seen.unread_in_trash]
