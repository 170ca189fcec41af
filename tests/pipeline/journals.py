"""Journals for tests: lines of controllers and agents by hand, as rows of bronze, and tables as plain values."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lethe.controller.core.deletion_memory import DELETING
from lethe.pipeline import schemas
from lethe.pipeline.io.frames import frame_of, frame_of_arrow
from lethe.pipeline.jobs.records import judged
from lethe.pipeline.transforms.stuck import Surveyed, waiting_deletions
from lethe.pipeline.transforms.stuck_now import stuck_now
from lethe.protocol.journal import partition_ranges, time_from_text
from lethe.protocol.journal_trash import TRASHED
from lethe.protocol.lake_rules import LakeRules

START: Final = time_from_text("2026-01-02T10:00:00Z")
"""Times in these tests are milliseconds since then."""
ABSENT: Final = "absent"
"""In place of a topic id: the line has no such key, as those of older versions."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Line(NamedTuple):
    source: str
    id: str
    time_ms: int
    type: str
    subject: str
    data: str


@dataclass(slots=True)
class Journal:
    """Collects lines. `at` is in milliseconds since START, by the writer's clock."""

    lines: list[Line] = field(default_factory=list)

    def line(self, at: int, source: str, kind: str, subject: str, **data: Any) -> None:
        said = {key: value for key, value in data.items() if value != ABSENT}
        identity = f"19b1f2c3a4b-{len(self.lines) + 1}"
        self.lines.append(Line(source, identity, START + at, kind, subject, json.dumps(said)))

    def phase(self, at: int, topic: str, phase: str, topic_id: str | None = None, by: int = 1001, **data: Any) -> None:
        said = {"phase": phase, "took_ms": 0, "topic_id": topic_id, "partitions": 2, "replicas": 4, **data}
        self.line(at, f"/lethe/controller/{by}", "deletion-phase", f"topic/{topic}", **said)

    def phases(self, at: int, topic: str, phases: Iterable[str], topic_id: str | None = None, by: int = 1001) -> None:
        """One a second."""
        for number, phase in enumerate(phases):
            self.phase(at + 1000 * number, topic, phase, topic_id, by)

    def refused(self, at: int, topic: str, why: str, by: int = 1001, what: str = DELETING) -> None:
        self.line(at, f"/lethe/controller/{by}", "refusal", f"topic/{topic}", what=what, why=why)

    def moved(
        self,
        at: int,
        topic: str,
        brokers: int | str,
        after: str,
        partitions: str = "0-1",
        topic_id: str | None = ABSENT,
        *,
        older: bool = False,
    ) -> None:
        """`older`: as journals were written that have one line for each broker."""
        on = {"broker": brokers, "partitions": partitions} if older else {"replicas": {str(brokers): partitions}}
        said = {"machine": "replica", **on, "before": "OFFLINE", "after": after}
        self.line(at, "/lethe/controller/1001", "transition", f"topic/{topic}", **said, topic_id=topic_id)

    def answered(
        self,
        at: int,
        topic: str,
        broker: int,
        result: str = "NONE",
        partitions: str = "0-1",
        topic_id: str | None = ABSENT,
        by: int = 1001,
    ) -> None:
        said = {"broker": broker, "broker_epoch": 7, "request_id": 1, "partitions": partitions, "result": result}
        self.line(at, f"/lethe/controller/{by}", "ack", f"topic/{topic}", **said, topic_id=topic_id)

    def freed(
        self, at: int, topic: str, broker: int, topic_id: str | None = ABSENT, error: str | None = None, count: int = 2
    ) -> None:
        said = {"log_dir": "/logs", "topic": topic, "partitions": partition_ranges(range(count)), "directories": count}
        sizes = {"size_bytes": 100 * count, "files": 3 * count, "error": error}
        self.line(at, f"/lethe/broker/{broker}", "bytes-freed", f"broker/{broker}", **said, **sizes, topic_id=topic_id)

    def debt(
        self, at: int, topic: str, what: str, broker: int, zxid: int = 7, by: str = "controller/1001", **data: Any
    ) -> None:
        said = {"what": what, "broker": broker, "topic_id": None, "created_zxid": zxid, "partitions": "0-1"}
        self.line(at, f"/lethe/{by}", "debt", f"topic/{topic}", **{**said, "owed_since_ms": START + at, **data})

    def trash(self, at: int, topic: str, what: str, topic_id: str | None = None, by: int = 1001) -> None:
        said = {"what": what, "partitions": "0-1", "topic_id": topic_id}
        until = {"until_ms": START + at + 86_400_000} if what == TRASHED else {}
        self.line(at, f"/lethe/controller/{by}", "event", f"topic/{topic}", **said, **until)

    def broker(self, at: int, broker: int, what: str) -> None:
        self.line(at, "/lethe/controller/1001", "broker", f"broker/{broker}", what=what, broker_epoch=7)

    def election(self, at: int, controller: int, what: str, epoch: int, **data: Any) -> None:
        source, subject = f"/lethe/controller/{controller}", f"controller/{controller}"
        self.line(at, source, "election", subject, what=what, epoch=epoch, **data)

    def pause(self, at: int, controller: int, what: str = "deletions are paused", **more: str) -> None:
        said = {"what": what, "reason": "an audit", "topics": 1, "partitions": 2, **more}
        self.line(at, f"/lethe/controller/{controller}", "event", f"controller/{controller}", **said)


def events(spark: SparkSession, lines: Iterable[Line]) -> DataFrame:
    """CONTROLLER_EVENTS with these lines."""
    rows = []
    for line in lines:
        time = _EPOCH + datetime.timedelta(milliseconds=line.time_ms)
        said = (line.source, line.id, time, line.type, line.subject, line.data)
        rows.append((*said, time, "journal.jsonl", "batch", time.date()))
    return bronze(spark, rows)


def bronze(spark: SparkSession, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """CONTROLLER_EVENTS with these values of all columns but those that are made of the data. They are made at once, as
    in a lake: their expressions are large, and each query over the frame would have them in its plan."""
    read = StructType([field for field in schemas.CONTROLLER_EVENTS if field.name not in ("said", "flaws")])
    made = judged(frame_of(spark, read, rows), F.lit(True)).select(*schemas.CONTROLLER_EVENTS.names)
    return spark.createDataFrame(made.toArrow(), schemas.CONTROLLER_EVENTS)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them: instants as `2026-01-02T10:00:00.000Z`, days as `2026-01-02`; in any order."""
    return [
        json.loads(row[0]) for row in frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
    ]


def stuck_table(
    spans: DataFrame,
    replicas: DataFrame,
    tenures: DataFrame,
    *,
    now: datetime.datetime,
    threshold_ms: int = LakeRules().stuck_after_ms,
    surveyed: Surveyed | None = None,
) -> DataFrame:
    """STUCK_NOW, by way of WAITING_DELETIONS."""
    waiting = waiting_deletions(spans, replicas, tenures, surveyed=surveyed)
    rows = stuck_now(waiting.toArrow(), now=now, threshold_ms=threshold_ms)
    return frame_of_arrow(spans.sparkSession, schemas.STUCK_NOW, rows)
