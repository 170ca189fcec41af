"""Ranges of partitions and brokers in the journal's lines, such as `0-3,7`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from lethe.pipeline.transforms.journal_records import numbers_of_one_range
from lethe.protocol.vocabulary import MAX_PARTITIONS

MOST_BROKERS: Final = 2**31 - 1
"""No broker has this id or a larger one."""
_SHAPE: Final = r"^(\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*+)?$"
"""Java would recurse with each range if the list were not possessive, as in `pipeline.quality.forms`."""


def _column(text: Column | str) -> Column:
    return F.col(text) if isinstance(text, str) else text


def _bounds(text: Column | str) -> Column:
    """The ranges as an array of (first, last)."""
    return F.transform(
        F.split(_column(text), ","),
        lambda each: F.struct(
            F.substring_index(each, "-", 1).try_cast("int").alias("first"),
            F.substring_index(each, "-", -1).try_cast("int").alias("last"),
        ),
    )


def are_valid(text: Column | str, below: int = MAX_PARTITIONS) -> Column:
    """Return whether the text has rising ranges of numbers below this one; never null."""
    rising = F.forall(_bounds(text), lambda each: (each["first"] <= each["last"]) & (each["last"] < below))
    said = _column(text)
    plain = said.rlike(r"^\d{1,6}(-\d{1,6})?$") & (
        F.substring_index(said, "-", 1).try_cast("int") <= F.substring_index(said, "-", -1).try_cast("int")
    )
    general = said.rlike(_SHAPE) & ((said == "") | rising)
    # Most lines name one range: that cheap case is tested first. Null has none, and Spark would look for some.
    return F.when(said.isNull(), F.lit(False)).when(plain, F.lit(True)).otherwise(F.coalesce(general, F.lit(False)))


def numbers_in(text: Column | str) -> Column:
    """Return the numbers as an array; the text must be valid."""
    every = F.flatten(F.transform(_bounds(text), lambda each: F.sequence(each["first"], each["last"])))
    return numbers_of_one_range(_column(text), every)
