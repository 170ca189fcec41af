"""Which deletions there were: the lines about phases, told apart into spans. Everything else joins on these.

Theory of operation. Lines of one topic and id are put in order (by time, then writer, then the writer's own numbers)
and counted through: a line after `let go` begins the next span, and where there are no ids a line after `done` does
too. With an id `done` is final: what a controller with a slow clock seems to have written after it belongs to the same
span. A failover makes `queued` and `started` again, of the same span.

A topic that nobody can understand is held without an id, although it may have one: such a line belongs to what the next
line about that name is about.

A span in whose journal lines are missing has holes, at the beginning too. Its `works_from` is the first line that is
not about holding it back: only from then on do acknowledgements and freed bytes belong to it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.transforms.journal_lines import phase_lines

KEY: Final = ("topic", "id_key", "span")
_ORDER: Final = ("at", "source", "seq", "id")
_PHASES: Final = {
    "queued_at": "queued",
    "started_at": "started",
    "tombstoned_at": "tombstoned",
    "acknowledged_at": "acknowledged",
    "znodes_gone_at": "removed",
    "done_at": "done",
    "let_go_at": "let go",
}
"""When a phase was first reached."""


def span_heads(events: DataFrame) -> DataFrame:
    """One row per deletion, from CONTROLLER_EVENTS.

    Columns: topic, id_key, span; partitions, replicas; marked_at and the instants of `_PHASES`; works_from, began_at,
    last_at (of its lines about phases); day; last_phase; holds (array of at, seq, held_by, next_at, in order);
    controllers; first_line, last_line, done_line (source and id of a line about a phase); dones.
    """
    return phase_lines(events).transform(_with_found_ids).transform(_numbered).transform(_heads)


def _with_found_ids(lines: DataFrame) -> DataFrame:
    is_blind = (F.col("id_key") == "") & (F.col("phase") == "held")
    backwards = Window.partitionBy("topic").orderBy(*(F.col(name).desc() for name in _ORDER))
    until_here = backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    next_sighted = F.last(F.when(~is_blind, F.struct("id_key")), ignorenulls=True).over(until_here)
    return lines.withColumn("next_sighted", next_sighted).withColumn(
        "id_key", F.when(is_blind, F.coalesce("next_sighted.id_key", F.lit(""))).otherwise(F.col("id_key"))
    )


def _numbered(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("topic", "id_key").orderBy(*_ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    ends = (F.col("phase") == "let go") | ((F.col("phase") == "done") & (F.col("id_key") == ""))
    ended = F.sum(ends.cast("int")).over(before)
    return lines.withColumn("span", (F.coalesce(ended, F.lit(0)) + 1).cast("int")).withColumn(
        "next_at", F.lead("at").over(in_order)
    )


def _heads(lines: DataFrame) -> DataFrame:
    is_hold = F.col("phase") == "held"
    is_done = F.col("phase") == "done"
    order, line = F.struct(*_ORDER), F.concat_ws(" ", "source", "id")
    grouped = lines.groupBy(*KEY).agg(
        F.max("partitions").alias("partitions"),
        F.max("replicas").alias("replicas"),
        _first(F.col("phase").isin("held", "queued")).alias("marked_at"),
        *(_first(F.col("phase") == phase).alias(name) for name, phase in _PHASES.items()),
        _first(~F.col("phase").isin("held", "let go")).alias("works_from"),
        F.min("at").alias("began_at"),
        F.max("at").alias("last_at"),
        F.max_by("phase", order).alias("last_phase"),
        F.min_by(line, order).alias("first_line"),
        F.max_by(line, order).alias("last_line"),
        F.min_by(line, F.when(is_done, order)).alias("done_line"),
        F.count_if(is_done).alias("dones"),
        F.sort_array(F.collect_list(F.when(is_hold, F.struct("at", "seq", "held_by", "next_at")))).alias("holds"),
        F.sort_array(F.collect_set("controller")).alias("controllers"),
    )
    return grouped.withColumn("day", F.to_date(F.coalesce("marked_at", "began_at")))


def _first(where: Column) -> Column:
    return F.min(F.when(where, F.col("at")))
