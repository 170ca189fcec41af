"""Which deletions there were: lines about phases, numbered into spans. Every other table joins on these.

A span is one deletion of one topic id. The lines of a topic and id are put in order (time, writer, the writer's own
numbers) and counted through; seconds, controllers and ids below are those of the example:

    s    controller   phase      id    span   rule
    0    1001         queued     A     A 1
    9    1002         queued     A     A 1    a failover repeats `queued` and `started` within the span
    12   1002         let go     A     A 1    ends the span
    13   1001         queued     A     A 2    the topic lives, and is marked again: the next span, whoever writes
    20   1002         vanished   A     A 2    ends the span, for other controllers finally:
    22   1001         started    A     A 2      another writer's line, within the tolerance for clocks, came before
    24   1002         queued     A     A 3      the same writer's line came after
    30   1002         held       -     B 1    a topic that cannot be read is held without id: id of the next line
    31   1002         queued     B     B 1
    32   1002         done       B     B 1    with an id `done` is final:
    33   1001         started    B     B 1      a line after it belongs to the same span
    70   1001         queued     -     - 1
    71   1001         done       -     - 1    without ids `done` ends the span
    72   1001         queued     -     - 2    so the name's next deletion is the next span

    60   1001         queued     C     C 1    a topic is marked, and cannot be read any more:
    61   1001         queued     -     - 1    it is deleted without id, which is a deletion of its own,
    62   1001         done       -     - 1    and a second line follows from this one:
    62   1001         vanished   C     C 1    a name has one topic, so C is gone too, unseen

Outcomes of the spans: A 1 let go, A 2 vanished, A 3 open, B 1 done, - 1 done, - 2 open, and C 1 vanished.

* A line without id that says `vanished` or `let go` belongs to the line before it: what was going on under the name has
  ended. So does the refusal of a controller that took over and holds no memory of the deletion. Such a refusal counts
  only where something was going on, and where the next line does not tell the end: who had held a topic writes both.
* A refusal is final for other controllers, as `vanished` is.
* A span begins with its marker. `held` and `queued` say when ZooKeeper made it (`marked_at_ms`), so a failover or a
  journal that begins later makes no deletion younger. Without `marked_at_ms` (earlier releases) the line's time counts.
* Missing lines leave holes in a span. `works_from` is its first line that is not about holding it back: only from then
  on acknowledgements and freed bytes belong to the span.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.outcomes import DONE, ENDED_AT, LET_GO, OPEN, VANISHED
from lethe.pipeline.transforms.attribution import with_skew
from lethe.pipeline.transforms.journal_lines import phase_lines

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
"""When a phase was first reached."""


def span_heads(events: DataFrame) -> DataFrame:
    """One row per deletion, from CONTROLLER_EVENTS.

    Columns: topic, id_key, span; partitions, replicas; marked_at and the instants of `_PHASES`; outcome, ended_at;
    works_from, began_at, last_at (of its lines about phases); day; last_phase; holds (array of at, seq, held_by,
    next_at, in order); controllers; first_line, last_line, done_line (source and id of a line about a phase); dones.
    """
    return phase_lines(events).transform(_with_found_ids).transform(_numbered).transform(_heads)


def _with_found_ids(lines: DataFrame) -> DataFrame:
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
        .withColumn("id_key", _unless_known(is_blind & phase.isin(VANISHED, LET_GO)))
        .withColumn("sighted", next_sighted)
        .withColumn("id_key", _unless_known(is_blind_hold))
        .transform(_with_those_before)
    )


def _with_those_before(lines: DataFrame) -> DataFrame:
    """Where a topic was deleted without an id, a line more: that one with an id has vanished."""
    is_after_named = (F.col("id_key") == "") & (F.col("phase") == DONE) & ~F.col("named.is_over")
    ids = F.when(is_after_named, F.array(F.lit(""), F.col("named.id_key"))).otherwise(F.array("id_key"))
    is_other = F.col("of_id") != F.col("id_key")
    said = {name: F.when(~is_other, F.col(name)) for name in ("partitions", "replicas")}
    return lines.withColumn("of_id", F.explode(ids)).withColumns(
        {**said, "phase": F.when(is_other, VANISHED).otherwise(F.col("phase")), "id_key": F.col("of_id")}
    )


def _unless_known(is_blind: Column) -> Column:
    return F.when(is_blind, F.coalesce("sighted.id_key", F.lit(""))).otherwise(F.col("id_key"))


def _numbered(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("topic", "id_key").orderBy(*_ORDER)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    ends = F.col("phase").isin(LET_GO, VANISHED) | ((F.col("phase") == DONE) & (F.col("id_key") == ""))
    is_last_word = (F.col("phase") == VANISHED) | F.col("is_refusal")
    last_end = F.struct("at", "source", is_last_word.alias("is_last_word"))
    last_end = F.last(F.when(ends, last_end), ignorenulls=True).over(before)
    of_another = last_end["is_last_word"] & (last_end["source"] != F.col("source")) & (F.col("id_key") != "")
    is_before = ~ends & of_another & (F.col("at") <= with_skew(last_end["at"]))
    ended = F.coalesce(F.sum(ends.cast("int")).over(before), F.lit(0))
    numbered = lines.withColumn("span", (ended + F.when(is_before, 0).otherwise(1)).cast("int"))
    return numbered.withColumn("next_at", F.lead("at").over(Window.partitionBy(*KEY).orderBy(*_ORDER)))


def _heads(lines: DataFrame) -> DataFrame:
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
