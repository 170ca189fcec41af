"""Attribute event records that are not about a phase to a deletion.

Rule. A record with a topic id belongs to a span of that id, one without to a span of that name: in both cases to the
latest span whose work had begun.

    span of orders    begun    ended      record at        attributed to
    1                 10 s     20 s       15 s             1
    2                 40 s     lasts      30 s, no id      none: a replica that was moved, for example
                                          45 s             2

All spans of a name are one array that is joined by the name, so a name with a thousand deletions does not multiply each
record. Controllers' records outside spans are about replicas that were moved away from existing topics. Agents' records
may come long after the deletion, or shortly before it by another clock.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.protocol.clocks import CLOCK_SKEW_MS
from lethe.protocol.kafka.directory_names import NEVER_CUT


def attribute_replica_records(lines: DataFrame, heads: DataFrame) -> DataFrame:
    """Return controllers' `lines` (topic, id_key, at, ...) with `of` (begun, span, ended_at, topic, id_key, day).
    Records without a span are left out."""
    has_id, at = F.col("id_key") != "", F.col("at")

    def admits(span: Column) -> Column:
        in_time = span["ended_at"].isNull() | (at <= plus_clock_skew(span["ended_at"]))
        return _same_id(span) & (span["begun"] <= at) & (has_id | in_time)

    return _with_latest_span(lines, _spans_by(heads, "topic"), "topic", admits)


def attribute_freed_records(lines: DataFrame, heads: DataFrame) -> DataFrame:
    """Return agents' `lines` (topic as directories have it, id_key, at, ...) with `of`. Left out are records without a
    span, and those whose cut name fits several topics."""
    topic, at = F.col("topic"), F.col("at")
    stem = F.left("topic", F.lit(NEVER_CUT + 1)).alias("stem")
    may_be_cut = F.length(topic) > NEVER_CUT

    def is_named(span: Column) -> Column:
        return (span["topic"] == topic) | (may_be_cut & span["topic"].startswith(topic))

    def admits(span: Column) -> Column:
        return is_named(span) & _same_id(span) & (span["begun"] <= plus_clock_skew(at))

    names = F.array_distinct(F.transform(F.filter("spans", is_named), lambda span: span["topic"]))
    found = _with_latest_span(
        lines.select("*", stem), _spans_by(heads.select("*", stem), "stem"), "stem", admits, keep=("spans",)
    )
    return found.where((F.col("id_key") != "") | (F.size(names) == 1)).drop("spans", "stem")


def _spans_by(heads: DataFrame, key: str) -> DataFrame:
    span = F.struct(F.col("works_from").alias("begun"), "span", "ended_at", "topic", "id_key", "day")
    worked_on = heads.where(F.col("works_from").isNotNull())
    return worked_on.groupBy(key).agg(F.sort_array(F.collect_list(span)).alias("spans"))


def _with_latest_span(
    lines: DataFrame, known: DataFrame, key: str, admits: Callable[[Column], Column], keep: tuple[str, ...] = ()
) -> DataFrame:
    found = lines.join(known, key, "inner").withColumn("of", F.try_element_at(F.filter("spans", admits), F.lit(-1)))
    return found.where(F.col("of").isNotNull()).select(*lines.columns, "of", *keep)


def _same_id(span: Column) -> Column:
    return (F.col("id_key") == "") | (span["id_key"] == F.col("id_key"))


def plus_clock_skew(instant: Column) -> Column:
    """Return the instant plus the maximum difference of clocks."""
    return F.timestamp_micros(F.unix_micros(instant) + F.lit(CLOCK_SKEW_MS * 1000))
