"""The form of a noun as a column, by the number in front of it: `1 replica`, `2 replicas`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.protocol.counting import plural


def plural_of(number: Column, one: str, many: str | None = None) -> Column:
    """The noun without the number, as `protocol.counting.plural` gives it."""
    return F.when(number == 1, F.lit(one)).otherwise(F.lit(plural(2, one, many)))
