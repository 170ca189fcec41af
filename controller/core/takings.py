"""What a controller remembers of having taken control from others; it outlives tenures and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.vocabulary import BrokerId


@dataclass(slots=True)
class Takings:
    """See `takeover`, which alone changes the first two."""

    count: int = 0
    """How often, until the latest was so long ago that they are forgotten."""
    last_ms: int | None = None
    """When control was taken last."""
    latest: BrokerId | None = None
    """From whom control was taken last."""
    going_on: BrokerId | None = None
    """Whose `/controller` the election that is being written removes, until it is known what came of that."""
