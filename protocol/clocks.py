"""Tolerated clock differences between machines."""

from __future__ import annotations

from typing import Final

CLOCK_SKEW_MS: Final = 5_000
"""Between processes of one cluster, with synchronized clocks: to order their records and assign them to deletions."""
CLOCKS_DIFFER_MS: Final = 300_000
"""Between any two machines, a laptop included: to decide whether a survey was taken before or after."""
