"""The watermark of a micro-batch, whatever time a line claims to be of."""

from __future__ import annotations

import datetime

import pytest

from lethe.pipeline.jobs import micro_batch

NOW = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)
WEEK = datetime.timedelta(days=7)


@pytest.mark.parametrize(
    "newest, watermark",
    [
        (NOW - datetime.timedelta(days=1), NOW - datetime.timedelta(days=8)),
        (datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC), NOW - WEEK),
        (datetime.datetime(1, 1, 3, tzinfo=datetime.UTC), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
        (None, None),
    ],
)
def test_the_watermark_is_behind_the_newest_line(
    newest: datetime.datetime | None, watermark: datetime.datetime | None
) -> None:
    assert micro_batch._instant_of_ms(micro_batch._watermark_ms(newest, NOW, WEEK)) == watermark
