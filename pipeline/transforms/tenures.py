"""Tenures: which controller was active, from when to when.

Rule. `elected` begins a tenure; `active` and `resigned` of the same controller and epoch belong to it. A tenure without
an end lasts until the next election.

    s    writer   event record          tenure
    0    1001     elected, epoch 5      1001 in epoch 5 begins
    2    1001     active, epoch 5       its loading took 2 s
    50   1002     elected, epoch 6      1001 died: its tenure lasted 50 s

If the record of the election is missing, the others have the time since it. Tenures are as few as failovers, so one
partition holds all rows.

A record about paused or resumed deletions has no epoch: it belongs to the last tenure of its controller's records. A
controller that takes over during a pause records it again; without such a record there is no pause.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lethe.controller.core.deletion_memory import PAUSED, RESUMED
from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import ms_before, ms_between, to_schema
from lethe.pipeline.transforms.journal_records import tenure_records


def controller_tenures(events: DataFrame) -> DataFrame:
    """Return CONTROLLER_TENURES, from CONTROLLER_EVENTS of all days: a tenure without an end is ended by the next
    election, on any later day."""
    is_election = F.col("what") == "elected"
    is_of_pause = F.col("what").isin(PAUSED, RESUMED)
    is_paused = F.col("last_pause")["what"] == PAUSED
    lines = _with_epochs(tenure_records(events))
    in_order = Window.partitionBy("controller", "epoch").orderBy("at", "seq", "id")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    tenures = (
        lines.withColumn("number", F.sum(is_election.cast("int")).over(so_far))
        .groupBy("controller", "epoch", "number")
        .agg(
            F.min(F.when(is_election, F.col("at"))).alias("seen_elected_at"),
            F.min(F.when(F.col("what") == "active", F.col("at"))).alias("active_at"),
            F.max(F.when(F.col("what") == "resigned", F.col("at"))).alias("resigned_at"),
            F.max("taken_from").alias("taken_from"),
            F.max("loading_ms").alias("loading_ms"),
            F.max("tenure_ms").alias("tenure_ms"),
            F.max(F.when(~is_of_pause, F.col("reason"))).alias("reason"),
            F.max(F.when(is_of_pause, F.struct("at", "seq", "id", "what", "held_by"))).alias("last_pause"),
            F.min("at").alias("began_at"),
        )
    )
    elected_at = F.coalesce(
        F.col("seen_elected_at"),
        ms_before(F.col("active_at"), F.col("loading_ms")),
        ms_before(F.col("resigned_at"), F.col("tenure_ms")),
        F.col("began_at"),
    )
    by_epoch = Window.partitionBy(F.lit(1)).orderBy("epoch", "elected_at", "controller")
    followed = tenures.withColumn("elected_at", elected_at).withColumn("next", F.lead("elected_at").over(by_epoch))
    until_next = F.when(F.col("resigned_at").isNull(), ms_between(F.col("elected_at"), F.col("next")))
    ended = F.coalesce("tenure_ms", ms_between(F.col("elected_at"), F.col("resigned_at")), until_next)
    paused = {
        "paused_at": F.when(is_paused, F.col("last_pause")["at"]),
        "paused_by": F.when(is_paused, F.col("last_pause")["held_by"]),
    }
    return to_schema(
        followed.withColumns({"tenure_ms": ended, **paused, "day": F.to_date("elected_at")}),
        schemas.CONTROLLER_TENURES,
    )


def _with_epochs(lines: DataFrame) -> DataFrame:
    """Return records about elections, and those about pauses with the epoch of their tenure."""
    is_known = F.col("what").isin("elected", "active", "resigned") & F.col("epoch").isNotNull()
    is_of_pause = F.col("what").isin(PAUSED, RESUMED)
    so_far = Window.partitionBy("controller").orderBy("at", "seq", "id")
    before = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    epoch = F.last(F.when(~is_of_pause, F.col("epoch")), ignorenulls=True).over(before)
    return lines.where(is_known | is_of_pause).withColumn("epoch", epoch).where(F.col("epoch").isNotNull())
