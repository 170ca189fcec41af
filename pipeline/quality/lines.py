"""Rules on the lines themselves: none is missing, and each has the form that its writer promised.

A process numbers its lines without holes. Where some are missing in between, they were lost; where a `gap` line says so
itself, the loss is known and that line is the violation. What is missing at the beginning of a run has been rotated
away, and at its end it was never written: neither is a hole.

Holes are found without sorting every line: of each stretch of numbers, the least, the greatest and the count tell
whether it is whole, and only the stretches that are not are looked at closely.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.quality.evidence import LOST_SLACK, Digest, Evidence, line_name, number, run
from pipeline.quality.forms import fits
from protocol.journal import FactType

_STRETCH: Final = 65_536


def holes(events: DataFrame) -> DataFrame:
    """Numbers that are missing within runs: `source, run, first, last`."""
    numbered = events.select(
        "source", run().alias("run"), number().alias("seq"), F.floor(number() / _STRETCH).alias("stretch")
    ).where(F.col("seq").isNotNull())
    stretches = numbered.groupBy("source", "run", "stretch").agg(
        F.min("seq").alias("least"), F.max("seq").alias("greatest"), F.count("*").alias("lines")
    )
    in_run = Window.partitionBy("source", "run").orderBy("stretch")
    between = stretches.withColumn("before", F.lag("greatest").over(in_run)).select(
        "source", "run", F.col("before").alias("before"), F.col("least").alias("seq")
    )
    torn = stretches.where(F.col("lines") != F.col("greatest") - F.col("least") + 1)
    in_stretch = Window.partitionBy("source", "run", "stretch").orderBy("seq")
    within = (
        numbered.join(F.broadcast(torn.select("source", "run", "stretch")), ["source", "run", "stretch"], "left_semi")
        .withColumn("before", F.lag("seq").over(in_stretch))
        .select("source", "run", "before", "seq")
    )
    return (
        between.unionByName(within)
        .where(F.col("seq") > F.col("before") + 1)
        .select("source", "run", (F.col("before") + 1).alias("first"), (F.col("seq") - 1).alias("last"))
    )


def lost(evidence: Evidence, digest: Digest) -> DataFrame:
    """Holes that no line tells of."""
    events = evidence.controller_events
    gaps = digest.rare.where(F.col("type") == FactType.GAP.value).select(
        F.col("source").alias("gap_source"), F.col("run").alias("gap_run"), F.col("seq").alias("gap_seq")
    )
    told = (
        (F.col("source") == F.col("gap_source"))
        & (F.col("run") == F.col("gap_run"))
        & (F.col("gap_seq") > F.col("last"))
        & (F.col("gap_seq") <= F.col("last") + LOST_SLACK)
    )
    untold = holes(events).join(F.broadcast(gaps), told, "left_anti")
    after = F.concat_ws("-", F.col("run"), (F.col("last") + 1).cast("string"))
    return (
        events.select("source", "id", "time")
        .join(F.broadcast(untold.withColumn("id", after)), ["source", "id"], "inner")
        .select(
            F.substring_index("source", "/lethe/", -1).alias("subject"),
            "time",
            F.format_string(
                "lines %d to %d of the process that started at %s are missing, and no line says why",
                "first",
                "last",
                "run",
            ).alias("detail"),
            F.array(line_name()).alias("event_ids"),
        )
    )


def gaps() -> Column:
    """What is missing, if the line is the journal's word that it could not write."""
    said = (
        F.coalesce(F.get_json_object("data", f"$.{key}"), F.lit("?")) for key in ("count", "first", "last", "reason")
    )
    return F.when(
        F.col("type") == FactType.GAP.value, F.format_string("%s facts of %s to %s were not written: %s", *said)
    )


def misfits() -> Column:
    """What the line says, if it has none of the forms of its type."""
    said = F.format_string(
        "a %s fact by %s that has not the form of one: %s", "type", "source", F.substring("data", 1, 300)
    )
    return F.when(~fits(), said)
