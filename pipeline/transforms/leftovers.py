"""Silver `leftovers`: leftovers by survey, with place and reason.

These are the findings of `survey.leftovers`, which has the rules and the reasons for them, found by joins instead of
look-ups in memory; a property test requires the same rows of both. ZooKeeper is the reference, doubt gives no finding,
and topics in motion give none. A survey lists unseen znodes by path in its problems: a finding requires a survey that
has seen everything that the finding depends on, which a filter on the one row of each survey decides.

Performance. A healthy cluster has millions of directories and almost no findings, so the large frames are joined once:
replicas as assigned with replicas as found on disk, in a full outer join on (survey, topic, partition, broker). That is
the anti-join in both directions. Only mismatches reach the joins that find the reason. Nothing is compared with
everything: of a directory whose name was cut only the start of the topic is known, and the topics that begin with it
stand together when names are sorted, so that looking at the next one is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema, union_of
from lethe.pipeline.transforms.directories import LOG_DIR
from lethe.pipeline.transforms.survey_topics import (
    PARTITION,
    REPLICA,
    TOPIC,
    assigned_replicas,
    assignments,
    existing_topics,
    first_numbers_text,
    ids_differ,
    marked_topics,
    of_kind,
    surveys_that_read,
    topic_trees,
    topics_in_service,
    topics_not_in_service,
)
from lethe.protocol.findings import NO_PARTITIONS, Place, Reason
from lethe.protocol.kafka.directory_names import NEVER_CUT
from lethe.protocol.zookeeper import paths


def leftovers(surveys: DataFrame, znodes: DataFrame, metadata: DataFrame, directories: DataFrame) -> DataFrame:
    """Return LEFTOVERS from SURVEYS, ZNODE_SNAPSHOT, BROKER_METADATA and silver DIRECTORIES, of all surveys in them."""
    topics = existing_topics(znodes)
    # Rows without a topic: only if all topics are known.
    of_none = (
        _named_topics(surveys, znodes, topics),
        _incomplete(surveys, znodes),
        _wrongly_cached(metadata, topics),
        _in_no_cache(surveys, znodes, metadata),
        _moving_replicas(directories, topics),
        _misplaced(surveys, znodes, metadata, directories, topics),
    )
    knows_topics = _keep_surveys(surveys_that_read(surveys, paths.BROKER_TOPICS))
    found = (_renamed_or_owed(directories), union_of(of_none).transform(knows_topics))
    moving = surveys.select("survey_id", F.explode("in_motion").alias("topic"))
    days = surveys.select("survey_id", "taken_at", F.to_date("taken_at").alias("day"))
    return (
        union_of(found)
        .join(F.broadcast(moving), [*TOPIC], "left_anti")
        .join(F.broadcast(days), ["survey_id"], "inner")
        .transform(to_schema, schemas.LEFTOVERS)
    )


def _with_known_plans(surveys: DataFrame) -> DataFrame:
    """Return survey_id, knows_plans (true): the surveys that read all markers and reassignments."""
    known = surveys_that_read(surveys, paths.DELETE_TOPICS, paths.REASSIGN_PARTITIONS)
    return F.broadcast(known.withColumn("knows_plans", F.lit(True)))


def _keep_surveys(surveys: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Keep the rows of these surveys."""
    return lambda rows: rows.join(F.broadcast(surveys), ["survey_id"], "left_semi")


def _finding(
    place: Place,
    reason: Reason | Column,
    what: Column,
    *,
    broker: Column | None = None,
    partition: Column | None = None,
    size_bytes: Column | None = None,
    detail: Column | None = None,
) -> list[Column]:
    """The columns of a finding; `survey_id` and `topic` are those of its row."""
    code = F.lit(reason.code) if isinstance(reason, Reason) else reason
    standings = F.create_map(*(F.lit(text) for each in Reason for text in (each.code, each.standing.code)))
    nothing = F.lit(None)
    return [
        *(F.col(name) for name in TOPIC),
        F.lit(place.value).alias("place"),
        standings[code].alias("standing"),
        code.alias("reason"),
        what.alias("what"),
        (nothing if broker is None else broker).cast("int").alias("broker"),
        (nothing if partition is None else partition).cast("int").alias("partition"),
        (F.lit(0) if size_bytes is None else size_bytes).cast("long").alias("size_bytes"),
        (nothing if detail is None else detail).cast("string").alias("detail"),
    ]


