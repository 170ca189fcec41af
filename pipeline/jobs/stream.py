"""Keep the tables current: a query of Structured Streaming whose micro-batches do what the batch job does.

The lake is locked only during a micro-batch, so that `lethe pipeline run` can run in between; the checkpoint is always
locked, so that it has one stream. The stream's beginning and each batch wait while another process holds the lake. On a
request to stop, the stream ends between two batches.

Spark starts no micro-batch without new lines. The thread that waits for the end of the query therefore recomputes
periodically what depends on the time, never at the same time as a batch.
"""

from __future__ import annotations

import datetime
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lethe.pipeline.io import journal_source
from lethe.pipeline.io.files import FileSystem, FileSystemError
from lethe.pipeline.io.journal import InputNotFound
from lethe.pipeline.io.lake import Lake, LakeUnusable
from lethe.pipeline.io.lake_state import ReadableFiles
from lethe.pipeline.io.lock import Locked, acquire
from lethe.pipeline.io.tailing import JournalTailer, unread_bytes
from lethe.pipeline.jobs.micro_batch import BatchResult, MicroBatchRunner
from lethe.pipeline.jobs.rules import RuleChanges
from lethe.protocol.lake import IDENTITY
from lethe.protocol.vocabulary import SecurityProtocol

T = TypeVar("T")
POLL_S: Final = 1
LOCKED_POLL_S: Final = 1.0
SIGNAL_S: Final = 1.0
REFRESH_S: Final = 60.0
CHECKPOINT: Final = "_checkpoint"
LINE_BYTES: Final = 320
"""Estimated size of a record: Spark limits a batch from Kafka by the number of records."""


class StreamFailed(Exception):
    """The query ended outside a batch; the message is Spark's."""


class KafkaTopic(NamedTuple):
    """A topic that holds the journal's lines."""

    bootstrap: str
    topic: str
    security: Mapping[str, str] = MappingProxyType({})
    """Options of Spark's source for the connection, without secrets (`pipeline.io.kafka_options`)."""

    @property
    def protocol(self) -> SecurityProtocol:
        """The protocol that consumers speak with brokers; without one PLAINTEXT, as Kafka's clients do."""
        return SecurityProtocol[self.security.get("kafka.security.protocol", "PLAINTEXT").strip()]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Sources and settings of a stream. Places are directories, files and patterns on a local disk. `every_s` None:
    ingest what is there and end. `checkpoint` None: inside the lake."""

    journals: tuple[str, ...] = ()
    surveys: tuple[str, ...] = ()
    kafka: KafkaTopic | None = None
    checkpoint: str | None = None
    every_s: float | None = None
    delay: datetime.timedelta = datetime.timedelta(days=7)
    max_bytes: int = journal_source.MAX_BYTES
    max_files_per_day: int = 200
    """Days of bronze with more files are compacted."""
    rule_changes: RuleChanges = RuleChanges()  # noqa: RUF009 -- it cannot be changed
    """Changes of the lake's rules."""
    refresh_s: float = REFRESH_S
    """Seconds without a change (at least `every_s`) after which rows that depend on the time are recomputed."""


class BatchProgress(NamedTuple):
    """A finished micro-batch and its numbers."""

    done: BatchResult
    took_ms: int
    behind_bytes: int | None
    """Bytes of the journal's files that are not ingested yet; None for a journal in Kafka."""


class _Stopped(Exception):
    """A request to stop came before this batch began."""


