"""Which deletions there were: event records about phases, numbered into spans. Every other table joins on these.

Rule. A span is one deletion of one topic id, or of one name without ids. The records of a topic and id are sorted by
time, writer and the writer's own numbers. `let go` and `vanished` end a span; `done` ends it only without an id. The
next record starts the next span. Controllers 1001 and 1002, topic ids A, B and C:

    s    writer  phase      id    span   why
    0    1001    queued     A     A 1
    9    1002    queued     A     A 1    after a failover, phases repeat within the span
    12   1002    let go     A     A 1    ends the span: the marker was taken back
    13   1001    queued     A     A 2    marked again: the next span, whichever controller writes
    20   1002    vanished   A     A 2    ends the span
    22   1001    started    A     A 2    another writer, within the tolerance for clocks: before `vanished`
    24   1002    queued     A     A 3    the same writer: after `vanished`

    30   1002    held       -     B 1    an unreadable topic is held without id: it gets the id of the next record
    31   1002    queued     B     B 1
    32   1002    done       B     B 1    with an id, `done` is final:
    33   1001    started    B     B 1    a later record stays in the span

    60   1001    queued     C     C 1    a topic is marked, and becomes unreadable:
    61   1001    queued     -     - 1    its deletion goes on without id, as another span,
    62   1001    done       -     - 1    whose end implies one more record:
    62   1001    vanished   C     C 1    a name has one topic, so C is gone too

    70   1001    queued     -     - 2    without ids, `done` has ended - 1: the next span

Outcomes: A 1 let go, A 2 vanished, A 3 open, B 1 done, C 1 vanished, - 1 done, - 2 open.

* `vanished` or `let go` without id belongs to the record before it: the deletion of that name has ended. The same holds
  for the refusal of a controller that took over. Such a refusal counts only if a deletion was in progress and the next
  record does not report its end: a controller that held the topic itself writes both.
* For other controllers' records, a refusal is as final as `vanished`.
* A span begins with its marker. `held` and `queued` have the marker's creation time (`marked_at_ms`), so neither a
  failover nor a journal that begins later shortens a deletion. Without it (earlier releases) the record's time counts.
* Missing records leave holes in a span. `works_from` is the time of its first record other than `held`, `let go` and
  `vanished`: acknowledgements and freed bytes belong to the span only from then on.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.outcomes import DONE, ENDED_AT, LET_GO, OPEN, VANISHED
from lethe.pipeline.transforms.attribution import plus_clock_skew
from lethe.pipeline.transforms.journal_records import phase_records

KEY: Final = ("topic", "id_key", "span")
_HELD: Final = "held"
_ENDS: Final = tuple(ENDED_AT)
_ORDER: Final = ("at", "source", "seq", "id")
_PHASES: Final = {
    "queued_at": "queued",
    "started_at": "started",
    "tombstoned_at": "tombstoned",
    "acknowledged_at": "acknowledged",
    "znodes_gone_at": "removed",
    **{column: outcome for outcome, column in ENDED_AT.items()},
}
"""Columns with the time at which a phase was first reached."""


def span_heads(events: DataFrame) -> DataFrame:
    """Return one row per deletion, from CONTROLLER_EVENTS.

    Columns: topic, id_key, span; partitions, replicas; marked_at and the instants of `_PHASES`; outcome, ended_at;
    works_from, began_at, last_at (of its records about phases); day; last_phase; holds (array of at, seq, held_by,
    next_at, in order); controllers; first_line, last_line, done_line (source and id of a record about a phase); dones.
    """
    return phase_records(events).transform(_with_inferred_ids).transform(_with_span_numbers).transform(_aggregate)


def _with_inferred_ids(lines: DataFrame) -> DataFrame:
    phase, is_blind = F.col("phase"), F.col("id_key") == ""
    is_blind_hold = is_blind & (phase == _HELD)
    in_order = Window.partitionBy("topic").orderBy(*_ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    # Of a topic that is gone nothing is going on.
    goes_on = F.struct(F.when(phase.isin(DONE, VANISHED), "").otherwise(F.col("id_key")).alias("id_key"))
    last_sighted = F.last(F.when(~(is_blind & phase.isin(_HELD, LET_GO)), goes_on), ignorenulls=True).over(before)
    last_named = F.struct("id_key", phase.isin(*_ENDS).alias("is_over"))
    last_named = F.last(F.when(~is_blind | phase.isin(*_ENDS), last_named), ignorenulls=True).over(before)
    backwards = Window.partitionBy("topic").orderBy(*(F.col(name).desc() for name in _ORDER))
    until_here = backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    next_sighted = F.last(F.when(~is_blind_hold, F.struct("id_key")), ignorenulls=True).over(until_here)
    is_told = F.lead(phase.isin(*_ENDS) & ~F.col("is_refusal"), 1, False).over(in_order)
    return (
        lines.withColumn("ends_something", ~F.lag("phase").over(in_order).isin(*_ENDS) & ~is_told)
        .where(~F.col("is_refusal") | F.col("ends_something"))
        .withColumns({"sighted": last_sighted, "named": last_named})
        .withColumn("id_key", _inferred_id(is_blind & phase.isin(VANISHED, LET_GO)))
        .withColumn("sighted", next_sighted)
        .withColumn("id_key", _inferred_id(is_blind_hold))
        .transform(_with_implied_vanished)
    )


def _with_implied_vanished(lines: DataFrame) -> DataFrame:
    """Add one record where a topic was deleted without an id: the span with an id has vanished."""
    is_after_named = (F.col("id_key") == "") & (F.col("phase") == DONE) & ~F.col("named.is_over")
    ids = F.when(is_after_named, F.array(F.lit(""), F.col("named.id_key"))).otherwise(F.array("id_key"))
    is_other = F.col("of_id") != F.col("id_key")
    said = {name: F.when(~is_other, F.col(name)) for name in ("partitions", "replicas")}
    return lines.withColumn("of_id", F.explode(ids)).withColumns(
        {**said, "phase": F.when(is_other, VANISHED).otherwise(F.col("phase")), "id_key": F.col("of_id")}
    )


def _inferred_id(is_blind: Column) -> Column:
    return F.when(is_blind, F.coalesce("sighted.id_key", F.lit(""))).otherwise(F.col("id_key"))


def _with_span_numbers(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("topic", "id_key").orderBy(*_ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    ends = F.col("phase").isin(LET_GO, VANISHED) | ((F.col("phase") == DONE) & (F.col("id_key") == ""))
    is_last_word = (F.col("phase") == VANISHED) | F.col("is_refusal")
    last_end = F.struct("at", "source", is_last_word.alias("is_last_word"))
    last_end = F.last(F.when(ends, last_end), ignorenulls=True).over(before)
    of_another = last_end["is_last_word"] & (last_end["source"] != F.col("source")) & (F.col("id_key") != "")
    is_before = ~ends & of_another & (F.col("at") <= plus_clock_skew(last_end["at"]))
    ended = F.coalesce(F.sum(ends.cast("int")).over(before), F.lit(0))
    numbered = lines.withColumn("span", (ended + F.when(is_before, 0).otherwise(1)).cast("int"))
    return numbered.withColumn("next_at", F.lead("at").over(Window.partitionBy(*KEY).orderBy(*_ORDER)))


def _aggregate(lines: DataFrame) -> DataFrame:
    is_hold = F.col("phase") == _HELD
    is_done = F.col("phase") == DONE
    order, line = F.struct(*_ORDER), F.concat_ws(" ", "source", "id")
    grouped = lines.groupBy(*KEY).agg(
        F.max("partitions").alias("partitions"),
        F.max("replicas").alias("replicas"),
        F.min(F.when(F.col("phase").isin(_HELD, "queued"), F.coalesce("marked_at", "at"))).alias("marked_at"),
        *(_first(F.col("phase") == phase).alias(name) for name, phase in _PHASES.items()),
        _first(~F.col("phase").isin(_HELD, LET_GO, VANISHED)).alias("works_from"),
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
    outcomes = (F.when(F.col(column).isNotNull(), outcome) for outcome, column in ENDED_AT.items())
    return grouped.withColumns(
        {
            "outcome": F.coalesce(*outcomes, F.lit(OPEN)),
            "ended_at": F.coalesce(*ENDED_AT.values()),
            "day": F.to_date(F.coalesce("marked_at", "began_at")),
        }
    )


def _first(where: Column) -> Column:
    return F.min(F.when(where, F.col("at")))