def _code(reason: Reason) -> Column:
    return F.lit(reason.code)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def _named_topics(surveys: DataFrame, znodes: DataFrame, topics: DataFrame) -> DataFrame:
    """Return markers, and settings and reassignments without a topic. Settings of topics in the trash are kept, and are
    no rows; of an unseen trash none are known."""
    sees_trash = surveys_that_read(surveys, paths.TRASH).withColumn("sees_trash", F.lit(True))
    kind, exists = F.col("kind"), F.col("exists").isNotNull()
    of_marker = F.when(exists, _code(Reason.MARKED_TOPIC)).otherwise(_code(Reason.MARKER_WITHOUT_TOPIC))
    reason = (
        F.when(kind == "marker", of_marker)
        .when(~exists & (kind == "reassignment"), _code(Reason.REASSIGNMENT_WITHOUT_TOPIC))
        .when(~exists & F.col("sees_trash"), _code(Reason.CONFIG_WITHOUT_TOPIC))
    )
    partition = F.when(kind == "reassignment", F.col("partition"))
    return (
        of_kind(znodes, "marker", "config", "reassignment")
        .select(*TOPIC, "kind", "path", "partition")
        .join(topics, [*TOPIC], "left")
        .join(F.broadcast(sees_trash), ["survey_id"], "left")
        .withColumn("reason", reason)
        .filter(F.col("reason").isNotNull())
        .select(*_finding(Place.ZOOKEEPER, F.col("reason"), F.col("path"), partition=partition))
    )


def _incomplete(surveys: DataFrame, znodes: DataFrame) -> DataFrame:
    """Topics with an incomplete tree. One with an unreadable znode is among the survey's problems, and /partitions is
    missing only where it could be read."""
    is_marked = F.col("is_marked").isNotNull()
    is_going = is_marked | (F.col("znodes") == 0)
    reason = F.when(is_marked, _code(Reason.HALF_DELETED_TOPIC)).otherwise(_code(Reason.INCOMPLETE_TOPIC))
    lacks_all = ~F.col("has_partitions") & ~is_marked & (F.size("gone") > 0) & F.col("is_unread").isNull()
    damage = (
        F.when(~F.col("has_partitions"), F.when(lacks_all, F.lit(NO_PARTITIONS)))
        .when(F.size("bare") > 0, _sentence("partitions", "bare", "have no state"))
        .when(F.size("foreign") > 0, _sentence("partitions", "foreign", "are not in its assignment"))
        .when((F.size("gone") > 0) & is_going, _sentence("partitions", "gone", "are gone"))
    )
    return (
        topic_trees(znodes)
        .filter(F.col("is_readable") & F.col("has_partitions").isNotNull())
        .join(marked_topics(znodes), [*TOPIC], "left")
        .join(_unread_partitions(surveys), [*TOPIC], "left")
        .join(_with_known_plans(surveys), ["survey_id"], "left")
        .withColumn("damage", damage)
        .filter(F.col("damage").isNotNull() & (is_marked | F.col("knows_plans").isNotNull()))
        .select(*_finding(Place.ZOOKEEPER, reason, F.col("path"), detail=F.col("damage")))
    )


def _unread_partitions(surveys: DataFrame) -> DataFrame:
    """Return survey_id, topic, is_unread (true): the topics whose /partitions could not be read."""
    topic = F.regexp_extract(F.col("problem")["where"], f"^{paths.topic_partitions('([^/]+)')}$", 1)
    problems = surveys.select("survey_id", F.explode("problems").alias("problem"))
    unread = problems.select("survey_id", topic.alias("topic")).filter("topic != ''").distinct()
    return F.broadcast(unread.withColumn("is_unread", F.lit(True)))


def _sentence(before: str, numbers: str, after: str) -> Column:
    return F.concat(F.lit(f"{before} "), first_numbers_text(F.col(numbers)), F.lit(f" {after}"))


# --- caches -------------------------------------------------------------------------------------------------------


def _wrongly_cached(metadata: DataFrame, topics: DataFrame) -> DataFrame:
    is_other = ids_differ(F.col("topic_id"), F.col("wanted_id"))
    reason = F.when(F.col("exists").isNull(), _code(Reason.CACHED_WITHOUT_TOPIC)).otherwise(
        _code(Reason.CACHED_OTHER_INCARNATION)
    )
    detail = F.when(is_other, _ids("cached"))
    return (
        of_kind(metadata, "topic")
        .select(*TOPIC, "broker", "topic_id")
        .join(topics, [*TOPIC], "left")
        .filter(F.col("exists").isNull() | is_other)
        .select(*_finding(Place.CACHE, reason, F.col("topic"), broker=F.col("broker"), detail=detail))
    )


