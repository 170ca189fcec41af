"""Rules on controllers: epochs rise, and an older controller has no effect any more.

A paused controller may resume in another one's tenure and record its end late: overlapping tenures are a warning. Two
cases are errors: a write that began in another controller's tenure and took effect, and an agent that obeyed an older
epoch after a newer one.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.quality.evidence import (
    Evidence,
    SharedFrames,
    agents_records,
    elections,
    rare_records_of_type,
    record_name,
    skew,
    violation,
)
from lethe.protocol.journal import EventRecordType

MAX_WRITE_MS: Final = 86_400_000
"""Maximum duration of a write, in ms; a line with more is ignored."""
_WRITE: Final = "fenced boolean, took_ms double, first_path string, outcomes map<string, bigint>"
_REQUEST: Final = "api string, controller int, controller_epoch int, answers map<string, bigint>"


def falling_epochs(_: Evidence, shared: SharedFrames) -> DataFrame:
    """Elections in an epoch that another election had, or after a higher one."""
    # All elections of a cluster are few: they fit into one partition.
    by_epoch = Window.partitionBy(F.lit(1)).orderBy("epoch", "time", "source", "id")
    is_same = F.col("before") == F.col("epoch")
    twice = F.format_string("epoch %d was given twice", "epoch")
    out_of_order = F.format_string(
        "epoch %d before epoch %d, at %s", "epoch", "before", F.col("before_at").cast("string")
    )
    return (
        elections(shared.rare)
        .where(F.col("what") == "elected")
        .withColumns(
            {
                "before": F.lag("epoch").over(by_epoch),
                "before_at": F.lag("time").over(by_epoch),
                "before_line": F.lag(record_name()).over(by_epoch),
            }
        )
        .where(is_same | (F.col("before_at") > F.col("time") + skew()))
        .select(*violation(F.when(is_same, twice).otherwise(out_of_order), F.col("before_line"), record_name()))
    )


def overlapping(_: Evidence, shared: SharedFrames) -> DataFrame:
    """Tenures whose recorded end is after another controller became active."""
    terms = elections(shared.rare)
    ended = terms.where(F.col("what") == "resigned")
    active = terms.where(F.col("what") == "active").select(
        F.col("source").alias("other"),
        F.col("subject").alias("other_subject"),
        F.col("epoch").alias("other_epoch"),
        F.col("time").alias("active_at"),
        record_name().alias("other_line"),
    )
    detail = F.format_string(
        "it resigned epoch %d when %s had been active in epoch %d since %s",
        "epoch",
        "by.other_subject",
        "by.other_epoch",
        F.col("by.active_at").cast("string"),
    )
    during = (F.col("other_epoch") > F.col("epoch")) & (F.col("active_at") + skew() < F.col("time"))
    return (
        ended.join(F.broadcast(active), during & (F.col("other") != F.col("source")), "inner")
        .groupBy("source", "id", "subject", "time", "epoch")
        .agg(F.min_by(F.struct("other_subject", "other_epoch", "active_at", "other_line"), "other_epoch").alias("by"))
        .select(*violation(detail, F.col("by.other_line"), record_name()))
    )


def unfenced_writes(_: Evidence, shared: SharedFrames) -> DataFrame:
    """Fenced writes that began in another controller's tenure and took effect."""
    elected = elections(shared.rare).where(F.col("what") == "elected")
    own = elected.select("source", "run", F.col("seq").alias("elected_seq"), "epoch")
    later = elected.select(F.col("epoch").alias("later_epoch"), F.col("time").alias("elected_at"))
    took_ms = F.when(F.col("took_ms").between(0, MAX_WRITE_MS), F.col("took_ms"))
    begun = F.col("time") - F.make_dt_interval(secs=took_ms / 1000)
    writes = (
        rare_records_of_type(shared.rare, EventRecordType.ZNODE_WRITE, _WRITE)
        .where("fenced AND coalesce(outcomes['done'], 0) > 0")
        .withColumn("begun", begun)
    )
    in_tenure = writes.join(F.broadcast(own), ["source", "run"], "inner").where(F.col("elected_seq") < F.col("seq"))
    of = in_tenure.groupBy("source", "id", "subject", "time", "begun", "first_path").agg(F.max("epoch").alias("epoch"))
    words = "a write that began with %s, in epoch %d, took effect when epoch %d had begun"
    detail = F.format_string(words, "first_path", "epoch", "later_epoch")
    taken = (F.col("later_epoch") > F.col("epoch")) & (F.col("elected_at") + skew() < F.col("begun"))
    return (
        of.join(F.broadcast(later), taken, "inner")
        .groupBy("source", "id", "subject", "time", "begun", "first_path", "epoch")
        .agg(F.min("later_epoch").alias("later_epoch"))
        .select(*violation(detail, record_name()))
    )


def obeyed_late(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Requests of an older controller that an agent obeyed after a newer one, on the same day or
    the day before."""
    today = Window.partitionBy("source", "run", "day").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    yesterday = Window.partitionBy("source", "run").orderBy("day").rangeBetween(-1, -1)
    words = "it obeyed %s of controller %d in epoch %d after one of epoch %d"
    detail = F.format_string(words, "api", "controller", "controller_epoch", "highest")
    heard = F.greatest(F.max("controller_epoch").over(today), F.max("controller_epoch").over(yesterday))
    return (
        agents_records(evidence.controller_events, EventRecordType.REQUEST, _REQUEST)
        .withColumn("day", F.unix_date(F.to_date("time")))
        .withColumn("highest", heard)
        .where("controller_epoch < highest AND coalesce(answers['NONE'], 0) > 0")
        .select(*violation(detail, record_name()))
    )
