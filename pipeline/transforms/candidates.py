"""Gold `stale_topic_candidates`: topics that seem unused, for an operator to check and delete.

A candidate is a topic **without a write for N days, created before that, with every byte where it belongs**. An empty
topic alone is no candidate: retention empties used topics too, and a producer may write again in an hour. `is_empty` is
therefore only shown. The criterion is the time of the last write or, if that is unknown, the time since which the sizes
are unchanged.

Sources for the last write:

* `mtime`. Every replica's directory was read on its broker's host: then the last write was not after the newest
  modification of any segment of any replica. An error can only be on the safe side: retention deletes old segments and
  never the active one, or rolls a new one, which is younger than the last write; so does a replica that is copied to
  another broker.
* `sizes`. Else only sizes are known (brokers report no times). The bytes of every replica were the same in all surveys
  of N days in which everything was seen, and no two neighbours of these lie further apart than `MAX_GAP_DAYS`. That is
  weaker: what is written between two surveys and deleted by retention before the second leaves no trace in sizes.
  Deleting therefore asks brokers for offsets and for consumers first. A modification that was read on one of the hosts
  and is younger than N days rules the topic out here too.

Times are counted up to the newest complete survey, not up to now: later events are unknown. Surveys after `now` are
ignored.

Never a candidate: internal topics (`__...`, such as the journal's own topic if it has its usual name), those of other
systems (`KEPT_BY_CUSTOM`), protected ones; a topic that was in motion, is marked, being reassigned, or for which the
survey has a finding other than bytes that wait for their removal; one with a replica out of the ISR, or with more or
fewer directories than replicas. Its data may be elsewhere. If the survey names a topic only by a prefix, all topics
with that prefix are excluded.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.literals import day_value
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.newest_survey import Survey
from lethe.protocol.findings import Reason
from lethe.protocol.kafka.directory_names import NEVER_CUT
from lethe.protocol.lake_rules import LakeRules
from lethe.protocol.survey_records import LOCAL
from lethe.protocol.topic_globs import KEPT_BY_CUSTOM, glob_as_regex
from lethe.protocol.vocabulary import INTERNAL_TOPICS

MAX_GAP_DAYS: Final = 2
"""Between two surveys whose sizes are compared."""
_DAY_S: Final = 86_400
_TOPIC: Final = ("survey_id", "topic")


def compared_since(rules: LakeRules, now: datetime) -> date:
    """Return the first day of compared surveys: longer ago than the rules say, to show for how much longer a topic is
    unused."""
    return now.date() - timedelta(days=2 * rules.unwritten_days + MAX_GAP_DAYS)


def stale_topic_candidates(
    newest: Survey,
    znodes: DataFrame,
    leftovers: DataFrame,
    surveys: DataFrame,
    directories: DataFrame,
    *,
    now: datetime,
    rules: LakeRules,
) -> DataFrame:
    """STALE_TOPIC_CANDIDATES from the newest complete survey with its ZNODE_SNAPSHOT and silver LEFTOVERS, and from the
    SURVEYS and AGENT_INVENTORY that it is compared with; `now` has a time zone."""
    is_compared = F.col("day") >= day_value(compared_since(rules, now))
    past = surveys.filter("complete").filter(is_compared & (F.col("taken_at") <= F.lit(now)))
    whole = _complete_topics(newest, newest.rows(znodes), newest.rows(directories), newest.rows(leftovers), rules)
    since = _unchanged_since(past, directories.filter(is_compared), whole)
    days = F.col("unwritten_s") / _DAY_S
    return (
        whole.join(since, ["topic"], "left")
        .withColumn("unwritten_s", _seconds("newest_at") - _seconds(_last_change()))
        .filter((days >= rules.unwritten_days) & (F.col("created_s") / _DAY_S >= rules.unwritten_days))
        .select(
            "topic",
            "topic_id",
            "partitions",
            "replicas",
            "size_bytes",
            F.col("signature.bytes").alias("segment_bytes"),
            "is_empty",
            "last_write",
            F.floor(days).alias("unwritten_days"),
            F.when(F.col("is_read"), F.lit("mtime")).otherwise(F.lit("sizes")).alias("evidence"),
            "created_at",
            "survey_id",
            F.col("newest_at").alias("taken_at"),
        )
        .transform(to_schema, schemas.STALE_TOPIC_CANDIDATES)
    )


def _last_change() -> Column:
    """The last known write, if it is later than the first survey with the present sizes."""
    return F.when(F.col("is_read"), F.col("last_write")).when(
        F.col("unchanged_since").isNotNull(), F.greatest("unchanged_since", "last_write")
    )


def _seconds(instant: str | Column) -> Column:
    return F.unix_micros(F.col(instant) if isinstance(instant, str) else instant) / 1_000_000


# --- the newest survey --------------------------------------------------------------------------------------------


def _complete_topics(
    newest: Survey, znodes: DataFrame, directories: DataFrame, leftovers: DataFrame, rules: LakeRules
) -> DataFrame:
    """A row for each topic that the newest survey saw completely and that may be a candidate."""
    created_s = _seconds("newest_at") - _seconds("created_at")
    is_known = F.col("is_readable") & F.col("created_at").isNotNull()
    return (
        _of_kind(znodes, "topic")
        .filter(is_known & _is_eligible(rules) & ~newest.was_in_motion(F.col("topic")))
        .select(*_TOPIC, "topic_id", "created_at", newest.taken_at.alias("newest_at"))
        .join(_of_kind(znodes, "marker", "reassignment"), [*_TOPIC], "left_anti")
        .withColumn("start", _name_prefix())
        .join(_topics_with_findings(leftovers), ["survey_id", "start"], "left_anti")
        .join(_healthy_topics(znodes), [*_TOPIC], "inner")
        .join(_stored_sizes(directories), [*_TOPIC], "inner")
        .filter(F.col("stored_replicas") == F.col("replicas"))
        .withColumn("created_s", created_s)
    )


def _of_kind(rows: DataFrame, *kinds: str) -> DataFrame:
    return rows.filter(F.col("kind").isin(*kinds))


def _is_eligible(rules: LakeRules) -> Column:
    topic = F.col("topic")
    forbidden = topic.startswith("__") | topic.isin(*sorted(INTERNAL_TOPICS))
    for pattern in (*KEPT_BY_CUSTOM, *rules.protected):
        forbidden |= topic.rlike(f"^(?:{glob_as_regex(pattern)})$")
    return ~forbidden


def _name_prefix() -> Column:
    return F.substring("topic", 1, NEVER_CUT)


def _topics_with_findings(leftovers: DataFrame) -> DataFrame:
    """survey_id, prefix of the topic's name: topics with a finding."""
    return (
        leftovers.filter(F.col("reason") != F.lit(Reason.NOT_RECLAIMED_YET.code))
        .select("survey_id", _name_prefix().alias("start"))
        .distinct()
    )


