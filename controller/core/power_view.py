"""A controller's power as views show it, and the cause that a broker which does not obey is to topics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core.power import BrokerPower, Standing
from lethe.protocol.causes import CauseKind

CAUSES: Final[Mapping[Standing, CauseKind]] = MappingProxyType(
    {
        Standing.REFUSES_EPOCH: CauseKind.BROKER_REFUSES_EPOCH,
        Standing.REFUSES_US: CauseKind.BROKER_REFUSES_CONTROLLER,
        Standing.UNSPOKEN: CauseKind.BROKER_NOT_SPOKEN,
        Standing.SILENT: CauseKind.BROKER_SILENT,
        Standing.FAILS: CauseKind.BROKER_ERROR,
    }
)
"""What a topic waits for that needs a broker of this standing; it is left out where nothing is wrong."""


class PowerView(NamedTuple):
    """At one moment; nothing but zeros where this controller is not active."""

    powers: tuple[BrokerPower, ...] = ()
    powerless_s: float = 0.0
    """How long no registered broker has obeyed."""
    reason: str | None = None
    """Why this active controller is not ready, or one that could stand is not elected."""
    note: str | None = None
    """What is wrong although it has power: which broker refuses, and what cures that."""
    raises: int = 0
    """Raises of the epoch in this episode."""

    @property
    def refusing(self) -> tuple[BrokerPower, ...]:
        """Brokers that do not obey; those that were asked just now are not among them."""
        return tuple(each for each in self.powers if each.standing in CAUSES)
