"""Rules on the journal's records: none is missing, and each has a valid form.

A process numbers its records without holes. Missing numbers are lost records, unless a `gap` record reports the loss:

    numbers in the journal        finding
    1, 2, 5                       no-line-lost: 3 and 4 are missing
    1, 2, 5 = gap about 3 to 4    no-gap: the journal itself reports the loss
    7, 8                          none: 1 to 6 were rotated away
    1, then 9 two days later      none: the days between may be unread

Records that came through a Kafka topic have the numbers of the writer's files. A record about a loss on that path alone
is numbered separately: it has times, not numbers. Records missing at the end of a run were never written.

Holes are found without sorting every record: the least, the greatest and the count of each range of numbers decide
whether it is complete, and only incomplete ranges are sorted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.quality.evidence import Evidence, SharedFrames, explains_missing, gaps, is_next_day, number, run
from lethe.pipeline.quality.forms import has_valid_form
from lethe.protocol.journal import EventRecordType

_STRETCH_BITS: Final = 16
"""A range has 65,536 numbers."""


def missing_numbers(events: DataFrame) -> DataFrame:
    """Return missing numbers within runs, between records of one day or of two consecutive days: `source, run, first,
    last, since, until`. `since` and `until` are the times of the records around them."""
    numbered = events.select(
        "source",
        run().alias("run"),
        number().alias("seq"),
        "time",
        F.shiftright(number(), _STRETCH_BITS).alias("stretch"),
    ).where(F.col("seq").isNotNull())
    stretches = numbered.groupBy("source", "run", "stretch").agg(
        F.min("seq").alias("least"),
        F.max("seq").alias("greatest"),
        F.count("*").alias("lines"),
        # Times of the least and the greatest number: within a run, times rise with numbers.
        F.min("time").alias("least_at"),
        F.max("time").alias("greatest_at"),
    )
    in_run = Window.partitionBy("source", "run").orderBy("stretch")
    between = stretches.withColumns(
        {"before": F.lag("greatest").over(in_run), "since": F.lag("greatest_at").over(in_run)}
    ).select("source", "run", "before", "since", F.col("least").alias("seq"), F.col("least_at").alias("until"))
    torn = stretches.where(F.col("lines") != F.col("greatest") - F.col("least") + 1)
    in_stretch = Window.partitionBy("source", "run", "stretch").orderBy("seq")
    within = (
        numbered.join(F.broadcast(torn.select("source", "run", "stretch")), ["source", "run", "stretch"], "left_semi")
        .withColumns({"before": F.lag("seq").over(in_stretch), "since": F.lag("time").over(in_stretch)})
        .select("source", "run", "before", "since", "seq", F.col("time").alias("until"))
    )
    return (
        between.unionByName(within)
        .where((F.col("seq") > F.col("before") + 1) & is_next_day(F.to_date("until"), F.to_date("since")))
        .select(
            "source", "run", (F.col("before") + 1).alias("first"), (F.col("seq") - 1).alias("last"), "since", "until"
        )
    )


def unreported_losses(evidence: Evidence, shared: SharedFrames) -> DataFrame:
    """Return missing numbers that no record reports."""
    told = explains_missing(F.col("first"), F.col("last"), F.col("since"), F.col("until"))
    after = F.format_string("%s %s-%d", "source", "run", F.col("last") + 1)
    return (
        missing_numbers(evidence.controller_events)
        .join(F.broadcast(gaps(shared.rare)), told, "left_anti")
        .select(
            F.substring_index("source", "/lethe/", -1).alias("subject"),
            F.col("until").alias("time"),
            F.format_string(
                "lines %d to %d of the process that started at %s are missing, and no line says why",
                "first",
                "last",
                "run",
            ).alias("detail"),
            F.array(after).alias("event_ids"),
        )
    )


def reported_gaps() -> Column:
    """Return the loss that a `gap` record reports; null for other records."""
    said = (
        F.coalesce(F.get_json_object("data", f"$.{key}"), F.lit("?")) for key in ("count", "first", "last", "reason")
    )
    return F.when(
        F.col("type") == EventRecordType.GAP.value,
        F.format_string("%s records of %s to %s were not written: %s", *said),
    )


def malformed() -> Column:
    """Return the content of a record without a valid form of its type; null for other records."""
    said = F.format_string(
        "a %s record by %s that does not have its form: %s", "type", "source", F.substring("data", 1, 300)
    )
    return F.when(~has_valid_form(), said)
