"""A controller's power for display, and the causes of waiting topics from brokers that do not obey."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.controller.core.power import BrokerPower, BrokerStanding
from lethe.protocol.causes import CauseKind

CAUSES: Final[Mapping[BrokerStanding, CauseKind]] = MappingProxyType(
    {
        BrokerStanding.REFUSES_EPOCH: CauseKind.BROKER_REFUSES_EPOCH,
        BrokerStanding.REFUSES_US: CauseKind.BROKER_REFUSES_CONTROLLER,
        BrokerStanding.UNSPOKEN: CauseKind.BROKER_NOT_SPOKEN,
        BrokerStanding.NO_ACCESS: CauseKind.BROKER_NO_ACCESS,
        BrokerStanding.SILENT: CauseKind.BROKER_SILENT,
        BrokerStanding.FAILS: CauseKind.BROKER_ERROR,
    }
)
"""The cause for a topic that waits for a broker of this standing; without the standings that are in order."""


class PowerView(NamedTuple):
    """The power at one moment; empty while this controller is not active."""

    powers: tuple[BrokerPower, ...] = ()
    powerless_s: float = 0.0
    """How long no registered broker has obeyed."""
    reason: str | None = None
    """Why this active controller is not ready, or one that could stand is not elected."""
    note: str | None = None
    """A problem beside power: which broker refuses, and the remedy."""
    raises: int = 0
    """Raises of the epoch in this episode."""

    @property
    def refusing(self) -> tuple[BrokerPower, ...]:
        """Return brokers that do not obey, without those that have not answered yet."""
        return tuple(each for each in self.powers if each.standing in CAUSES)
