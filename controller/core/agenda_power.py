"""Tasks and continuations of control itself: may it be taken, and must the epoch be raised. See `agenda`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.vocabulary import Broker, BrokerId, ControllerEpoch
from lethe.protocol.zookeeper.operations import Data


@dataclass(frozen=True, slots=True)
class ElectSelf:
    """Create `/controller` and raise the epoch from this version."""

    epoch: Data


@dataclass(frozen=True, slots=True)
class TakeControl:
    """Replace the holder's `/controller`, in the tenure that has this epoch."""

    holder: Data
    epoch: Data


Intent = ElectSelf | TakeControl
"""What follows a preflight that found brokers which this controller can command."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """Ask the registered brokers whether they take requests of this controller; then do what was intended."""

    then: Intent


# --- continuations ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegistrationsListed:
    then: Intent


@dataclass(frozen=True, slots=True)
class RegistrationsRead:
    then: Intent
    ids: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class BrokersProbed:
    """After the probes of these brokers."""

    then: Intent
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class EpochRaised:
    """After raising `/controller_epoch` above what brokers refuse, in our own tenure."""

    epoch: ControllerEpoch


PowerTask = Preflight | ElectSelf | TakeControl
PowerReadContinuation = RegistrationsListed | RegistrationsRead
PowerWriteContinuation = EpochRaised