def require_local(spark: SparkSession, places: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The places as local paths. Raises InputNotFound for one that is not local or does not exist."""
    found = []
    for place in places:
        files = FileSystem(spark, place)
        root = files.local_root
        if root is None:
            raise InputNotFound(f"the {what} {place} is on no local disk: `lethe pipeline run` reads it, or mount it")
        if not files.glob(place):
            raise InputNotFound(f"no {what} at {place}: there is no such file or directory")
        found.append(str(root))
    return tuple(found)


def refuse_lake_as_checkpoint(checkpoint: ReadableFiles) -> None:
    """Raise LakeUnusable if the checkpoint is a lake. Both would have one lock, which the stream would hold against its
    own batches."""
    if any(item.name == IDENTITY for item in checkpoint.list_directory(checkpoint.root)):
        raise LakeUnusable(f"--checkpoint {checkpoint.root} is a lake: give a directory of its own, or leave it out")


@dataclass(slots=True)
class Stream:
    """One stream. Setting `stopping` ends it between two batches. `on_batch` receives each batch, `on_wait` the reason
    of a wait. `on_time_refresh` is called after a recomputation that only the passed time required."""

    spark: SparkSession
    lake: Lake
    plan: StreamOptions
    now: Callable[[], datetime.datetime]
    on_batch: Callable[[BatchProgress], None] = lambda _: None
    on_wait: Callable[[str], None] = lambda _: None
    stopping: threading.Event = field(default_factory=threading.Event)
    on_time_refresh: Callable[[], None] = lambda: None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changed_at: float | None = None
    """When tables were last recomputed, by the monotonic clock."""
    _checkpoint: FileSystem | None = None
    _surveys: list[str] = field(default_factory=list)
    _runner: MicroBatchRunner | None = None
    _failure: Exception | None = None
    _tailer: JournalTailer = field(default_factory=lambda: JournalTailer(()))

    def run(self) -> None:
        """Run until all input is ingested, or `stopping`. Raises Locked if another stream has the checkpoint, and
        InputNotFound, LakeUnusable, FileSystemError and StreamFailed."""
        journals = require_local(self.spark, self.plan.journals, "journal")
        surveys = require_local(self.spark, self.plan.surveys, "survey")
        self._tailer = JournalTailer(journals)
        try:
            self._run_exclusively(self._complete_change)
        except _Stopped:
            return
        checkpoint = FileSystem(self.spark, self.plan.checkpoint or f"{self.lake.root}/{CHECKPOINT}")
        refuse_lake_as_checkpoint(checkpoint)
        checkpoint.make_directory(checkpoint.root)
        with acquire(checkpoint, "stream", "checkpoint"):
            self._checkpoint, self._surveys = checkpoint, list(surveys)
            self._await_end(self._start(self._line_stream(journals, surveys), checkpoint))

    def _complete_change(self) -> None:
        """Complete or discard what the lake's last writer left unfinished."""
        with self.lake.writer("stream"):
            pass

    def _line_stream(self, journals: tuple[str, ...], surveys: tuple[str, ...]) -> DataFrame:
        """Return (value, file, position, lost), streaming."""
        spark, kafka = self.spark, self.plan.kafka
        spark.dataSource.register(journal_source.JournalSource)
        given = journal_source.source_options(journals, surveys, self.plan.max_bytes)
        lines = spark.readStream.format(journal_source.NAME).options(**given).load()
        return lines if kafka is None else lines.unionByName(kafka_lines(spark, kafka, self.plan.max_bytes))

    def _start(self, lines: DataFrame, checkpoint: FileSystem) -> StreamingQuery:
        every_s = self.plan.every_s
        # What a batch raises is raised by `run`; the bridge to Java would print it too, with its trace.
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)

        def batch(rows: DataFrame, number: int) -> None:
            try:
                self._run_batch(rows, number, checkpoint)
            except Exception as error:
                self._failure = error
                raise

        writer = lines.writeStream.queryName("lethe").foreachBatch(batch)
        writer = writer.option("checkpointLocation", checkpoint.root)
        timed = (
            writer.trigger(availableNow=True)
            if every_s is None
            else writer.trigger(processingTime=f"{every_s} seconds")
        )
        return timed.start()

    def _await_end(self, query: StreamingQuery) -> None:
        every_s, began = self.plan.every_s, time.monotonic()
        try:
            while query.isActive:
                query.awaitTermination(POLL_S)
                if self.stopping.is_set():
                    if not query.status["isTriggerActive"]:
                        query.stop()
                elif every_s is not None and self._is_due(began, max(every_s, self.plan.refresh_s)):
                    self._refresh_time_dependent()
            query.awaitTermination()
            if every_s is None and self._changed_at is None and not self.stopping.is_set():
                self._refresh_time_dependent()
        except StreamingQueryException as error:
            # A service manager that signals all processes at once may stop Spark first. The next stream repeats the
            # interrupted batch.
            self.stopping.wait(SIGNAL_S)
            if isinstance(self._failure, _Stopped) or (self.stopping.is_set() and not self._needs_operator()):
                return
            if self._failure is not None:
                raise self._failure from error
            raise StreamFailed(_error_message(error)) from error
        finally:
            if query.isActive:
                query.stop()

    def _needs_operator(self) -> bool:
        """Whether a batch failed for a reason that an operator has to resolve."""
        return isinstance(self._failure, FileSystemError | LakeUnusable)

    def _is_due(self, began: float, after_s: float) -> bool:
        return time.monotonic() - (began if self._changed_at is None else self._changed_at) >= after_s

    def _refresh_time_dependent(self) -> None:
        try:
            self._run_exclusively(lambda: self._batch_runner().refresh_time_dependent())
        except _Stopped:
            return
        except (FileSystemError, LakeUnusable):
            raise
        except Exception:
            # As in `_await_end`: Spark's process may end before this one receives the signal.
            self.stopping.wait(SIGNAL_S)
            if not self.stopping.is_set():
                raise
            return
        self._changed_at = time.monotonic()
        self.on_time_refresh()

    def _run_exclusively(self, action: Callable[[], T]) -> T:
        """Run while no other thread and no other process writes to the lake. Raises _Stopped."""
        said = ""
        while True:
            if self.stopping.is_set():
                raise _Stopped
            try:
                with self._lock:
                    return action()
            except Locked as error:
                if said != str(error):
                    said = str(error)
                    self.on_wait(said)
                self.stopping.wait(LOCKED_POLL_S)

    def _batch_runner(self) -> MicroBatchRunner:
        if self._runner is None:
            checkpoint, plan = self._checkpoint, self.plan
            assert checkpoint is not None, "it is there before the query is"
            stream_id = str(json.loads(checkpoint.read_text(f"{checkpoint.root}/metadata"))["id"])
            self._runner = MicroBatchRunner(
                self.spark,
                self.lake,
                stream_id,
                self._surveys,
                plan.delay,
                self.now,
                plan.rule_changes,
                plan.max_files_per_day,
            )
        return self._runner

    def _run_batch(self, rows: DataFrame, number: int, checkpoint: FileSystem) -> None:
        began = time.monotonic()
        done = self._run_exclusively(lambda: self._batch_runner().run(rows, number))
        if done.counts.new or done.surveys or done.days:
            self._changed_at = time.monotonic()
        self.on_batch(
            BatchProgress(done, round((time.monotonic() - began) * 1000), self._unread_bytes(checkpoint, number))
        )

    def _unread_bytes(self, checkpoint: FileSystem, number: int) -> int | None:
        """Return the bytes after the batch's end offsets, which Spark stores as one line per source."""
        if not self.plan.journals:
            return None
        for line in checkpoint.read_text(f"{checkpoint.root}/offsets/{number}").splitlines():
            if line.startswith("{") and isinstance(offset := json.loads(line), dict) and "files" in offset:
                return unread_bytes(journal_source.positions_in(offset), self._tailer.poll())
        return None


