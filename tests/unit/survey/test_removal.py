"""When the bytes of a deleted replica are due to be gone."""

from __future__ import annotations

import pytest

from lethe.survey.removal import ALLOWANCE_MS, Removal, removal_due

NOW_MS = 1_000_000_000
S = 1000


@pytest.mark.parametrize(
    "removal, renamed_ago_s, within_delay, why",
    [
        (Removal(60_000, 0), 0, True, "due within 120 s: log.segment.delete.delay.ms of broker 1 is 60000"),
        (Removal(60_000, 0), 119, True, "due within 1 s: log.segment.delete.delay.ms of broker 1 is 60000"),
        (Removal(60_000, 0), 121, False, "overdue by 1 s: log.segment.delete.delay.ms of broker 1 is 60000"),
        (Removal(0, 0), 61, False, "overdue by 1 s: log.segment.delete.delay.ms of broker 1 is 0"),
        (Removal(600_000, 0), 121, True, "due within 539 s: log.segment.delete.delay.ms of broker 1 is 600000"),
        (
            Removal(None, None),
            20,
            True,
            "due within 100 s: log.segment.delete.delay.ms of broker 1 is not known and assumed to be 60000",
        ),
        (None, 1, False, "broker 1 is not registered: nothing removes it until the broker starts"),
    ],
)
def test_a_directory_is_due_after_the_delay_of_its_broker(
    removal: Removal | None, renamed_ago_s: int, within_delay: bool, why: str
) -> None:
    assert removal_due(1, removal, NOW_MS - renamed_ago_s * S, NOW_MS) == (within_delay, why)


def test_a_broker_that_started_later_counts_from_its_start() -> None:
    hours_ago = NOW_MS - 7_200 * S
    assert removal_due(1, Removal(60_000, NOW_MS - 10 * S), hours_ago, NOW_MS).within_delay
    assert not removal_due(1, Removal(60_000, hours_ago), hours_ago, NOW_MS).within_delay


def test_a_time_in_the_future_counts_as_now() -> None:
    judged = removal_due(1, Removal(0, NOW_MS + 86_400 * S), NOW_MS + 86_400 * S, NOW_MS)
    assert judged.why.startswith(f"due within {ALLOWANCE_MS // S} s")


def test_a_rename_of_unknown_time_is_not_within_the_delay() -> None:
    assert removal_due(1, Removal(60_000, 0), None, NOW_MS) == (False, "since when is not known")
