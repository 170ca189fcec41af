"""Values of Python as columns, where PySpark's own way does not do."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def day_value(day: datetime.date) -> Column:
    """A day. Given as it is, PySpark would write those before the year 1000 as Java does not read them."""
    return F.lit(day.isoformat()).cast("date")


def day_values(days: Iterable[datetime.date]) -> list[Column]:
    """Days for `Column.isin`."""
    return [day_value(day) for day in sorted(days)]
