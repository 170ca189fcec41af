"""Which topics nobody seems to use: one topic for each rule, seen by daily surveys of fifty days."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import schemas
from lethe.pipeline.transforms.candidates import stale_topic_candidates
from lethe.pipeline.transforms.newest_survey import newest_surveys
from lethe.protocol.findings import Reason
from lethe.protocol.lake_rules import LakeRules
from tests.fakes.survey_rows import Row, frame

DAYS: Final = 50
NEWEST: Final = datetime(2026, 6, 30, 3, tzinfo=UTC)
NOW: Final = NEWEST + timedelta(hours=5)
ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
LONG: Final = "l" * 230
RULE: Final = LakeRules(30, protected=("keep-*", "audit.?"))


def ago(days: float) -> datetime:
    return NEWEST - timedelta(days=days)


@dataclass(frozen=True)
class Topic:
    """One partition on brokers 1 and 2; `sizes` is by days before the newest survey. `wanted`: None where it is no
    candidate, else what the row says of evidence and days."""

    name: str
    wanted: tuple[str, int] | None
    created: float = 400
    source: tuple[str, str] = ("local", "local")
    written: tuple[float | None, float | None] = (60, 61)
    sizes: Callable[[int], int | None] = lambda _days: 1000
    replicas: tuple[int, ...] = (1, 2)
    isr: tuple[int, ...] = (2, 1)
    marked: bool = False
    adding: tuple[int, ...] = ()
    is_empty: bool = False
    more: tuple[Row, ...] = field(default=())
    """Rows of the newest survey: `table` says of which."""


def told(name: str, wanted: tuple[str, int] | None, sizes: Callable[[int], int | None] = lambda _days: 1000) -> Topic:
    """Known by its brokers' word only."""
    return Topic(name, wanted, source=("broker", "broker"), written=(None, None), sizes=sizes)


def on_disk(kind: str, directory: str, topic: str, broker: int = 1) -> Row:
    place = {"broker": broker, "log_dir": "/d", "source": "local", "kind": kind, "directory": directory}
    return {"table": "inventory", **place, "topic": topic, "partition": 0, "size_bytes": 5, "segment_bytes": 5}


def finding(reason: Reason, topic: str) -> Row:
    return {"table": "leftovers", "reason": reason.code, "topic": topic}


TOPICS: Final = (
    # By the newest segment.
    Topic("unwritten", ("mtime", 60)),
    Topic("unwritten-just-so", ("mtime", 30), written=(30, 45)),
    Topic("one-replica-was-written", None, written=(29.9, 60)),
    Topic("empty-and-unwritten", ("mtime", 60), sizes=lambda _: 0, is_empty=True),
    Topic("emptied-by-retention-yesterday", None, sizes=lambda days: 0 if days < 5 else 1000, written=(1, 1)),
    Topic("created-lately", None, created=29.9, sizes=lambda _: 0),
    Topic("created-just-before", ("mtime", 60), created=30),
    Topic("written-in-the-future", None, written=(-400, 60)),
    # By sizes.
    told("told-unwritten", ("sizes", 49)),
    told("told-empty", ("sizes", 49), lambda _: 0),
    told("told-written-35-days-ago", ("sizes", 35), lambda days: 1000 if days <= 35 else 900),
    told("told-written-20-days-ago", None, lambda days: 1000 if days <= 20 else 900),
    told("told-there-and-back", None, lambda days: 1000 if days != 10 else 2000),
    told("told-not-seen-for-3-days", None, lambda days: None if 10 < days < 14 else 1000),
    told("told-not-seen-for-1-day", ("sizes", 49), lambda days: None if days == 11 else 1000),
    Topic("told-by-one", ("sizes", 49), source=("local", "broker"), written=(60, None)),
    Topic("told-by-one-written", None, source=("local", "broker"), written=(3, None)),
    Topic("told-created-40-days-ago", ("sizes", 40), 40, ("broker", "broker"), (None, None)),
    Topic("read-without-segments", ("sizes", 49), written=(None, 60)),
    # Never.
    Topic("__consumer_offsets", None),
    Topic("__mine", None),
    *(Topic(name, None) for name in ("_schemas", "connect-offsets", "eu-connect-status", "by-user-changelog")),
    Topic("connect-orders", ("mtime", 60)),
    Topic("keep-orders", None),
    Topic("audit.x", None),
    Topic("audit.xy", ("mtime", 60)),
    Topic("audit-x", ("mtime", 60)),
    Topic("marked", None, marked=True),
    Topic("in-motion", None),
    Topic("reassigned", None, adding=(2,)),
    Topic("to-be-reassigned", None, more=({"table": "znodes", "kind": "reassignment", "topic": "to-be-reassigned"},)),
    Topic("behind", None, isr=(1,)),
    Topic("without-directory", None, replicas=(1, 2, 3), isr=(1, 2, 3)),
    Topic("in-two-places", None, more=(on_disk("replica", "in-two-places-0", "in-two-places", 3),)),
    Topic("elsewhere", None, more=(finding(Reason.DIRECTORY_NOT_ASSIGNED, "elsewhere"),)),
    Topic("moving", None, more=(on_disk("future", "moving-0.x-future", "moving"),)),
    Topic("with-stray", None, more=(finding(Reason.STRAY_DIRECTORY, "with-stray"),)),
    Topic(LONG, None, more=(finding(Reason.STRAY_DIRECTORY, LONG[:210]),)),
    Topic("with-deleted", ("mtime", 60), more=(finding(Reason.NOT_RECLAIMED_YET, "with-deleted"),)),
    Topic("cached-otherwise", None, more=(finding(Reason.CACHED_OTHER_INCARNATION, "cached-otherwise"),)),
)


