"""Raises of `/controller_epoch` that a controller remembers; they outlive tenures and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.back_off import BackOff


@dataclass(slots=True)
class Raises:
    """See `epoch_raise`. An episode lasts from the first raise until most registered brokers obey."""

    leaps: int = 0
    """Raises in the episode in progress; 0 where none is."""
    episodes: int = 0
    """Episodes, until the latest began so long ago that they are forgotten."""
    began_ms: int | None = None
    """When the latest episode began."""
    problem: str | None = None
    """Why the epoch is not raised although brokers refuse it, with the cure."""

    def settled(self) -> None:
        """Most registered brokers obey: the episode is over."""
        self.leaps, self.problem = 0, None

    def due_ms(self, interval: BackOff) -> int:
        """When the next episode may begin; 0 where none has begun."""
        return 0 if self.began_ms is None else self.began_ms + interval.wait_ms(self.episodes)
