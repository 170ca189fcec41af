"""Tasks and continuations for a controller that is listed among the brokers: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.agenda_partitions import Partitions
from lethe.protocol.vocabulary import Broker, ReplicaAssignment


@dataclass(frozen=True, slots=True)
class ListResidents:
    """Read the ids under which controllers have been listed among the brokers, and add this controller's own."""


@dataclass(frozen=True, slots=True)
class EvictReplicas:
    """Move replicas that were assigned to controllers to brokers: of these topics, or all (None).

    `loading`: only assignments that can be rewritten before they are announced to brokers."""

    topics: tuple[str, ...] | None = None
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ServePartitions:
    """Bring partitions into service that have just been added to topics in service."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Register:
    """Register this controller in `/brokers/ids` as in UpdateMetadata, if brokers look for it there."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove the registration: the tenure has ended, and the session has not."""


ResidenceTask = ListResidents | EvictReplicas | ServePartitions | Register | Unregister

# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResidentsListed:
    pass


@dataclass(frozen=True, slots=True)
class ResidentNoted:
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


ResidenceReadContinuation = ResidentsListed | RegistrationRead
ResidenceWriteContinuation = ResidentNoted | ReplicasEvicted | RegistrationWritten | RegistrationRemoved
