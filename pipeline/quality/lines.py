"""Rules on the lines themselves: none is missing, and each has a form of its type.

A process numbers its lines without holes. Missing numbers in between are lost lines; if a `gap` line reports the loss,
that line is the violation. Lines that came through a Kafka topic are numbered as in the writer's files, and a line
about a loss on that path alone is numbered separately: it has times, not numbers. Lines missing at the beginning of a
run were rotated away, at its end never written: neither is a hole. Nor are lines missing between two that are more than
a day apart: the days between may be unread.

Holes are found without sorting every line: the least, the greatest and the count of each range of numbers decide
whether it is complete, and only incomplete ranges are sorted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.quality.evidence import Digest, Evidence, gaps, is_next_day, number, run, tells_of
from lethe.pipeline.quality.forms import fits
from lethe.protocol.journal import FactType

_STRETCH: Final = 65_536


def holes(events: DataFrame) -> DataFrame:
    """Numbers that are missing within runs between lines of one day, or of two that follow each other:
    `source, run, first, last, since, until`, of which the last two are the times of the lines around them."""
    numbered = events.select(
        "source", run().alias("run"), number().alias("seq"), "time", F.floor(number() / _STRETCH).alias("stretch")
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


def lost(evidence: Evidence, digest: Digest) -> DataFrame:
    """Holes that no line reports."""
    told = tells_of(F.col("first"), F.col("last"), F.col("since"), F.col("until"))
    after = F.format_string("%s %s-%d", "source", "run", F.col("last") + 1)
    return (
        holes(evidence.controller_events)
        .join(F.broadcast(gaps(digest.rare)), told, "left_anti")
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


def told_gaps() -> Column:
    """The missing lines that a `gap` line reports; null for other lines."""
    said = (
        F.coalesce(F.get_json_object("data", f"$.{key}"), F.lit("?")) for key in ("count", "first", "last", "reason")
    )
    return F.when(
        F.col("type") == FactType.GAP.value, F.format_string("%s facts of %s to %s were not written: %s", *said)
    )


def misfits() -> Column:
    """The content of a line without a form of its type; null for other lines."""
    said = F.format_string(
        "a %s fact by %s that has not the form of one: %s", "type", "source", F.substring("data", 1, 300)
    )
    return F.when(~fits(), said)
