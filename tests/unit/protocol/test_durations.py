"""Durations on the command line."""

import pytest

from lethe.protocol.durations import parse_duration_ms


@pytest.mark.parametrize(
    "text, ms",
    [("0s", 0), ("500ms", 500), ("90s", 90_000), ("30m", 1_800_000), (" 24H ", 86_400_000), ("7d", 604_800_000)],
)
def test_numbers_with_units(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "24", "h", "1.5h", "-1h", "1w", "1h30m", "٣h", "9999999999s"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ms(text)
