"""Memory of the takeovers by this process; kept across terms and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.vocabulary import BrokerId


@dataclass(slots=True)
class TakeoverHistory:
    """See `takeover`."""

    count: int = 0
    """Number of takeovers; starts again after a long pause."""
    last_ms: int | None = None
    """When control was taken last."""
    last_from: BrokerId | None = None
    """The controller from which control was taken then, or may have been, also where no term followed."""
    latest: BrokerId | None = None
    """The controller most recently taken over, in a takeover that led to a term."""
    going_on: BrokerId | None = None
    """The controller whose `/controller` was removed, or may have been, while the epoch is not raised yet."""
    epoch_version: int = 0
    """Version of `/controller_epoch` that the taking checked."""
    version: int = 0
    """Version of `/controller` as the taking has left it: that of no other `/controller` under the same epoch."""
    raising: int | None = None
    """Version of `/controller_epoch` from which this controller has tried to raise it."""
    raised_to: int = 0
    """The epoch of that write. Another controller's write after `raising` leaves another epoch."""
    due_ms: int = 0
    """When the epoch may be raised."""
