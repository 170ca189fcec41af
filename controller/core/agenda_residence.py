"""What is left to do about being taken for a broker, and what the results are for, as values: see `agenda`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.agenda_partitions import Partitions
from lethe.protocol.vocabulary import Broker, ReplicaAssignment


@dataclass(frozen=True, slots=True)
class ListResidents:
    """Read under which ids controllers have been listed among the brokers, and add our own."""


@dataclass(frozen=True, slots=True)
class EvictReplicas:
    """Move replicas that were placed on controllers to brokers: of these topics, of all where None is given.

    `loading`: only what can be rewritten before anybody is told of it."""

    topics: tuple[str, ...] | None = None
    loading: bool = False


@dataclass(frozen=True, slots=True)
class ServePartitions:
    """Bring partitions into service that have just been added to topics in service."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Register:
    """Have `/brokers/ids` show us as UpdateMetadata does, where brokers look for their controller there."""


@dataclass(frozen=True, slots=True)
class Unregister:
    """Our tenure is over and our session is not: take our registration away."""


ResidenceTask = ListResidents | EvictReplicas | ServePartitions | Register | Unregister

# --- what results are for ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResidentsListed:
    pass


@dataclass(frozen=True, slots=True)
class ResidentNoted:
    pass


@dataclass(frozen=True, slots=True)
class ReplicasEvicted:
    """After writing these topics' znodes without controllers; one tuple of (partition, assignment) for each topic."""

    topics: tuple[str, ...]
    assignments: tuple[tuple[tuple[int, ReplicaAssignment], ...], ...]
    loading: bool


@dataclass(frozen=True, slots=True)
class RegistrationWritten:
    """`wanted`: what the registration says now; None: it is gone."""

    wanted: Broker | None


@dataclass(frozen=True, slots=True)
class RegistrationRead:
    """After finding it otherwise than expected."""


@dataclass(frozen=True, slots=True)
class RegistrationRemoved:
    pass


ResidenceReadContinuation = ResidentsListed | RegistrationRead
ResidenceWriteContinuation = ResidentNoted | ReplicasEvicted | RegistrationWritten | RegistrationRemoved
