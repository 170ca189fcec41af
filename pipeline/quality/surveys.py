"""Rules on what surveys saw on disks.

Comparable are two surveys that read the same log directory themselves (brokers report no `-delete` directories of other
hosts and no exact sizes) on one day or on two that follow each other, and the lines of an agent that ran all the time
between them. A directory that waited for its removal in the first survey does not change any more: the agent must have
freed exactly its bytes. A replica may have grown meanwhile, which is a warning.

All directories that one survey read itself lie on one host, so that a path identifies one directory. In the scans of
two brokers it means that one deletes the other's data. For paths that only brokers report the host is unknown.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline.quality.evidence import Evidence, SharedFrames, agents_records, is_next_day, record_name
from lethe.pipeline.transforms.counting import plural_of
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.directory_names import NEVER_CUT
from lethe.protocol.survey_records import LOCAL

TOLERANCE: Final = 0.01
_DIGITS: Final = 11
"""Of milliseconds since 1970 in hexadecimal; enough until the year 2527."""
_FREED: Final = "log_dir string, topic string, directories bigint, size_bytes bigint, error string"


def freed_not_as_seen(_: Evidence, shared: SharedFrames) -> DataFrame:
    """Removed directories for which the agent reported another number of bytes than the survey."""
    return shared.freed.where(~F.col("has_replicas")).select("subject", "time", "detail", "event_ids")


def freed_not_as_seen_in_service(_: Evidence, shared: SharedFrames) -> DataFrame:
    """As `freed_not_as_seen`, for directories that were in service in the first survey."""
    return shared.freed.where("has_replicas").select("subject", "time", "detail", "event_ids")


def freed(evidence: Evidence) -> DataFrame:
    """The frame `SharedFrames.freed`: subject, time, detail, event_ids, has_replicas. A row per survey, broker, log
    directory and topic whose vanished and freed bytes differ by more than TOLERANCE."""
    seen = _vanished(evidence).alias("seen")
    told = (
        agents_records(evidence.controller_events, EventRecordType.BYTES_FREED, _FREED)
        .withColumn("broker", F.substring_index("source", "/", -1).try_cast("int"))
        .alias("freed")
    )
    between = (
        (F.col("freed.broker") == F.col("seen.broker"))
        & (F.col("freed.log_dir") == F.col("seen.log_dir"))
        & (F.col("freed.topic") == F.col("seen.topic"))
        & (F.col("freed.time") > F.col("seen.taken_at"))
        & (F.col("freed.time") <= F.col("seen.next_at"))
    )
    # More digits are no time, and those of a damaged line no number either.
    is_time = F.length("freed.run") <= _DIGITS
    began = F.when(is_time, F.timestamp_millis(F.conv("freed.run", 16, 10).cast("bigint")))
    summed = (
        seen.join(told, between, "inner")
        .groupBy("seen.broker", "seen.log_dir", "seen.topic", "seen.taken_at", "seen.next_at")
        .agg(
            F.first("seen.vanished_bytes").alias("vanished_bytes"),
            F.first("seen.vanished").alias("vanished"),
            F.first("seen.has_replicas").alias("has_replicas"),
            F.try_sum("freed.size_bytes").alias("freed_bytes"),
            F.try_sum(F.when(F.col("freed.error").isNull(), F.col("freed.directories"))).alias("freed"),
            F.bool_or(F.col("freed.error").isNotNull()).alias("with_errors"),
            F.bool_or(began > F.col("seen.taken_at")).alias("restarted"),
            F.slice(F.sort_array(F.collect_list(record_name("freed.source", "freed.id"))), 1, 10).alias("event_ids"),
        )
    )
    off = F.abs(F.col("freed_bytes").cast("double") - F.col("vanished_bytes")) > F.col("vanished_bytes") * TOLERANCE
    return (
        # Only if as many directories were freed as vanished: otherwise some were made and removed in between.
        summed.where(off & (F.col("freed") == F.col("vanished")) & ~F.col("with_errors") & ~F.col("restarted")).select(
            F.format_string("topic/%s on %d", "topic", "broker").alias("subject"),
            F.col("next_at").alias("time"),
            F.format_string(
                "%d %s freed in %s, where %d %s held %d",
                "freed_bytes",
                plural_of(F.col("freed_bytes"), "byte"),
                "log_dir",
                "vanished",
                plural_of(F.col("vanished"), "directory", "directories"),
                "vanished_bytes",
            ).alias("detail"),
            "event_ids",
            "has_replicas",
        )
    )


def _vanished(evidence: Evidence) -> DataFrame:
    """Directories of a log directory that the next survey did not find: `broker, log_dir, topic, taken_at, next_at,
    vanished, vanished_bytes, has_replicas`."""
    local = evidence.agent_inventory.where(F.col("source") == LOCAL)
    looked = local.where((F.col("kind") == "log-dir") & F.col("problem").isNull())
    in_time = Window.partitionBy("broker", "log_dir").orderBy("taken_at")
    pairs = (
        looked.select("survey_id", "broker", "log_dir", "taken_at")
        .withColumns({"next_id": F.lead("survey_id").over(in_time), "next_at": F.lead("taken_at").over(in_time)})
        .where(is_next_day(F.to_date("next_at"), F.to_date("taken_at")))
    )
    there = (
        local.where(
            F.col("kind").isin("replica", "deleted") & F.col("topic").isNotNull() & (F.length("topic") <= NEVER_CUT)
        )
        .groupBy("survey_id", "broker", "log_dir", "topic")
        .agg(
            F.count("*").alias("vanished"),
            F.try_sum("size_bytes").alias("vanished_bytes"),
            F.bool_or(F.col("kind") == "replica").alias("has_replicas"),
            F.bool_or(F.col("problem").isNotNull()).alias("is_unclear"),
        )
    )
    still = there.select(F.col("survey_id").alias("next_id"), "broker", "log_dir", "topic")
    return (
        there.where(~F.col("is_unclear"))
        .join(F.broadcast(pairs), ["survey_id", "broker", "log_dir"], "inner")
        .join(still, ["next_id", "broker", "log_dir", "topic"], "left_anti")
        .select("broker", "log_dir", "topic", "taken_at", "next_at", "vanished", "vanished_bytes", "has_replicas")
    )


def scanned_twice(evidence: Evidence, _: SharedFrames) -> DataFrame:
    """Directories that one survey read itself, as two brokers'."""
    path = _path().alias("path")
    return (
        evidence.agent_inventory.where((F.col("source") == LOCAL) & (F.col("kind") == "log-dir"))
        .select("survey_id", "taken_at", path, "broker")
        .groupBy("survey_id", "taken_at", "path")
        .agg(F.sort_array(F.collect_set("broker")).alias("brokers"))
        .where(F.size("brokers") > 1)
        .select(
            F.format_string("directory%s", "path").alias("subject"),
            F.col("taken_at").alias("time"),
            F.format_string(
                "survey %s read it as that of brokers %s",
                "survey_id",
                F.array_join(F.col("brokers").cast("array<string>"), ", "),
            ).alias("detail"),
            F.array().cast("array<string>").alias("event_ids"),
        )
    )


def _path() -> Column:
    """Without the slashes that do not matter."""
    return F.regexp_replace(F.regexp_replace("log_dir", "/+", "/"), "(?<=.)/$", "")
