"""Computes when the bytes of a deleted replica are due to be removed. Pure.

A broker renames the directory of a deleted replica at once, and removes it after `log.segment.delete.delay.ms`. Kafka's
brokers and Lethe's agents count from the rename, or from their start if that is later:

    renamed          broker registered   delay        due
    12:00:00         11:00:00            60 s         12:02:00   (one minute more: ALLOWANCE_MS)
    12:00:00         12:30:00            60 s         12:32:00
    12:00:00         11:00:00            unknown      12:02:00   (60 s is assumed: the default)
    12:00:00         not registered      any          never: no process removes it

Where a registration could not be read, `survey.leftovers` asks for no judgement: the broker may run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_DELAY_MS: Final = 60_000
"""Default of `log.segment.delete.delay.ms`, in Kafka and in Lethe's agents."""
ALLOWANCE_MS: Final = 60_000
"""Brokers check at intervals, first 30 s after their start, and remove one directory after another."""


class Removal(NamedTuple):
    """Values that decide when a registered broker removes renamed directories."""

    delay_ms: int | None
    """`log.segment.delete.delay.ms`; None where the broker did not return it."""
    registered_at_ms: int | None
    """When it registered; None where its registration has no time."""


class RemovalDue(NamedTuple):
    """Whether the broker still has time at the moment of the survey, and why."""

    within_delay: bool
    why: str


def removal_due(broker: int, removal: Removal | None, renamed_at_ms: int | None, now_ms: int) -> RemovalDue:
    """Judge one renamed directory; `removal` is None where its broker is not registered. A time in the future, from
    another clock, counts as now."""
    if removal is None:
        return RemovalDue(False, f"broker {broker} is not registered: nothing removes it until the broker starts")
    if renamed_at_ms is None:
        return RemovalDue(False, "since when is not known")
    began_ms = min(max(renamed_at_ms, removal.registered_at_ms or 0), now_ms)
    delay_ms = DEFAULT_DELAY_MS if removal.delay_ms is None else removal.delay_ms
    left_ms = began_ms + delay_ms + ALLOWANCE_MS - now_ms
    delay = f"log.segment.delete.delay.ms of broker {broker} is {delay_ms}"
    if removal.delay_ms is None:
        delay = f"log.segment.delete.delay.ms of broker {broker} is not known and assumed to be {delay_ms}"
    if left_ms > 0:
        return RemovalDue(True, f"due within {-(-left_ms // 1000)} s: {delay}")
    return RemovalDue(False, f"overdue by {-left_ms // 1000} s: {delay}")
