"""Tasks and continuations for an advertised controller: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.partition_sets import PartitionColumns
from lethe.protocol.vocabulary import Broker, ReplicaAssignment


@dataclass(frozen=True, slots=True)
class ListAdvertisedControllers:
    """Read the ids under which controllers have been listed among the brokers, and add this controller's own."""


@dataclass(frozen=True, slots=True)
class EvictReplicas:
    """Move replicas that were assigned to controllers to brokers: of these topics, or all (None).

    `loading`: only assignments that can be rewritten before they are announced to brokers. `states_read`: the states of
    these topics were read for it."""

    topics: tuple[str, ...] | None = None
    loading: bool = False
    states_read: bool = False


@dataclass(frozen=True, slots=True)
class ServePartitions:
    """Bring partitions into service that have just been added to topics in service."""

    partitions: PartitionColumns


@dataclass(frozen=True, slots=True)
class Register:
    """Register this controller in `/brokers/ids` as in UpdateMetadata, if brokers look for it there."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove the registration: the term has ended, and the session has not."""


AdvertisingTask = ListAdvertisedControllers | EvictReplicas | ServePartitions | Register | Unregister

# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdvertisedControllersListed:
    pass


@dataclass(frozen=True, slots=True)
class OwnIdStored:
    pass


@dataclass(frozen=True, slots=True)
class ReplicasEvicted:
    """After writing these topics' assignments without controllers: (partition, assignment) pairs for each topic."""

    topics: tuple[str, ...]
    assignments: tuple[tuple[tuple[int, ReplicaAssignment], ...], ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class RegistrationWritten:
    """`wanted`: the registration as written; None: it was removed."""

    wanted: Broker | None


@dataclass(frozen=True, slots=True)
class RegistrationRead:
    """After reading the registration, which differed from the expected one."""


@dataclass(frozen=True, slots=True)
class RegistrationRemoved:
    pass


AdvertisingReadContinuation = AdvertisedControllersListed | RegistrationRead
AdvertisingWriteContinuation = OwnIdStored | ReplicasEvicted | RegistrationWritten | RegistrationRemoved
