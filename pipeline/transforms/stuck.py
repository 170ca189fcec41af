"""Topics whose marked deletion takes too long, and why: from the journal, the newest survey, or both.

Theory of operation. An open span has the causes that the journal records. While the newest active controller has
deletions paused, all of them wait for that, also those that were queued before the pause. After its resignation the
pause is unknown until the next controller records it. The newest survey says which topics are marked in ZooKeeper,
since when, and which of the brokers that have their replicas are not registered; a cluster under Kafka's own controller
has no other source. If both sources know the topic, the causes of both are listed.

A span without an end in the journal is not stuck if a survey after its last line proves the end: it finds another
incarnation, or it has read all of ZooKeeper and finds the topic neither marked nor incomplete. Clocks of different
machines differ: a survey counts as taken after a line only if it is younger by more than `CLOCKS_DIFFER_MS`, and one
that is that far after `now` is ignored.

The newest survey lists the registered brokers. It overrides an earlier line about an absent broker, so that no operator
starts a second broker with the id of a running one.

An unmarked topic is not stuck by the survey alone, even with an incomplete tree: it may be in creation. It is stuck if
the journal has an open deletion of it too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.newest_survey import Survey
from lethe.pipeline.transforms.stuck_causes import TYPE, cause, cause_if, fill_topic, no_causes
from lethe.pipeline.transforms.waits import ASKED, BROKER_TO_RETURN, LOG_DIRECTORY, UNREACHABLE
from lethe.protocol.causes import HELD_BY, CauseKind
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.findings import Reason
from lethe.protocol.zookeeper import paths

_INSTANTS: Final = (
    "marked_at",
    "queued_at",
    "started_at",
    "tombstoned_at",
    "first_ack_at",
    "acknowledged_at",
    "last_ack_at",
)
_SPAN: Final = ("topic", "topic_id", "span")
_MARKED: Final = (Reason.MARKED_TOPIC, Reason.MARKER_WITHOUT_TOPIC, Reason.HALF_DELETED_TOPIC)
_INCOMPLETE: Final = (Reason.HALF_DELETED_TOPIC, Reason.INCOMPLETE_TOPIC)


class Surveyed(NamedTuple):
    """The newest survey that is not in the future, and tables with its rows."""

    survey: Survey
    znodes: DataFrame
    """ZNODE_SNAPSHOT"""
    leftovers: DataFrame
    """LEFTOVERS"""


def waiting_deletions(
    spans: DataFrame, replicas: DataFrame, tenures: DataFrame, *, surveyed: Surveyed | None = None
) -> DataFrame:
    """WAITING_DELETIONS, from DELETION_SPANS and REPLICA_DELETIONS (open ones suffice), CONTROLLER_TENURES and, where
    there are any, surveys."""
    rows = _stuck_by_journal(spans, replicas).transform(_with_pause, tenures)
    if surveyed is not None:
        rows = _with_survey(rows, surveyed)
    causes = F.array_sort(
        F.when(F.size("causes") > 0, F.array_distinct("causes")).otherwise(
            F.when(F.col("seen_in") == "survey", F.array(cause(CauseKind.MARKED))).otherwise(
                F.array(cause(CauseKind.NOT_RECORDED))
            )
        )
    )
    brokers = F.array_compact(F.transform("causes", lambda each: each["broker"]))
    return to_schema(
        rows.withColumn("causes", causes).withColumns(
            {
                "reasons": F.transform("causes", lambda each: each["sentence"]),
                "brokers": F.array_sort(F.array_distinct(brokers)),
                "remedy": fill_topic(F.element_at("causes", 1)["remedy"]),
            }
        ),
        schemas.WAITING_DELETIONS,
    )


# --- the journal --------------------------------------------------------------------------------------------------


def _stuck_by_journal(spans: DataFrame, replicas: DataFrame) -> DataFrame:
    """Return topic, topic_id, span, since, phase, causes, tried, seen_in, last_at. `tried`: broker → the last time that
    it could not be asked, or refused."""
    # If the znodes were removed, only the line "done" is missing.
    still_open = spans.where((F.col("outcome") == OPEN) & F.col("znodes_gone_at").isNull())
    key = [F.col(f"open.{name}").eqNullSafe(F.col(f"of.{name}")) for name in _SPAN]
    joined = still_open.alias("open").join(_of_brokers(replicas).alias("of"), key, "left")
    return (
        joined.select(
            *(F.col(f"open.{name}").alias(name) for name in _SPAN),
            *(F.col(f"open.{name}") for name in (*_INSTANTS, "phase", "held", "waited_for")),
            F.coalesce("of.silent", F.array().cast("array<int>")).alias("silent"),
            F.col("of.tried").alias("tried"),
        )
        .select(
            *_SPAN,
            F.coalesce(*_INSTANTS).alias("since"),
            "phase",
            F.concat(_hold_causes(), _wait_causes(), _answer_causes(), _finish_causes()).alias("causes"),
            "tried",
            F.lit("journal").alias("seen_in"),
            F.greatest(*_INSTANTS).alias("last_at"),
        )
        .where(F.col("since").isNotNull())
    )


def _of_brokers(replicas: DataFrame) -> DataFrame:
    """Return for each span: silent (brokers that were asked and have neither acknowledged nor refused since), tried."""
    owes_answer = F.col("last_asked_at").isNotNull() & F.col("ack_ms").isNull() & F.col("ineligible_ms").isNotNull()
    return (
        replicas.groupBy(*_SPAN, "broker")
        .agg(F.bool_or(owes_answer).alias("owes_answer"), F.max("last_ineligible_at").alias("at"))
        .groupBy(*_SPAN)
        .agg(
            F.sort_array(F.collect_set(F.when(F.col("owes_answer"), F.col("broker")))).alias("silent"),
            F.map_from_entries(F.collect_list(F.struct("broker", "at"))).alias("tried"),
        )
    )


def _hold_causes() -> Column:
    held_by = F.try_element_at("held", F.lit(-1))["held_by"]
    znode = F.concat(F.lit(f"{paths.BROKER_TOPICS}/"), F.col("topic"))
    named = F.coalesce(
        *(
            F.when(held_by == name, cause(kind, path=znode if kind is CauseKind.READABLE_ZNODE else None))
            for name, kind in HELD_BY.items()
        )
    )
    return cause_if(F.col("phase") == "held", F.coalesce(named, cause(CauseKind.HELD, detail=held_by)))


def _wait_causes() -> Column:
    lasting = F.filter("waited_for", lambda wait: wait["until"].isNull())

    def cause_of(wait: Column) -> Column:
        broker, reason = wait["broker"], wait["reason"]
        return (
            F.when(reason == BROKER_TO_RETURN, cause(CauseKind.BROKER_TO_RETURN, broker=broker))
            .when(reason == LOG_DIRECTORY, cause(CauseKind.LOG_DIRECTORY, broker=broker))
            .when(reason == UNREACHABLE, cause(CauseKind.BROKER_NOT_ASKED, broker=broker))
            .when(reason == ASKED, cause(CauseKind.ANSWER, broker=broker))
            .otherwise(cause(CauseKind.BROKER_ERROR, broker=broker, detail=reason))
        )

    return F.transform(lasting, cause_of)


def _answer_causes() -> Column:
    return F.transform("silent", lambda broker: cause(CauseKind.ANSWER, broker=broker))


def _finish_causes() -> Column:
    is_acknowledged = F.col("phase").isin("acknowledged", "tombstoned") & F.col("acknowledged_at").isNotNull()
    is_told = F.col("tombstoned_at").isNotNull()
    last = F.when(is_told, cause(CauseKind.ZNODES)).otherwise(cause(CauseKind.TOMBSTONE_OF_SOME_BROKER))
    return cause_if(is_acknowledged, last)


def _with_pause(rows: DataFrame, tenures: DataFrame) -> DataFrame:
    """Add an existing pause to the causes: no controller removes znodes then."""
    newest = tenures.where(F.col("active_at").isNotNull()).agg(
        F.max_by(F.struct("paused_at", "paused_by", "resigned_at"), F.struct("epoch", "active_at")).alias("tenure")
    )
    is_paused = F.col("tenure.paused_at").isNotNull() & F.col("tenure.resigned_at").isNull()
    others = F.filter("causes", lambda each: each["rank"] != CauseKind.ZNODES.rank)
    is_own = F.col("tenure.paused_by") == F.lit(CauseKind.CONFIGURATION.held_code)
    pause = F.when(is_own, cause(CauseKind.CONFIGURATION)).otherwise(cause(CauseKind.RESUMPTION))
    causes = F.when(is_paused, F.concat(F.array(pause), others)).otherwise(F.col("causes"))
    return rows.join(F.broadcast(newest), F.lit(True), "left").withColumn("causes", causes).drop("tenure")


# --- the newest survey --------------------------------------------------------------------------------------------


def _with_survey(rows: DataFrame, surveyed: Surveyed) -> DataFrame:
    survey = surveyed.survey
    znodes, leftovers = survey.rows(surveyed.znodes), survey.rows(surveyed.leftovers)
    cluster = _of_cluster(znodes)
    seen = _seen_topics(survey, leftovers, znodes, cluster)
    merged = (
        rows.join(seen.select("topic", F.col("topic_id").alias("id_now"), "found_causes"), "topic", "left")
        .join(cluster, F.lit(True), "left")
        .withColumn("causes", F.transform("causes", lambda each: _corrected_by_survey(each, survey)))
    )
    is_other = F.coalesce(F.col("topic_id") != F.col("id_now"), F.lit(False))
    is_found = F.col("found_causes").isNotNull() & ~is_other
    is_later = F.unix_millis(survey.taken_at) - F.unix_millis("last_at") > CLOCKS_DIFFER_MS
    # Caches and disks do not list the topics.
    knows_tree = survey.is_complete or not survey.may_have_missed("/", if_unknown=True)
    has_seen_it_gone = F.coalesce(is_later & (F.lit(knows_tree) | is_other), F.lit(False))
    is_gone = has_seen_it_gone & ~is_found & ~survey.was_in_motion(F.col("topic"))
    kept = merged.where(~is_gone).select(
        *_SPAN,
        "since",
        "phase",
        F.when(is_found, F.array_union("causes", "found_causes")).otherwise(F.col("causes")).alias("causes"),
        F.when(is_found, "both").otherwise("journal").alias("seen_in"),
    )
    of_survey = (
        seen.where("is_marked")
        .join(kept.where(F.col("seen_in") == "both").select("topic"), "topic", "left_anti")
        .select(
            "topic",
            "topic_id",
            F.lit(None).cast("int").alias("span"),
            F.col("marked_at").alias("since"),
            F.lit(None).cast("string").alias("phase"),
            F.col("found_causes").alias("causes"),
            F.lit("survey").alias("seen_in"),
        )
    )
    return kept.unionByName(of_survey)


def _of_cluster(znodes: DataFrame) -> DataFrame:
    """Return one row: registered (brokers), has_controller."""
    kind, broker = F.col("kind"), F.col("broker")
    return F.broadcast(
        znodes.where(kind.isin("broker", "controller")).agg(
            F.collect_set(F.when(kind == "broker", broker)).alias("registered"),
            (F.count(F.when(kind == "controller", broker)) > 0).alias("has_controller"),
        )
    )


def _corrected_by_survey(each: Column, survey: Survey) -> Column:
    """Return the journal's cause; BROKER_NOT_ASKED instead of an absent broker that the survey found registered."""
    broker = each["broker"]
    is_later = F.coalesce(survey.taken_at >= F.try_element_at("tried", broker), F.lit(True))
    is_back = (each["rank"] == CauseKind.BROKER_TO_RETURN.rank) & F.array_contains("registered", broker) & is_later
    return F.when(is_back, cause(CauseKind.BROKER_NOT_ASKED, broker=broker)).otherwise(each)