def _healthy_topics(znodes: DataFrame) -> DataFrame:
    """survey_id, topic, partitions, replicas (how many): topics with a leader and a full ISR in every partition, and no
    moving replica."""
    is_moving = F.coalesce(F.size("adding"), F.lit(0)) + F.coalesce(F.size("removing"), F.lit(0)) > 0
    is_full = (F.col("leader") >= 0) & (F.array_sort("isr") == F.array_sort("replicas"))
    is_healthy = F.coalesce(F.col("has_znode") & F.col("has_state_znode") & is_full & ~is_moving, F.lit(False))
    return (
        _of_kind(znodes, "partition")
        .groupBy(*_TOPIC)
        .agg(
            F.count("*").alias("partitions"),
            F.sum(F.size("replicas")).alias("replicas"),
            F.bool_and(is_healthy).alias("is_healthy"),
        )
        .filter("is_healthy")
        .drop("is_healthy")
    )


def _stored_sizes(directories: DataFrame) -> DataFrame:
    """survey_id, topic and the sums of its directories. A topic with a replica that moves to another log directory is
    left out; a replica without a directory is a finding of the survey."""
    is_replica = F.col("kind") == F.lit("replica")
    return (
        _of_kind(directories, "replica", "future")
        .groupBy(*_TOPIC)
        .agg(
            F.count_if(is_replica).alias("stored_replicas"),
            F.bool_or(~is_replica).alias("is_moving"),
            F.sum("size_bytes").alias("size_bytes"),
            F.bool_and(F.coalesce(_segment_bytes() == 0, F.lit(False))).alias("is_empty"),
            F.max("newest_segment_write").alias("last_write"),
            F.bool_and((F.col("source") == LOCAL) & F.col("newest_segment_write").isNotNull()).alias("is_read"),
            _signature().alias("signature"),
        )
        .filter(~F.col("is_moving"))
        .drop("is_moving")
    )


def _segment_bytes() -> Column:
    """Bytes of a replica's segments, as brokers report the size of a replica."""
    return F.when(F.col("source") == LOCAL, F.col("segment_bytes")).otherwise(F.col("size_bytes"))


def _signature() -> Column:
    """Equal if every replica of a topic has the same bytes on the same broker; null if the bytes of one are unknown.
    The sum of hashes does not depend on the order of rows."""
    known = F.bool_and(_segment_bytes().isNotNull())
    hashes = F.sum(F.xxhash64("partition", "broker", _segment_bytes()).cast("decimal(38,0)"))
    return F.when(
        known, F.struct(F.count("*").alias("replicas"), F.sum(_segment_bytes()).alias("bytes"), hashes.alias("hash"))
    )


# --- older surveys ------------------------------------------------------------------------------------------------


def _unchanged_since(past: DataFrame, directories: DataFrame, whole: DataFrame) -> DataFrame:
    """topic, unchanged_since: when the first of the surveys was taken that ends at the newest one, lies without a gap,
    and has the same bytes for every replica all along. Only for topics without a better source. Surveys before the
    topic's creation do not count."""
    wanted = whole.filter(~F.col("is_read") & F.col("signature").isNotNull()).select(
        "topic", "created_at", "newest_at", F.col("signature").alias("newest_signature")
    )
    times = past.select("survey_id", "taken_at")
    back_in_time = Window.partitionBy("topic").orderBy(F.desc("taken_at"), F.desc("survey_id"))
    later = F.lag("taken_at").over(back_in_time)
    too_far = F.coalesce(_seconds(later) - _seconds("taken_at") > MAX_GAP_DAYS * _DAY_S, F.lit(False))
    is_same = F.coalesce(F.col("signature") == F.col("newest_signature"), F.lit(False))
    return (
        _of_kind(directories, "replica")
        .groupBy(*_TOPIC)
        .agg(_signature().alias("signature"))
        .join(wanted, ["topic"], "inner")
        .join(F.broadcast(times), ["survey_id"], "inner")
        .filter((F.col("taken_at") <= F.col("newest_at")) & (F.col("taken_at") >= F.col("created_at")))
        .withColumn("is_broken", ~is_same | too_far)
        .withColumn("was_broken", F.bool_or("is_broken").over(back_in_time))
        .filter(~F.col("was_broken"))
        .groupBy("topic")
        .agg(F.min("taken_at").alias("unchanged_since"))
    )
