"""Memory of the raises of `/controller_epoch`; kept across terms and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.back_off import BackOff


@dataclass(slots=True)
class EpochRaiseHistory:
    """See `epoch_raise`. An episode lasts from the first raise until most registered brokers obey."""

    leaps: int = 0
    """Raises in the current episode; 0 without one."""
    episodes: int = 0
    """Number of episodes; starts again after a long pause."""
    began_ms: int | None = None
    """When the latest episode began."""
    problem: str | None = None
    """Why the epoch is not raised although brokers refuse it, with the remedy."""

    def settled(self) -> None:
        """End the episode: most registered brokers obey."""
        self.leaps, self.problem = 0, None

    def due_ms(self, interval: BackOff) -> int:
        """Return when the next episode may begin; 0 if none has begun."""
        return 0 if self.began_ms is None else self.began_ms + interval.wait_ms(self.episodes)