def kafka_lines(spark: SparkSession, kafka: KafkaTopic, max_bytes: int) -> DataFrame:
    """Return (value, file, position, lost): the topic's records from the earliest on, streaming; a batch has about
    `max_bytes`. Records that Kafka removed before they were read leave a hole in the numbers of the record ids, which
    the audit finds."""
    records = (
        spark.readStream.format("kafka")
        .options(**kafka.security)
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", kafka.topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", str(max(1, max_bytes // LINE_BYTES)))
        .load()
    )
    return records.where(F.col("value").isNotNull()).select(
        F.rtrim(F.col("value").cast("string"), F.lit("\n")).cast("binary").alias("value"),
        F.concat(F.lit("kafka:"), "topic", F.lit("/"), F.col("partition").cast("string")).alias("file"),
        F.col("offset").alias("position"),
        F.lit(0).cast("long").alias("lost"),
    )


def _error_message(error: Exception) -> str:
    """Return the message of a source, the last line of its trace; without one that of Spark, and its first cause."""
    text = str(error)
    raised = [line.strip() for line in text.splitlines() if line[:1].isalpha() and "Error" in line.partition(":")[0]]
    if raised:
        return raised[-1]
    cause = error
    while (inner := getattr(cause, "_cause", None)) is not None:
        cause = inner
    return ": ".join(dict.fromkeys(each.partition("\n")[0] for each in (text, str(cause))))
