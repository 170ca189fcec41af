"""By how much clocks of different machines may disagree before anything is made of it."""

from __future__ import annotations

from typing import Final

CLOCK_SKEW_MS: Final = 5_000
"""Between processes of one cluster, whose clocks are kept: for the order of what they wrote,
and for which deletion it is about."""
CLOCKS_DIFFER_MS: Final = 300_000
"""Between any two machines, one of which may be somebody's own: for whether a survey was taken before or after."""
