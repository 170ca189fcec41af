"""How often a daemon's garbage collector runs."""

from __future__ import annotations

import gc
from typing import Final

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""A step over a large cluster, or a request about many partitions, makes millions of small values without cycles. With
Python's default of 700 new objects the collector takes a third of a controller's time."""


def collect_rarely() -> None:
    """Set the thresholds of this process."""
    gc.set_threshold(*GC_THRESHOLDS)