def _seen_topics(survey: Survey, leftovers: DataFrame, znodes: DataFrame, cluster: DataFrame) -> DataFrame:
    """Return topic, topic_id, marked_at, is_marked, found_causes: all topics and markers. `found_causes` is null unless
    the deletion is or may be unfinished."""
    reason = F.col("reason")
    said = F.coalesce(
        F.when(reason == Reason.MARKER_WITHOUT_TOPIC.code, F.array(cause(CauseKind.MARKER_WITHOUT_TOPIC))),
        F.when(
            reason.isin(*(each.code for each in _INCOMPLETE)),
            F.array(cause(CauseKind.HALF_DELETED, detail=F.col("detail"))),
        ),
        no_causes(),
    )
    stuck = (
        leftovers.where(
            (F.col("place") == "zookeeper") & reason.isin(*(each.code for each in (*_MARKED, *_INCOMPLETE)))
        )
        .groupBy("topic")
        .agg(
            F.array_distinct(F.flatten(F.collect_list(said))).alias("said"),
            F.bool_or(reason.isin(*(each.code for each in _MARKED))).alias("is_marked"),
        )
    )
    of_topic = (
        znodes.where(F.col("kind").isin("topic", "marker", "reassignment"))
        .groupBy("topic")
        .agg(
            F.max(F.when(F.col("kind") == "topic", F.col("topic_id"))).alias("topic_id"),
            F.min(F.when(F.col("kind") == "marker", F.col("created_at"))).alias("marked_at"),
            F.bool_or(F.col("kind") == "reassignment").alias("is_moving"),
        )
    )
    return (
        of_topic.join(stuck, "topic", "left")
        .join(_replicas_of_marked(znodes), "topic", "left")
        .join(cluster, F.lit(True), "left")
        .withColumn("absent", _absent_brokers(survey))
        .select(
            "topic",
            "topic_id",
            "marked_at",
            "is_marked",
            F.concat(
                "said",
                cause_if(~F.col("has_controller"), cause(CauseKind.NO_CONTROLLER)),
                cause_if(F.coalesce("is_moving", F.lit(False)), cause(CauseKind.REASSIGNMENT)),
                F.transform("absent", lambda broker: cause(CauseKind.BROKER_TO_RETURN, broker=broker)),
            )
            .cast(f"array<{TYPE}>")
            .alias("found_causes"),
        )
    )


def _replicas_of_marked(znodes: DataFrame) -> DataFrame:
    """Return (topic, brokers): of marked topics, the brokers of their replicas."""
    marked = znodes.where(F.col("kind") == "marker").select("topic")
    replicas = znodes.where(F.col("kind") == "partition").join(marked, "topic", "left_semi")
    return replicas.groupBy("topic").agg(F.flatten(F.collect_list("replicas")).alias("brokers"))


def _absent_brokers(survey: Survey) -> Column:
    """Return the unregistered ones of `brokers`. None unless every registration was read: a running broker must not be
    started again with an empty disk."""
    nobody = F.array().cast("array<int>")
    if survey.may_have_missed(paths.BROKER_IDS, if_unknown=False):
        return nobody
    return F.coalesce(F.array_sort(F.array_except("brokers", "registered")), nobody)