def _in_no_cache(surveys: DataFrame, znodes: DataFrame, metadata: DataFrame) -> DataFrame:
    """Return topics in service that no cache has. Requires that every registered broker reported its cache."""
    answered = of_kind(metadata, "broker").filter("answered").select("survey_id", "broker", F.lit(True).alias("told"))
    is_registration = F.col("problem")["where"].startswith(f"{paths.BROKER_IDS}/")
    is_unread = (F.col("problem")["where"] == F.lit(paths.BROKER_IDS)) | is_registration
    unclear = surveys.select("survey_id", F.explode("problems").alias("problem")).filter(is_unread)
    have_all = (
        of_kind(znodes, "broker")
        .select("survey_id", "broker")
        .join(answered, ["survey_id", "broker"], "left")
        .groupBy("survey_id")
        .agg(F.bool_and(F.col("told").isNotNull()).alias("have_all"))
        .filter("have_all")
        .join(unclear, ["survey_id"], "left_anti")
    )
    return (
        topics_in_service(znodes)
        .join(marked_topics(znodes), [*TOPIC], "left_anti")
        .join(of_kind(metadata, "topic"), [*TOPIC], "left_anti")
        .transform(_keep_surveys(have_all.select("survey_id")))
        .transform(_keep_surveys(_with_known_plans(surveys).select("survey_id")))
        .select(*_finding(Place.CACHE, Reason.IN_NO_CACHE, F.col("topic")))
    )


# --- disks --------------------------------------------------------------------------------------------------------


def _on_disk(reason: Reason | Column, what: Column | None = None, detail: Column | None = None) -> list[Column]:
    return _finding(
        Place.DISK,
        reason,
        F.concat_ws("/", "log_dir", "directory") if what is None else what,
        broker=F.col("broker"),
        partition=F.col("partition"),
        size_bytes=F.coalesce("size_bytes", F.lit(0)),
        detail=detail,
    )


def _renamed_or_owed(directories: DataFrame) -> DataFrame:
    """Return directories of any topic that their broker has renamed, deleted or quarantined, and those that a debt of
    their broker covers, which the survey has judged."""
    kind = F.col("kind")
    renamed = F.when(kind == "deleted", _code(Reason.NOT_RECLAIMED_YET)).when(
        kind == "stray", _code(Reason.STRAY_DIRECTORY)
    )
    owed = F.when(F.col("is_owed"), _code(Reason.DIRECTORY_OWED))
    reasons = F.explode(F.array_compact(F.array(renamed, owed)))
    some = directories.filter(kind.isin("deleted", "stray") | F.col("is_owed"))
    return some.withColumn("reason", reasons).select(*_on_disk(F.col("reason")))


def _moving_replicas(directories: DataFrame, topics: DataFrame) -> DataFrame:
    """Return moving replicas of no topic whose names may be cut to the start of a topic's name. `_misplaced` handles
    the others."""
    unknown = of_kind(directories, "future").filter(_may_be_cut()).join(topics, [*TOPIC], "left_anti")
    is_start = _prefixes_of(unknown.select(*TOPIC).distinct(), topics)
    return unknown.join(is_start, [*TOPIC], "left_anti").select(*_on_disk(Reason.DIRECTORY_WITHOUT_TOPIC))


def _may_be_cut() -> Column:
    return F.length("topic") > NEVER_CUT


def _prefixes_of(names: DataFrame, topics: DataFrame) -> DataFrame:
    """Return those of the names (survey_id, topic) that are a proper prefix of a topic's name. In sorted order, the
    first topic after a name begins with it, or none does."""
    window = Window.partitionBy("survey_id", F.substring("topic", 1, 1)).orderBy(F.desc("topic"))
    following = F.last(F.when(F.col("exists"), F.col("topic")), ignorenulls=True).over(
        window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        names.withColumn("exists", F.lit(False))
        .unionByName(topics.select(*TOPIC, "exists"))
        .withColumn("following", following)
        .filter(~F.col("exists") & F.col("following").startswith(F.col("topic")))
        .select(*TOPIC)
    )


