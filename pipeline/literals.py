"""Python values as columns, for types that PySpark converts wrongly."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def day_value(day: datetime.date) -> Column:
    """A day as a column. PySpark writes days before the year 1000 in a form that Java does not read."""
    return F.lit(day.isoformat()).cast("date")


def day_values(days: Iterable[datetime.date]) -> list[Column]:
    """Days for `Column.isin`."""
    return [day_value(day) for day in sorted(days)]
