"""Tasks and continuations for taking control and raising the epoch: see `tasks`."""

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
    """Replace the holder's `/controller`, if the epoch is still this one."""

    holder: Data
    epoch: Data


Intent = ElectSelf | TakeControl
"""The task after a preflight that has passed."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """Probe whether the registered brokers accept requests of this controller; run `then` if they do."""

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
    """After raising `/controller_epoch` above the epochs that brokers refuse, within this controller's term."""

    epoch: ControllerEpoch


PowerTask = Preflight | ElectSelf | TakeControl
PowerReadContinuation = RegistrationsListed | RegistrationsRead
PowerWriteContinuation = EpochRaised
