"""Topics from a survey's znodes, for other transforms: existence, marks, replicas.

The rows of topics and markers are few; those of partitions are many and are only joined on the topic or grouped by it.
Numbers have the form of `lethe survey` in sentences.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

TOPIC = ("survey_id", "topic")
PARTITION = (*TOPIC, "partition")
REPLICA = (*PARTITION, "broker")

_SHOWN = 10


def surveys_that_read(surveys: DataFrame, *paths: str) -> DataFrame:
    """survey_id: the surveys that could read these znodes, or found them absent."""
    unread = F.exists("problems", lambda problem: problem["where"].isin(*paths))
    return surveys.filter(~F.coalesce(unread, F.lit(False))).select("survey_id")


def of_kind(rows: DataFrame, *kinds: str) -> DataFrame:
    return rows.filter(F.col("kind").isin(*kinds))


def marked_topics(znodes: DataFrame) -> DataFrame:
    """survey_id, topic, is_marked (always true): every marker, of existing topics and others."""
    return of_kind(znodes, "marker").select(*TOPIC, F.lit(True).alias("is_marked"))


def existing_topics(znodes: DataFrame) -> DataFrame:
    """survey_id, topic, wanted_id (the id in ZooKeeper), created_at, is_readable, is_marked, exists (always true)."""
    return (
        of_kind(znodes, "topic")
        .join(marked_topics(znodes), [*TOPIC], "left")
        .select(
            *TOPIC,
            F.col("topic_id").alias("wanted_id"),
            "created_at",
            "is_readable",
            F.coalesce("is_marked", F.lit(False)).alias("is_marked"),
            F.lit(True).alias("exists"),
        )
    )


def assignments(znodes: DataFrame) -> DataFrame:
    """survey_id, topic, partition, replicas, adding, removing, leader: the partitions that a readable assignment has.
    `leader` is null without a readable state znode."""
    return (
        of_kind(znodes, "partition")
        .filter(F.col("replicas").isNotNull())
        .select(*PARTITION, "replicas", "adding", "removing", "leader")
    )


def assigned_replicas(znodes: DataFrame) -> DataFrame:
    """survey_id, topic, partition, broker, wanted_id, is_due: a row per replica. `is_due`: its broker should have a
    directory for it. False before the partition has a state, during a reassignment, and for a marked topic."""
    in_service = F.col("leader").isNotNull() & ~F.col("is_marked")
    return (
        assignments(znodes)
        .join(existing_topics(znodes), [*TOPIC], "inner")
        .select(
            *PARTITION,
            F.explode(F.array_distinct("replicas")).alias("broker"),
            "wanted_id",
            F.concat(_empty_if_null("adding"), _empty_if_null("removing")).alias("moving"),
            in_service.alias("in_service"),
        )
        .select(
            *REPLICA,
            "wanted_id",
            (F.col("in_service") & ~F.array_contains("moving", F.col("broker"))).alias("is_due"),
        )
    )


def topics_in_service(znodes: DataFrame) -> DataFrame:
    """survey_id, topic: those whose assigned partitions all have a readable state. A controller may not have announced
    the others to brokers yet."""
    is_up = F.bool_and(F.col("leader").isNotNull())
    return assignments(znodes).groupBy(*TOPIC).agg(is_up.alias("is_up")).filter("is_up").select(*TOPIC)


def topics_not_in_service(znodes: DataFrame) -> DataFrame:
    """survey_id, topic: the others with assigned partitions; few."""
    return assignments(znodes).filter(F.col("leader").isNull()).select(*TOPIC).distinct()


def topic_trees(znodes: DataFrame) -> DataFrame:
    """A row for each existing topic: survey_id, topic, path, is_readable, has_partitions (a znode /partitions), znodes
    (how many partitions have one), and numbers of partitions, sorted: bare (without a state znode), foreign (not in the
    assignment), gone (in the assignment, without a znode)."""
    is_topic = F.col("kind") == F.lit("topic")
    has_znode, is_assigned = F.col("has_znode"), F.col("replicas").isNotNull()
    return (
        of_kind(znodes, "topic", "partition")
        .groupBy(*TOPIC)
        .agg(
            F.max(F.when(is_topic, F.col("path"))).alias("path"),
            F.bool_or(F.when(is_topic, F.col("is_readable"))).alias("is_readable"),
            F.bool_or(F.when(is_topic, has_znode).otherwise(has_znode.isNotNull())).alias("has_partitions"),
            F.count_if(~is_topic & has_znode).alias("znodes"),
            _numbers_where(has_znode & ~F.col("has_state_znode")).alias("bare"),
            _numbers_where(has_znode & ~is_assigned).alias("foreign"),
            _numbers_where(~F.coalesce(has_znode, F.lit(False)) & is_assigned).alias("gone"),
        )
        .filter(F.col("path").isNotNull())
    )


def ids_differ(one: Column, other: Column) -> Column:
    """Whether two known topic ids differ; clusters before 2.8 have none, and brokers do not always report them."""
    return F.coalesce(one != other, F.lit(False))


def first_numbers_text(numbers: Column) -> Column:
    """The first ten numbers of an array, and the count of the others, as text."""
    shown = F.array_join(F.slice(F.transform(numbers, lambda number: number.cast("string")), 1, _SHOWN), ", ")
    more = F.size(numbers) - F.lit(_SHOWN)
    return F.concat(
        shown, F.when(more > 0, F.concat(F.lit(" and "), F.format_number(more, 0), F.lit(" more"))).otherwise("")
    )


def _numbers_where(condition: Column) -> Column:
    """A topic's own row, which has no partition, adds no number."""
    return F.sort_array(F.collect_list(F.when(condition, F.col("partition"))))


def _empty_if_null(column: str) -> Column:
    return F.coalesce(F.col(column), F.array().cast("array<int>"))
