"""Which deletions there were: the lines about phases, told apart into spans. Everything else joins on these.

Theory of operation. Lines of one topic and id are put in order (by time, then writer, then the writer's own numbers)
and counted through: a line after `let go` or `vanished` begins the next span, and where there are no ids a line after
`done` does too. With an id `done` is final: what a controller with a slow clock seems to have written after it belongs
to the same span. A failover makes `queued` and `started` again, of the same span.

With an id `vanished` is final for others, and so is a refusal: what another controller seems to have written after it,
by as much as clocks may differ, was written before it. Whoever wrote it has one clock, so a line of its own after it is
later. Not so after `let go`: that topic lives, and may be marked again at once, also under another controller.

A topic that nobody can understand is held without an id, although it may have one: such a line belongs to what the next
line about that name is about. If such a topic vanishes or is let go, what was going on under its name has ended: that
line belongs to what the line before it was about. So does the refusal of a controller that took over, who knows nothing
of what had begun. It says nothing of a topic of which nothing was going on, or whose end the next line tells: who had
held a topic writes both.

If such a topic is deleted, it is a deletion of its own, without an id: nobody has said that the topic is the one that
was marked before. Whether or not it is, a name has one topic, and when that was deleted the one before was gone too.
Its deletion has `vanished` then, with the line that says so: it was not seen to the end, and what lies on disks a
survey finds.

A span begins with its marker. The lines `held` and `queued` say when ZooKeeper made it (`marked_at_ms`), so a failover,
or a journal that begins later, makes no deletion younger. Journals of earlier releases do not say it: the first of
these lines counts then.

A span in whose journal lines are missing has holes, at the beginning too. Its `works_from` is the first line that is
not about holding it back: only from then on do acknowledgements and freed bytes belong to it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.outcomes import DONE, ENDED_AT, LET_GO, OPEN, VANISHED
from lethe.pipeline.transforms.attribution import later
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
    is_before = ~ends & of_another & (F.col("at") <= later(last_end["at"]))
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