def _misplaced(
    surveys: DataFrame, znodes: DataFrame, metadata: DataFrame, directories: DataFrame, topics: DataFrame
) -> DataFrame:
    """Directories without a replica, and replicas without a directory. A directory that moves to another log directory
    is judged like a replica's, but does not count as one.

    The topic id is checked first: a directory of another incarnation is a finding wherever it is. The directory of an
    existing topic is not judged if the topic is marked, its assignment is unreadable, or the partition is being moved.
    What a debt covers, and what may be kept in the trash, the survey has judged.
    """
    found, on_their_way = (
        of_kind(directories, kind).select(
            *REPLICA, F.col("topic_id").alias("found_id"), "log_dir", "directory", "size_bytes", "is_owed", "is_kept"
        )
        for kind in ("replica", "future")
    )
    is_assigned, is_found = F.col("is_due").isNotNull(), F.col("directory").isNotNull()
    is_other = ids_differ(F.col("found_id"), F.col("wanted_id"))
    assigned = assigned_replicas(znodes)
    is_misplaced = is_found & (~is_assigned | is_other)
    doubtful = (
        assigned.join(found, [*REPLICA], "full")
        .filter(is_misplaced | (~is_found & F.col("is_due")))
        .unionByName(on_their_way.filter(~_may_be_cut()).join(assigned, [*REPLICA], "left").filter(is_misplaced))
        .drop("wanted_id")
    )
    exists = F.col("exists").isNotNull()
    plans = of_kind(znodes, "reassignment").select(*PARTITION, F.lit(True).alias("is_planned")).distinct()
    unready = topics_not_in_service(znodes).withColumn("is_unready", F.lit(True))
    is_settled = F.col("knows_plans").isNotNull() & F.col("is_planned").isNull()
    is_missed = F.col("is_watched") & is_settled & F.col("is_unready").isNull()
    reason = (
        F.when(F.col("is_owed") | F.col("is_kept"), F.lit(None).cast("string"))
        .when(~is_found, F.when(is_missed, _code(Reason.REPLICA_WITHOUT_DIRECTORY)))
        .when(~exists, _code(Reason.DIRECTORY_WITHOUT_TOPIC))
        .when(is_other, _code(Reason.DIRECTORY_OF_OTHER_INCARNATION))
        .when(F.col("is_readable") & ~F.col("is_marked") & is_settled, _code(Reason.DIRECTORY_NOT_ASSIGNED))
    )
    place = F.coalesce(F.concat(F.lit("on "), first_numbers_text(F.col("replicas"))), F.lit("nowhere"))
    detail = F.when(F.col("reason") == Reason.DIRECTORY_OF_OTHER_INCARNATION.code, _ids("its id is", "found_id")).when(
        F.col("reason") == Reason.DIRECTORY_NOT_ASSIGNED.code,
        F.concat(F.lit("partition "), F.col("partition").cast("string"), F.lit(" is "), place),
    )
    what = F.when(~is_found, F.concat_ws("-", "topic", F.col("partition").cast("string"))).otherwise(
        F.concat_ws("/", "log_dir", "directory")
    )
    return (
        doubtful.join(topics, [*TOPIC], "left")
        .join(assignments(znodes).select(*PARTITION, "replicas"), [*PARTITION], "left")
        .join(plans, [*PARTITION], "left")
        .join(unready, [*TOPIC], "left")
        .join(_with_known_plans(surveys), ["survey_id"], "left")
        .join(F.broadcast(_fully_seen_brokers(znodes, metadata, directories)), ["survey_id", "broker"], "left")
        .withColumn("reason", reason)
        .filter(F.col("reason").isNotNull())
        .select(*_on_disk(F.col("reason"), what, detail))
    )


def _fully_seen_brokers(znodes: DataFrame, metadata: DataFrame, directories: DataFrame) -> DataFrame:
    """survey_id, broker, is_watched (true): live brokers that reported their log directories, each of which was seen
    completely. For others a missing directory cannot be concluded."""
    told = of_kind(metadata, "broker").filter("told_log_dirs").select("survey_id", "broker")
    live = of_kind(znodes, "broker").select("survey_id", "broker")
    has_problem = F.coalesce("problem", F.lit("")) != ""
    return (
        of_kind(directories, LOG_DIR)
        .groupBy("survey_id", "broker")
        .agg(F.bool_or(has_problem).alias("is_doubtful"))
        .filter(~F.col("is_doubtful"))
        .join(live, ["survey_id", "broker"], "left_semi")
        .join(told, ["survey_id", "broker"], "left_semi")
        .select("survey_id", "broker", F.lit(True).alias("is_watched"))
    )


# --- words --------------------------------------------------------------------------------------------------------


def _ids(what: str, found: str = "topic_id") -> Column:
    return F.concat(F.lit(f"{what} "), F.col(found), F.lit(", the topic's is "), F.col("wanted_id"))
