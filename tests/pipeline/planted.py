"""A journal with something wrong in it for each rule of the audit, and next to each what looks like it and is not.

Every plant has a topic, a process or a broker of its own, named after the rule, so that none hides another.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import schemas, schemas_debts
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.quality.evidence import Evidence
from lethe.pipeline.transforms.lasting import first_topic_ids
from tests.pipeline import reference
from tests.pipeline.journals import Line, bronze

START: Final = datetime.datetime(2026, 1, 2, 10, tzinfo=datetime.UTC)
SECOND: Final = 1000
Row = tuple[Any, ...]


def at(ms: int) -> datetime.datetime:
    return START + datetime.timedelta(milliseconds=ms)


@dataclass(slots=True)
class Process:
    """One run of a daemon; numbers its lines."""

    source: str
    rows: list[Row]
    run: str = "19b1f2c3a4b"
    seq: int = 0

    def line(self, ms: int, kind: str, subject: str, **data: Any) -> None:
        self.seq += 1
        self._write(f"{self.run}-{self.seq}", ms, kind, subject, data)

    def lost_on_the_way(self, ms: int, first: str, last: str) -> None:
        """Lines did not come through a Kafka topic."""
        said = {"count": 3, "first": first, "last": last, "reason": "no broker can be reached"}
        self._write(f"{self.run}-t1", ms, "gap", self.source.removeprefix("/lethe/"), said)

    def _write(self, id_: str, ms: int, kind: str, subject: str, data: dict[str, Any]) -> None:
        time = at(ms)
        said = (self.source, id_, time, kind, subject, json.dumps(data))
        self.rows.append((*said, time, "journal.jsonl", "batch", time.date()))

    def election(self, ms: int, what: str, epoch: int, **data: Any) -> None:
        self.line(ms, "election", self.source.removeprefix("/lethe/"), what=what, epoch=epoch, **data)

    def moved(
        self,
        ms: int,
        topic: str,
        before: str,
        after: str,
        *,
        broker: int | str | None = 1,
        partitions: str = "0-1",
        older: bool = False,
    ) -> None:
        """`older`: as journals were written that have one line for each broker."""
        said: dict[str, Any] = {"machine": "replica", "replicas": {str(broker): partitions}}
        if broker is None:
            said = {"machine": "partition", "partitions": partitions}
        elif older:
            said = {"machine": "replica", "broker": broker, "partitions": partitions}
        said |= {"before": before, "after": after}
        self.line(ms, "transition", f"topic/{topic}", **said)

    def path(self, ms: int, topic: str, *states: str, **data: Any) -> None:
        """A transition from each state to the next."""
        for before, after in pairwise(states):
            self.moved(ms, topic, before, after, **data)

    def phase(self, ms: int, topic: str, *phases: str, topic_id: str | None = None) -> None:
        for phase in phases:
            said = {"phase": phase, "took_ms": 0, "topic_id": topic_id, "partitions": 2, "replicas": 2}
            self.line(ms, "deletion-phase", f"topic/{topic}", **said)

    def wrote(self, ms: int, **data: Any) -> None:
        said = {"groups": 1, "operations": {"SetData": 1}, "first_path": "/brokers/topics/a", "fenced": True}
        subject = self.source.removeprefix("/lethe/")
        self.line(ms, "znode-write", subject, **{**said, "outcomes": {"done": 1}, "took_ms": 2.5, **data})

    def obeyed(self, ms: int, epoch: int, **answers: int) -> None:
        said = {"api": "STOP_REPLICA", "controller": 1001, "controller_epoch": epoch, "topics": 1, "partitions": 1}
        self.line(ms, "request", self.source.removeprefix("/lethe/"), **said, answers=answers)

    def unasked(
        self, ms: int, topic: str, *, broker: int, partitions: str = "0-1", topic_id: str | None = None
    ) -> None:
        said = {"topic_id": topic_id, "broker": broker, "partitions": partitions, "why": "placed on a controller"}
        self.line(ms, "ack", f"topic/{topic}", **said)

    def answered(self, ms: int, topic: str, *, broker: int, partitions: str = "0-1", older: bool = False) -> None:
        """`older`: as before answers named the states; a transition followed."""
        said = {"broker": broker, "broker_epoch": 7, "request_id": 1, "partitions": partitions, "result": "NONE"}
        states = {} if older else {"before": "DELETION_STARTED", "after": "DELETION_SUCCESSFUL"}
        self.line(ms, "ack", f"topic/{topic}", **said, **states)

    def freed(self, ms: int, topic: str, size_bytes: int, directories: int = 1) -> None:
        said = {"log_dir": "/logs", "topic": topic, "partitions": "0", "files": 3, "error": None}
        subject = self.source.removeprefix("/lethe/")
        self.line(ms, "bytes-freed", subject, **said, directories=directories, size_bytes=size_bytes)


@dataclass(slots=True)
class Plants:
    """Collects everything that the audit looks at."""

    lines: list[Row] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)
    inventory: list[dict[str, Any]] = field(default_factory=list)
    znodes: list[dict[str, Any]] = field(default_factory=list)
    debts: list[dict[str, Any]] = field(default_factory=list)

    def controller(self, number: int, **of: Any) -> Process:
        return Process(f"/lethe/controller/{number}", self.lines, **of)

    def agent(self, number: int, **of: Any) -> Process:
        return Process(f"/lethe/broker/{number}", self.lines, **of)

    def span(self, topic: str, **columns: Any) -> None:
        done = {"outcome": "done", "phase": "done", "replicas": 4, "acked_replicas": 4}
        times = {"marked_at": at(0), "queued_at": at(0), "started_at": at(0), "done_at": at(9 * SECOND)}
        self.spans.append({"topic": topic, "span": 1, **done, **times, "last_at": at(9 * SECOND), **columns})

    def debt(self, topic: str, **columns: Any) -> None:
        closed = {"closed_at": at(60 * SECOND), "how": "paid", "closed_line": f"closed {topic}"}
        written = {"since": at(7 * SECOND), "written_line": f"written {topic}"}
        self.debts.append({"topic": topic, "span": 1, "broker": 3, "replicas": 2, **written, **closed, **columns})

    def seen(self, survey: int, broker: int, log_dir: str, *found: tuple[str, str, int], source: str = "local") -> None:
        """What a survey saw in a log directory: (kind, topic, bytes) each."""
        of = {"survey_id": f"s{survey}", "taken_at": at(survey * 60 * SECOND), "broker": broker, "log_dir": log_dir}
        self.inventory.append({**of, "source": source, "kind": "log-dir"})
        for number, (kind, topic, size_bytes) in enumerate(found):
            row = {"kind": kind, "topic": topic, "size_bytes": size_bytes, "directory": f"{topic}-{number}"}
            self.inventory.append({**of, "source": source, **row})

    def all_spans(self) -> list[dict[str, Any]]:
        """Also the deletions that lines about phases tell of."""
        lines = [
            Line(source, id_, round(time.timestamp() * 1000), kind, subject, data)
            for source, id_, time, kind, subject, data, *_ in self.lines
            if kind == "deletion-phase"
        ]
        rows = reference.deletion_spans(reference.spans(lines), [], lines)
        not_looked_at = ("held", "waited_for", "day")
        told = [{name: _instant(name, row[name]) for name in row if name not in not_looked_at} for row in rows]
        return [*self.spans, *told]

    def evidence(self, spark: SparkSession) -> Evidence:
        spans = _frame(spark, self.all_spans(), schemas.DELETION_SPANS)
        return Evidence(
            bronze(spark, self.lines),
            *(spans, spans, spans),
            _frame(spark, self.inventory, schemas.AGENT_INVENTORY),
            first_topic_ids(_frame(spark, self.znodes, schemas.ZNODE_SNAPSHOT)),
            _frame(spark, self.debts, schemas_debts.DEBTS),
        )


def _instant(name: str, value: Any) -> Any:
    return datetime.datetime.fromisoformat(value) if name.endswith("_at") and value else value


def _frame(spark: SparkSession, rows: Iterable[dict[str, Any]], schema: Any) -> DataFrame:
    return frame_of(spark, schema, (tuple(row.get(name) for name in schema.fieldNames()) for row in rows))


# --- what is wrong ------------------------------------------------------------------------------------------------


def planted() -> Plants:
    """Something for each rule."""
    plants = Plants()
    for plant in (
        _states,
        _beginnings,
        _epochs,
        _obedience,
        _outcomes,
        _steps,
        _debts,
        _disks,
        _missing_lines,
        _forms,
        _damaged,
    ):
        plant(plants)
    return plants


_DELETED: Final = ("ONLINE", "OFFLINE", "DELETION_STARTED", "DELETION_SUCCESSFUL")


def _states(plants: Plants) -> None:
    one = plants.controller(2001)
    one.election(0, "elected", 1)
    one.path(10, "sound", *_DELETED)
    one.path(10, "jumps", "ONLINE", "DELETION_STARTED")
    one.path(10, "unheard-of", "ONLINE", "DELETION_FINISHED")
    one.path(10, "torn", "ONLINE", "OFFLINE")
    one.moved(20, "torn", "DELETION_INELIGIBLE", "OFFLINE", partitions="1")
    one.path(10, "half-moved", "ONLINE", "OFFLINE", broker=None, partitions="0")
    one.path(20, "half-moved", "ONLINE", "OFFLINE", broker=None)
    one.path(10, "begins-late", "DELETION_STARTED", "DELETION_SUCCESSFUL", partitions="0")
    one.moved(10, "vast", "ONLINE", "OFFLINE", partitions="0-99999999")
    one.moved(10, "falling", "ONLINE", "OFFLINE", partitions="7-3")
    one.moved(10, "falling-older", "ONLINE", "OFFLINE", partitions="7-3", older=True)
    one.moved(10, "vast-brokers", "ONLINE", "OFFLINE", broker="1-9999999999")
    one.path(10, "sound-older", *_DELETED[:3], older=True)
    one.answered(20, "sound-older", broker=1, older=True)
    one.path(20, "sound-older", *_DELETED[2:], older=True)
    one.path(10, "sound-answered", *_DELETED[:3], broker="1-3")
    for broker in (1, 2, 3):
        one.answered(20, "sound-answered", broker=broker)
    one.moved(30, "sound-answered", "DELETION_SUCCESSFUL", "NON_EXISTENT", broker="2-3")
    one.path(10, "answered-early", *_DELETED[:2], broker="1-3")
    one.answered(20, "answered-early", broker=2, partitions="1")


def _beginnings(plants: Plants) -> None:
    """Where a history may begin anew, and where it may not."""
    one = plants.controller(2002)
    one.election(60 * SECOND, "elected", 2)
    one.path(61_000, "of-two-tenures", *_DELETED[:3])
    one.path(61_000, "made-again", *_DELETED)
    one.phase(62_000, "made-again", "done", topic_id="made-again")
    one.path(63_000, "made-again", "NON_EXISTENT", "NEW", "ONLINE")
    one.path(63_000, "retired", *_DELETED, "NON_EXISTENT")
    one.path(63_000, "retired", "NEW", "OFFLINE")
    one.path(63_000, "vanished", "NON_EXISTENT", "NEW", "ONLINE")
    one.line(64_000, "refusal", "topic/vanished", what="keeping the topic", why="its znode was removed")
    one.path(65_000, "vanished", "NON_EXISTENT", "NEW", "ONLINE")
    one.path(65_000, "lost-lines", "ONLINE", "OFFLINE")
    one.line(
        66_000,
        "gap",
        "controller/2002",
        count=3,
        first="2026-01-02T10:01:05Z",
        last="2026-01-02T10:01:06Z",
        reason="full",
    )
    one.path(67_000, "lost-lines", "DELETION_STARTED", "DELETION_SUCCESSFUL")
    one.election(68_000, "elected", 3)
    one.path(69_000, "of-two-tenures", "ONLINE", "OFFLINE")
    kafka = plants.controller(2005)
    kafka.path(65_000, "lost-on-the-way", "ONLINE", "OFFLINE")
    kafka.seq += 1
    kafka.path(67_000, "lost-on-the-way", "DELETION_STARTED", "DELETION_SUCCESSFUL")
    kafka.lost_on_the_way(68_000, "2026-01-02T10:01:06Z", "2026-01-02T10:01:06Z")
    other = plants.controller(2004)
    other.election(70 * SECOND, "elected", 4)
    other.path(71_000, "never-gone", *_DELETED)
    other.path(72_000, "never-gone", "NON_EXISTENT", "NEW", "ONLINE")
    other.path(73_000, "on-a-controller", "ONLINE", "OFFLINE", broker=2004)
    other.unasked(74_000, "on-a-controller", broker=2004)
    other.moved(75_000, "on-a-controller", "DELETION_SUCCESSFUL", "NON_EXISTENT", broker=2004)
    other.unasked(76_000, "only-its-own", broker=2004)
    other.moved(77_000, "only-its-own", "DELETION_SUCCESSFUL", "NON_EXISTENT", broker=7, partitions="0")
    rotated = plants.controller(2003, seq=500)
    rotated.path(10, "rotated", "DELETION_STARTED", "DELETION_SUCCESSFUL")


def _epochs(plants: Plants) -> None:
    first, second = plants.controller(2011), plants.controller(2012)
    first.election(600_000, "elected", 11)
    first.election(600_100, "active", 11)
    first.wrote(601_000)
    second.election(660_000, "elected", 12)
    second.election(660_100, "active", 12)
    first.wrote(661_000, outcomes={"controller moved": 1})
    first.wrote(661_500, took_ms=3000)
    first.wrote(680_000, first_path="/late")
    first.election(690_000, "resigned", 11)
    plants.controller(2013).election(700_000, "elected", 12)
    plants.controller(2014).election(710_000, "elected", 20)
    plants.controller(2015).election(800_000, "elected", 19)
    plants.controller(2016).election(801_000, "elected", 21)
    plants.controller(2017).election(799_000, "elected", 22)


def _damaged(plants: Plants) -> None:
    """Numbers that cannot be true: nothing is said of these lines, and all the rest is found as without them."""
    slow = plants.controller(2091)
    slow.election(500_000, "elected", 9)
    slow.wrote(500_500, took_ms=1e18)
    timeless = plants.agent(31, run="f" * 16)
    for ms in (7, 8):
        timeless.freed(1_200_000 + ms, "freed", 9 * 10**18)
    far = plants.agent(92)
    far.obeyed(0, 1, NONE=1)
    far.seq = 2**63 - 2
    far.obeyed(10, 1, NONE=1)


def _obedience(plants: Plants) -> None:
    agent = plants.agent(21)
    agent.obeyed(0, 4, NONE=1)
    agent.obeyed(10, 5, NONE=1)
    agent.obeyed(20, 4, STALE_CONTROLLER_EPOCH=1)
    agent.obeyed(30, 4, NONE=1)
    plants.agent(22).obeyed(0, 4, NONE=1)


def _outcomes(plants: Plants) -> None:
    """The newest term that became active is that of controller 2021."""
    before = plants.controller(2020)
    before.phase(0, "gone-without-a-word", "queued", topic_id="gone-without-a-word")
    before.phase(0, "taken-over", "queued", topic_id="taken-over")
    before.phase(0, "twice", "queued", "done", topic_id="twice")
    before.phase(0, "undead", "queued", "done", topic_id="undead")
    before.phase(SECOND, "undead", "started", topic_id="undead")
    before.phase(0, "without-ids", "queued", "done", "queued", "done")
    before.phase(0, "let-go", "held", "let go", "queued", "done", topic_id="let-go")
    before.phase(0, "removed-by-hand", "queued", "started", "vanished", topic_id="removed-by-hand")
    before.phase(0, "put-back", "queued", "vanished", "queued", "done", topic_id="put-back")
    before.phase(0, "past-its-end", "queued", "vanished", "removed", "done", topic_id="past-its-end")
    before.phase(0, "this", "queued", "done", topic_id="shared-id")
    before.phase(SECOND, "that", "queued", "done", topic_id="shared-id")
    after = plants.controller(2021)
    after.election(900_000, "active", 30)
    after.phase(901_000, "taken-over", "queued", topic_id="taken-over")
    after.phase(901_000, "twice", "done", topic_id="twice")
    plants.znodes.append({"kind": "topic", "topic": "seen", "topic_id": "let-go", "taken_at": at(0)})
    plants.znodes.append({"kind": "topic", "topic": "twice", "topic_id": "twice", "taken_at": at(0)})


def _steps(plants: Plants) -> None:
    plants.span("all-well")
    plants.span("unacknowledged", acked_replicas=3)
    told = plants.controller(2031)
    for topic, topic_id in (("half-on-a-controller", "id"), ("too-few-on-a-controller", None)):
        plants.span(topic, acked_replicas=2, topic_id=topic_id)
    for _ in range(2):  # After a failover it is told again.
        told.unasked(SECOND, "half-on-a-controller", broker=2031, topic_id="id")
    told.unasked(SECOND, "too-few-on-a-controller", broker=2031, partitions="1")
    told.unasked(SECOND, "too-few-on-a-controller", broker=2031, partitions="0", topic_id="of-another-life")
    plants.span("not-yet", acked_replicas=3, outcome="open", done_at=None, last_at=None)
    in_a_gap = {"marked_at": at(64_000), "queued_at": at(64_000), "started_at": at(64_000), "done_at": at(70_000)}
    plants.span("in-a-gap", acked_replicas=3, **in_a_gap)
    plants.span("rotated-away", acked_replicas=0, marked_at=None, queued_at=None, started_at=None)
    plants.span("backwards", started_at=at(-8 * SECOND))
    plants.span("skewed", started_at=at(-3 * SECOND))


def _debts(plants: Plants) -> None:
    for topic in ("owed", "owed-late", "owed-unwritten", "owed-skewed", "closed-again"):
        plants.span(topic, acked_replicas=2, owed_replicas=2, znodes_gone_at=at(8 * SECOND))
    plants.debt("owed")
    plants.debt("owed-late", since=at(14 * SECOND), closed_at=None, how=None, closed_line=None)
    plants.debt("owed-unwritten", written_line=None)
    plants.debt("owed-skewed", since=at(12 * SECOND))
    plants.debt("closed-again", closed_again_at=at(70 * SECOND))
    plants.debt("of-no-span", span=None, written_line=None)
    plants.span("owes-too-little", acked_replicas=2, owed_replicas=1)


def _disks(plants: Plants) -> None:
    waiting = [(topic, 1000) for topic in ("freed", "freed-less", "still-there")]
    plants.seen(20, 31, "/logs", *(("deleted", *each) for each in waiting), ("replica", "grown", 1000))
    plants.seen(21, 31, "/logs", ("deleted", "still-there", 500))
    agent = plants.agent(31)
    for ms, topic, size in ((1, "freed", 1009), (2, "freed-less", 980), (3, "still-there", 400), (4, "grown", 1500)):
        agent.freed(1_200_000 + ms, topic, size)
    restarted = int((START.timestamp() + 1325) * 1000)
    plants.seen(22, 32, "/logs", ("deleted", "restarted", 1000))
    plants.seen(23, 32, "/logs")
    plants.agent(32, run=f"{restarted:x}").freed(1_330_000, "restarted", 10)
    plants.seen(30, 41, "/data/a/")
    plants.seen(30, 42, "/data//a")
    plants.seen(30, 43, "/data/b")
    plants.seen(31, 44, "/data/b")
    plants.seen(31, 45, "/data/b", source="broker")


def _missing_lines(plants: Plants) -> None:
    holed = plants.agent(51)
    holed.obeyed(0, 1, NONE=1)
    holed.seq += 3
    holed.obeyed(10, 1, NONE=1)
    told = plants.agent(52)
    told.obeyed(0, 1, NONE=1)
    told.seq += 3
    told.obeyed(10, 1, NONE=1)
    said = {"first": "2026-01-02T10:00:00.005Z", "last": "2026-01-02T10:00:00.007Z", "reason": "disk full"}
    told.line(20, "gap", "broker/52", count=3, **said)
    for number, lost_at in ((54, "00.005"), (55, "09.005")):
        through_kafka = plants.agent(number)
        through_kafka.obeyed(0, 1, NONE=1)
        through_kafka.seq += 3
        through_kafka.obeyed(10, 1, NONE=1)
        through_kafka.lost_on_the_way(20, f"2026-01-02T10:00:{lost_at}Z", f"2026-01-02T10:00:{lost_at}Z")
    between = plants.agent(53, seq=65_534)
    between.obeyed(0, 1, NONE=1)
    between.seq += 1
    between.obeyed(10, 1, NONE=1)


def _forms(plants: Plants) -> None:
    agent = plants.agent(61)
    agent.line(0, "broker", "broker/61", happened="log directories loaded", new_key=[1, {"a": 2}])
    agent.line(1, "broker", "broker/61", has_happened="a key was renamed")
    agent.line(
        2,
        "bytes-freed",
        "topic/wrong-subject",
        log_dir="/logs",
        topic="t",
        partitions="0",
        directories=1,
        size_bytes=1,
        files=1,
        error=None,
    )
    agent.line(3, "broker", "broker/61", happened=7)
    repeating = plants.agent(62)
    for _ in range(2):
        repeating.line(4, "broker", "broker/62", happened=7)
