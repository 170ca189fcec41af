"""What is stuck, and why: from the journal, from a survey, from both."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from lethe.pipeline import schemas
from lethe.pipeline.io.frames import empty, frame_of
from lethe.pipeline.transforms.newest_survey import newest_surveys
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.stuck import Surveyed
from lethe.pipeline.transforms.stuck_causes import cause, fill_topic
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.causes import CauseKind, remedy
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.findings import Reason
from lethe.protocol.journal import time_to_text
from lethe.protocol.shell_words import operand, option
from tests.pipeline.journals import START, Journal, events, rows_of, stuck_table

pytestmark = pytest.mark.timeout(600)
Row = dict[str, Any]
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
NOW: Final = datetime.datetime.fromtimestamp((START + HOUR_MS) / 1000, datetime.UTC)
SURVEYED_AT: Final = NOW - datetime.timedelta(minutes=1)
MARKED_AT: Final = NOW - datetime.timedelta(minutes=30)
SURVEY: Final = "20260102T105900.000Z"
ASKED_AGAIN: Final = (
    *("returned", "restarted", "failed-late", "asked-before"),
    *("failover", "failover-gone", "registered", "lost-since"),
)


def _journal() -> Journal:
    journal = Journal()
    journal.phase(0, "paused", "held", "id", held_by="PAUSED")
    journal.phase(0, "damaged", "held", None, held_by="UNREADABLE")
    journal.phase(0, "mystery", "held", None, held_by="SOMETHING_NEW")
    journal.phase(HOUR_MS - MINUTE_MS, "fresh", "queued", "id")
    journal.phases(0, "done", ("queued", "started", "tombstoned", "acknowledged", "removed", "done"), "id")
    journal.phases(0, "lost-end", ("queued", "started", "removed"), "id")
    journal.phases(0, "silent", ("queued", "started"), "id")
    for broker in (1, 2):
        journal.moved(1000, "silent", broker, "DELETION_STARTED")
    journal.answered(2000, "silent", 1)
    journal.broker(500, 3, "failed")
    journal.phases(0, "waiting", ("queued", "started"), "id")
    journal.moved(1000, "waiting", 3, "DELETION_INELIGIBLE")
    journal.answered(1500, "waiting", 4, "KAFKA_STORAGE_ERROR")
    journal.phases(0, "tombstone", ("queued", "started", "acknowledged"), "id")
    journal.phases(0, "znodes", ("queued", "started", "tombstoned", "acknowledged"), "id")
    journal.phases(0, "begun", ("queued", "started"), "id")
    _asked_again(journal)
    # What the survey says of these differs.
    journal.phases(0, "both", ("queued", "started"), "id")
    journal.moved(1000, "both", 3, "DELETION_INELIGIBLE")
    journal.phases(0, "gone", ("queued", "started"), "id")
    journal.phase(0, "skewed", "queued", "id")
    journal.phase(HOUR_MS - 2 * MINUTE_MS, "skewed", "started", "id")
    journal.phases(0, "lost-mark", ("queued", "started"), "id")
    journal.phases(0, "in-motion", ("queued", "started"), "id")
    journal.phases(0, "other-life", ("queued", "started"), "id-before")
    journal.phases(HOUR_MS + 1, "after-survey", ("queued", "started"), "id")
    return journal


def _asked_again(journal: Journal) -> None:
    """Waits whose cause is another one by now than when they began."""
    for topic in ("returned", "restarted", "failed-late", "asked-before"):
        journal.phases(0, topic, ("queued", "started"), "id")
    journal.broker(500, 21, "failed")
    journal.broker(60_000, 21, "started")
    for topic in ("returned", "restarted"):
        journal.moved(1000, topic, 21, "DELETION_INELIGIBLE")
    journal.moved(61_000, "returned", 21, "DELETION_STARTED")
    journal.answered(1000, "failed-late", 22, "KAFKA_STORAGE_ERROR")
    journal.moved(1500, "asked-before", 22, "DELETION_INELIGIBLE")
    journal.moved(1600, "asked-before", 22, "DELETION_STARTED")
    journal.broker(60_000, 22, "failed")
    # The first controller had the answer; the second asked again, and has none, or found the broker gone.
    for topic in ("failover", "failover-gone"):
        journal.phases(0, topic, ("queued", "started"), "id")
        journal.answered(2000, topic, 23)
        journal.phases(60_000, topic, ("queued", "started"), "id", by=1002)
        journal.moved(62_000, topic, 23, "DELETION_STARTED")
    journal.moved(1500, "failover-gone", 23, "DELETION_INELIGIBLE", "0")
    journal.moved(63_000, "failover-gone", 23, "DELETION_INELIGIBLE", "0")
    # The survey found both registered: 24 after it had failed, by the journal, and 25 before.
    journal.phases(0, "registered", ("queued", "started"), "id")
    journal.phases(0, "lost-since", ("queued", "started"), "id")
    journal.broker(500, 24, "failed")
    journal.moved(1000, "registered", 24, "DELETION_INELIGIBLE")
    journal.broker(HOUR_MS - 40_000, 25, "failed")
    journal.moved(HOUR_MS - 30_000, "lost-since", 25, "DELETION_INELIGIBLE")


def _survey(spark: SparkSession, *, unseen: str = "broker 3", has_controller: bool = True) -> Surveyed:
    def rows(schema: Any, *said: Row) -> Any:
        common = {"survey_id": SURVEY, "taken_at": SURVEYED_AT, "day": SURVEYED_AT.date()}
        return frame_of(spark, schema, (tuple((common | row).get(name) for name in schema.names) for row in said))

    def finding(topic: str, reason: Reason, detail: str = "") -> Row:
        said = {"topic": topic, "reason": reason.code, "place": "zookeeper", "standing": reason.standing.code}
        return said | {"detail": detail, "what": f"/{topic}"}

    def marker(topic: str, topic_id: str | None = "id", marked_at: datetime.datetime = MARKED_AT) -> list[Row]:
        exists = [] if topic_id is None else [{"kind": "topic", "topic": topic, "topic_id": topic_id}]
        return [*exists, {"kind": "marker", "topic": topic, "created_at": marked_at}]

    old = {"survey_id": "20260101T000000.000Z", "taken_at": SURVEYED_AT - datetime.timedelta(days=1)}
    ahead = {"survey_id": "ahead", "taken_at": NOW + datetime.timedelta(milliseconds=CLOCKS_DIFFER_MS + 1)}
    surveys = rows(
        schemas.SURVEYS,
        {"complete": False, "in_motion": ["in-motion"], "problems": [{"where": unseen, "what": "NO_AUTH"}]},
        {"complete": True, "in_motion": [], "problems": []} | old,
        # Its clock is ahead, and it saw nothing of any deletion.
        {"complete": True, "in_motion": [], "problems": []} | ahead,
    )
    newest = newest_surveys(surveys, NOW)
    assert newest.any
    assert newest.complete
    assert (newest.any.survey_id, newest.complete.survey_id) == (SURVEY, old["survey_id"])
    return Surveyed(
        newest.any,
        rows(
            schemas.ZNODE_SNAPSHOT,
            *([{"kind": "controller", "broker": 1}] if has_controller else []),
            *({"kind": "broker", "broker": broker} for broker in (1, 2, 24, 25)),
            *marker("both"),
            *(row for topic in ASKED_AGAIN for row in marker(topic)),
            *marker("kafkas"),
            {"kind": "partition", "topic": "kafkas", "partition": 0, "replicas": [1, 7]},
            {"kind": "partition", "topic": "kafkas", "partition": 1, "replicas": [7, 8]},
            {"kind": "partition", "topic": "both", "partition": 0, "replicas": [1, 3]},
            {"kind": "partition", "topic": "living", "partition": 0, "replicas": [1, 9]},
            *marker("moving"),
            {"kind": "reassignment", "topic": "moving", "partition": 0, "replicas": [1]},
            *marker("ghost", None),
            *marker("just-marked", "id", SURVEYED_AT),
            *marker("other-life", "id-now"),
            *marker("half"),
            {"kind": "topic", "topic": "lost-mark", "topic_id": "id"},
            {"kind": "topic", "topic": "young", "topic_id": "id"},
        ),
        rows(
            schemas.LEFTOVERS,
            *(
                finding(topic, Reason.MARKED_TOPIC)
                for topic in ("both", "kafkas", "moving", "just-marked", "other-life", "half", *ASKED_AGAIN)
            ),
            finding("ghost", Reason.MARKER_WITHOUT_TOPIC),
            finding("half", Reason.HALF_DELETED_TOPIC, "partitions 0 have no state"),
            finding("lost-mark", Reason.INCOMPLETE_TOPIC, "partitions 1 have no state"),
            finding("young", Reason.INCOMPLETE_TOPIC, "partitions 2 have no state"),
            finding("unrelated", Reason.CONFIG_WITHOUT_TOPIC),
            finding("yesterday", Reason.MARKED_TOPIC) | old,
        ),
    )


class _Silver(NamedTuple):
    spans: DataFrame
    replicas: DataFrame
    tenures: DataFrame


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Iterator[_Silver]:
    bronze = events(spark, _journal().lines)
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    spans = deletion_spans(bronze, heads, replicas).cache()
    yield _Silver(spans, replicas, controller_tenures(bronze))
    for frame in (spans, replicas, heads):
        frame.unpersist()


class _Stuck:
    """The table by topic."""

    def __init__(self, silver: _Silver, surveyed: Surveyed | None) -> None:
        table = stuck_table(silver.spans, silver.replicas, silver.tenures, now=NOW, surveyed=surveyed)
        self.columns = table.columns
        rows = rows_of(table)
        self.rows = {row["topic"]: row for row in rows}
        assert len(self.rows) == len(rows)

    def why(self, topic: str) -> tuple[list[str], list[int], str]:
        row = self.rows[topic]
        return row["reasons"], row["brokers"], row["remedy"]


@pytest.fixture(scope="module")
def by_journal(silver: _Silver) -> _Stuck:
    return _Stuck(silver, None)


@pytest.fixture(scope="module")
def by_both(spark: SparkSession, silver: _Silver) -> _Stuck:
    return _Stuck(silver, _survey(spark))


def test_what_is_stuck_by_the_journal(by_journal: _Stuck) -> None:
    assert by_journal.columns == schemas.STUCK_NOW.names
    assert set(by_journal.rows) == {
        *("paused", "damaged", "mystery", "silent", "waiting", "tombstone", "znodes", "begun"),
        *("both", "gone", "in-motion", "other-life", "skewed", "lost-mark", *ASKED_AGAIN),
    }
    row = by_journal.rows["silent"]
    assert (row["topic_id"], row["span"], row["since"]) == ("id", 1, time_to_text(START))
    assert (row["waiting_ms"], row["phase"], row["seen_in"]) == (HOUR_MS, "started", "journal")


def test_what_holds_a_topic_back(by_journal: _Stuck) -> None:
    assert by_journal.why("paused") == (
        ["waits for deletions to be resumed: they are paused"],
        [],
        "lethe topics resume-deletions",
    )
    assert by_journal.why("damaged") == (
        ["waits for its znode /brokers/topics/damaged to be readable"],
        [],
        remedy(CauseKind.READABLE_ZNODE, "damaged"),
    )
    assert by_journal.why("mystery")[0] == ["is held back (SOMETHING_NEW)"]


def test_which_brokers_are_waited_for(by_journal: _Stuck) -> None:
    assert by_journal.why("waiting") == (
        [
            "waits for broker 3, which is not registered in ZooKeeper",
            "waits for broker 4, which answers with an error (KAFKA_STORAGE_ERROR)",
        ],
        [3, 4],
        "start broker 3 with its disks (an empty one with its id only where lethe brokers describe 3 allows it)",
    )
    assert by_journal.why("silent") == (
        ["waits for broker 2, which has been asked and has not answered"],
        [2],
        remedy(CauseKind.ANSWER, "silent"),
    )


def test_what_is_waited_for_by_now(by_journal: _Stuck) -> None:
    said = {
        "returned": "waits for broker 21, which has been asked and has not answered",
        "restarted": "waits for broker 21, which could not be asked when it was last tried",
        "failed-late": "waits for broker 22, which is not registered in ZooKeeper",
        "asked-before": "waits for broker 22, which is not registered in ZooKeeper",
        "failover": "waits for broker 23, which has been asked and has not answered",
        "registered": "waits for broker 24, which is not registered in ZooKeeper",
    }
    assert {topic: by_journal.why(topic)[0] for topic in said} == {topic: [why] for topic, why in said.items()}
    assert by_journal.why("failover-gone")[0] == [
        "waits for broker 23, which could not be asked when it was last tried",
        "waits for broker 23, which has been asked and has not answered",
    ]


def test_a_broker_that_the_survey_found_registered_is_not_to_be_started(by_both: _Stuck) -> None:
    assert by_both.why("registered") == (
        ["waits for broker 24, which could not be asked when it was last tried"],
        [24],
        "lethe explain registered",
    )
    assert by_both.why("lost-since")[0] == ["waits for broker 25, which is not registered in ZooKeeper"]
    assert by_both.rows["lost-since"]["seen_in"] == "both"


def test_what_is_last_to_be_waited_for(by_journal: _Stuck) -> None:
    assert by_journal.why("tombstone")[0] == [
        "waits for a broker to confirm that its metadata cache has dropped the topic"
    ]
    assert by_journal.why("znodes")[0] == ["waits for the controller to remove its znodes"]
    assert by_journal.why("begun")[0] == ["is being deleted, and the journal does not say what it waits for"]


def test_a_cluster_without_a_journal(spark: SparkSession) -> None:
    nothing = _Silver(
        *(
            empty(spark, each)
            for each in (schemas.DELETION_SPANS, schemas.REPLICA_DELETIONS, schemas.CONTROLLER_TENURES)
        )
    )
    stuck = _Stuck(nothing, _survey(spark, has_controller=False))
    assert set(stuck.rows) == {"both", "kafkas", "moving", "ghost", "half", "other-life", *ASKED_AGAIN}
    row = stuck.rows["kafkas"]
    assert (row["topic_id"], row["span"], row["seen_in"], row["phase"]) == ("id", None, "survey", None)
    assert (row["since"], row["waiting_ms"]) == (time_to_text(START + 30 * MINUTE_MS), 30 * MINUTE_MS)
    assert stuck.why("kafkas") == (
        [
            "waits for a controller: none is active",
            "waits for broker 7, which is not registered in ZooKeeper",
            "waits for broker 8, which is not registered in ZooKeeper",
        ],
        [7, 8],
        remedy(CauseKind.NO_CONTROLLER, ""),
    )


def test_what_the_survey_adds(by_both: _Stuck) -> None:
    assert {topic for topic, row in by_both.rows.items() if row["seen_in"] == "survey"} == {
        *("kafkas", "moving", "ghost", "half", "other-life")
    }
    assert (
        by_both.why("kafkas")[2]
        == "start broker 7 with its disks (an empty one with its id only where lethe brokers describe 7 allows it)"
    )
    assert by_both.why("moving") == (
        ["waits for the reassignment of its partitions to end"],
        [],
        remedy(CauseKind.REASSIGNMENT, "moving"),
    )
    assert by_both.why("ghost") == (
        ["has only its deletion marker left: there is no such topic in ZooKeeper"],
        [],
        remedy(CauseKind.MARKER_WITHOUT_TOPIC, "ghost"),
    )
    assert by_both.why("half") == (
        ["is half deleted: its tree in ZooKeeper is incomplete (partitions 0 have no state)"],
        [],
        remedy(CauseKind.HALF_DELETED, "half"),
    )


def test_a_topic_that_nobody_has_marked_is_stuck_only_if_the_journal_says_so(by_both: _Stuck) -> None:
    assert "young" not in by_both.rows
    assert by_both.rows["lost-mark"]["seen_in"] == "both"
    assert by_both.why("lost-mark") == (
        ["is half deleted: its tree in ZooKeeper is incomplete (partitions 1 have no state)"],
        [],
        remedy(CauseKind.HALF_DELETED, "lost-mark"),
    )


def test_journal_and_survey_agree(by_both: _Stuck) -> None:
    row = by_both.rows["both"]
    assert (row["seen_in"], row["span"], row["since"]) == ("both", 1, time_to_text(START))
    assert by_both.why("both") == (
        ["waits for broker 3, which is not registered in ZooKeeper"],
        [3],
        "start broker 3 with its disks (an empty one with its id only where lethe brokers describe 3 allows it)",
    )


def test_what_a_later_survey_no_longer_finds_is_gone(by_both: _Stuck) -> None:
    # Nothing is said of what was in motion; of another life of the name the survey speaks for itself.
    # The survey's clock may be ahead of the controller's, so that it was taken before what seems to be earlier.
    assert {topic for topic, row in by_both.rows.items() if row["seen_in"] == "journal"} == {"in-motion", "skewed"}
    assert by_both.rows["other-life"]["topic_id"] == "id-now"


def test_a_survey_that_does_not_know_all_of_zookeeper_proves_little(spark: SparkSession, silver: _Silver) -> None:
    stuck = _Stuck(silver, _survey(spark, unseen="/brokers/ids/7"))
    assert stuck.rows["gone"]["seen_in"] == "journal"
    # Where a registration could not be read, nobody is told to start that broker with an empty disk.
    assert stuck.why("kafkas") == (["is marked for deletion and not gone yet"], [], "lethe rescue --topic kafkas")
    assert stuck.rows["other-life"]["topic_id"] == "id-now"


def test_names_in_commands_are_for_a_shell(spark: SparkSession) -> None:
    names = ("orders", "$(reboot)", "-orders", "-a b", "it's", "a\n", "{option}{operand}")
    rescue, explain = (
        fill_topic(cause(kind)["remedy"]) for kind in (CauseKind.MARKED, CauseKind.TOMBSTONE_OF_SOME_BROKER)
    )
    rows = frame_of(spark, StructType([StructField("topic", StringType())]), ((name,) for name in names))
    said = {
        row.topic: (row.rescue, row.explain)
        for row in rows.select("topic", rescue.alias("rescue"), explain.alias("explain")).collect()
    }
    assert said == {
        name: (f"lethe rescue {option('--topic', name)}", f"lethe explain {operand(name)}") for name in names
    }