def survey(days: int) -> Iterator[Row]:
    """Rows of the survey of that many days before the newest."""
    head = {"survey_id": f"s{DAYS - days:03}", "taken_at": ago(days), "day": ago(days).date()}
    yield {**head, "table": "surveys", "complete": days != 7, "in_motion": ["in-motion"] if days == 0 else []}
    if days > 0:  # What older surveys say counts only where brokers tell sizes, and of these the sizes alone.
        told = [topic for topic in TOPICS if "broker" in topic.source or None in topic.written]
        rows = (row for topic in told if topic.created >= days for row in rows_of(topic, days))
        yield from ({**head, **row} for row in rows if row["table"] == "inventory")
        return
    for topic in TOPICS:
        yield from ({**head, **row} for row in (*rows_of(topic, days), *topic.more))


def rows_of(topic: Topic, days: int) -> Iterator[Row]:
    named = {"topic": topic.name, "path": topic.name}
    partition = {"replicas": [*topic.replicas], "isr": [*topic.isr], "adding": [*topic.adding], "removing": []}
    told = {"has_znode": True, "has_state_znode": True, "leader": 1, "partition": 0}
    yield {
        "table": "znodes",
        "kind": "topic",
        **named,
        "is_readable": True,
        "topic_id": ID,
        "created_at": ago(topic.created),
    }
    yield {"table": "znodes", "kind": "partition", **named, **partition, **told}
    if topic.marked:
        yield {"table": "znodes", "kind": "marker", **named}
    size = topic.sizes(days)
    for broker, source, written in zip((1, 2), topic.source, topic.written, strict=True):
        if size is None:
            continue
        is_read = source == "local"
        yield {
            "table": "inventory",
            "kind": "replica",
            "broker": broker,
            "log_dir": "/d" if is_read else "/told",
            "source": source,
            "directory": f"{topic.name}-0",
            "topic": topic.name,
            "partition": 0,
            "topic_id": ID if is_read else None,
            "size_bytes": size + 100 if is_read else size,
            "segment_bytes": size if is_read else None,
            "newest_segment_write": None if written is None else ago(written),
        }


pytestmark = pytest.mark.timeout(600)

Frames = tuple[DataFrame, DataFrame, DataFrame, DataFrame]


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Frames:
    """SURVEYS, ZNODE_SNAPSHOT, AGENT_INVENTORY, LEFTOVERS."""
    rows = [row for days in range(DAYS) for row in survey(days)]
    # Taken after NOW, and all topics are gone.
    rows.append({"table": "surveys", "survey_id": "s999", "taken_at": ago(-1), "day": ago(-1).date(), "complete": True})

    def table(name: str) -> list[Row]:
        return [row for row in rows if row["table"] == name]

    return (
        frame(spark, schemas.SURVEYS, table("surveys")),
        frame(spark, schemas.ZNODE_SNAPSHOT, table("znodes")),
        frame(spark, schemas.AGENT_INVENTORY, table("inventory")),
        frame(spark, schemas.LEFTOVERS, table("leftovers")),
    )


@pytest.fixture(scope="module")
def found(lake: Frames) -> DataFrame:
    surveys, znodes, seen, left = lake
    newest = newest_surveys(surveys, NOW).complete
    assert newest
    return stale_topic_candidates(newest, znodes, left, surveys, seen, now=NOW, rules=RULE).cache()


def test_every_rule(found: DataFrame) -> None:
    rows = {row.topic: (row.evidence, row.unwritten_days) for row in found.collect()}
    assert rows == {topic.name: topic.wanted for topic in TOPICS if topic.wanted is not None}


def test_what_a_candidate_says(found: DataFrame) -> None:
    assert found.schema.simpleString() == schemas.STALE_TOPIC_CANDIDATES.simpleString()
    rows = {row.topic: row.asDict() for row in found.collect()}
    utc = {name: value.astimezone(UTC) for name, value in rows["unwritten"].items() if isinstance(value, datetime)}
    assert rows["unwritten"] | utc == {
        "topic": "unwritten",
        "topic_id": ID,
        "partitions": 1,
        "replicas": 2,
        "size_bytes": 2200,
        "segment_bytes": 2000,
        "is_empty": False,
        "last_write": ago(60),
        "unwritten_days": 60,
        "evidence": "mtime",
        "created_at": ago(400),
        "survey_id": f"s{DAYS:03}",
        "taken_at": NEWEST,
    }
    assert rows["told-unwritten"]["last_write"] is None
    assert sorted(name for name, row in rows.items() if row["is_empty"]) == ["empty-and-unwritten", "told-empty"]


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"unwritten_days": 0.9}, "give 1 or more, or force it"),
        ({"unwritten_days": -1.0, "forced": True}, "-1 days: give 0 to 36,500"),
        ({"unwritten_days": float("nan"), "forced": True}, "nan days: give 0 to 36,500"),
        ({"unwritten_days": float("inf")}, "inf days: give 0 to 36,500"),
        ({"unwritten_days": 1e6}, r"1e\+06 days: give 0 to 36,500"),
    ],
)
def test_a_time_that_cannot_be_meant_is_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LakeRules(**changes)  # type: ignore[arg-type]
    assert LakeRules(0.5, forced=True).unwritten_days == 0.5
