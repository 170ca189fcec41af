"""What a controller remembers of having taken control from others; it outlives tenures and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.vocabulary import BrokerId


@dataclass(slots=True)
class Takings:
    """See `takeover`."""

    count: int = 0
    """How often, until the latest was so long ago that they are forgotten."""
    last_ms: int | None = None
    """When control was taken last."""
    latest: BrokerId | None = None
    """From whom the last tenure that began so was taken."""
    going_on: BrokerId | None = None
    """Whose `/controller` was removed, or may have been, and whose epoch is not raised yet."""
    epoch_version: int = 0
    """Of `/controller_epoch`, as it was when that was removed."""
    raising: int | None = None
    """The version from which we have tried to raise it."""
    raised_to: int = 0
    """The epoch that we have tried to write. Somebody else's write after `raising` leaves another one."""
    due_ms: int = 0
    """When it is raised."""
