"""Make the archive of Spark's classes, by a run over a few lines: it uses nearly all classes that any run uses."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext

from lethe.pipeline import session
from lethe.pipeline.class_archive import MAKES_ARCHIVE, keep, why_unusable
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.lock import acquire_local
from lethe.pipeline.jobs import batch
from lethe.pipeline.jobs.report import DayRange, OnStage
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, encode

_AT_MS: Final = 1_767_225_600_000
_AT: Final = datetime.datetime.fromtimestamp(_AT_MS / 1000, datetime.UTC)
_SUBJECT: Final = "topic/orders"
_TOPIC_ID: Final = "Md63e-3tEAOLEK7drWc-bQ"
_UNFINISHED: Final = "preparing-"
_CUT_OFF: Final = b'{"specversion":'
"""Such lines are parsed otherwise."""


class NotMade(Exception):
    """The archive could not be used, or Java failed to write it; the message says why, or names Java's log."""


def make_archive(directory: Path, log: Path, stage: OnStage) -> Path:
    """Make or replace the archive in this directory, and return its path. Raises SessionUnavailable, NotMade, OSError,
    and Locked while another process makes one."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (why := why_unusable(directory)) is not None:
        raise NotMade(why)
    with acquire_local(directory, "prepare", "cache"):
        # A process that was killed leaves 190 MB.
        for left in directory.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)
        return _make_archive(directory, log, stage)


def _make_archive(directory: Path, log: Path, stage: OnStage) -> Path:
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=directory) as place:
        made = Path(place) / "classes.jsa"
        exit_code = _run_with(f"{MAKES_ARCHIVE}{made}", Path(place), log, stage)
        # What Java had begun to write, it may have left behind.
        if exit_code != 0 or not made.is_file():
            raise NotMade(f"Java wrote no archive, and ended with {exit_code}; what it said is in {log}")
        return keep(made, session.SPARK_VERSION, directory)


def _run_with(option: str, place: Path, log: Path, stage: OnStage) -> int:
    """Run the pipeline in a JVM with this option, to the end of the JVM. Return the exit code of that."""
    java = session.settings_of(session.LOCAL, {}, 0)[session.JAVA_OPTIONS]
    stage("starting Spark")
    spark = session.build_session(session.LOCAL, {session.JAVA_OPTIONS: f"{java} {option}"}, log=log, input_bytes=0)
    try:
        journal = place / "journal.jsonl"
        journal.write_bytes(b"".join(map(encode, _entries())) + _CUT_OFF)
        batch.run(
            *(spark, Lake(spark, str(place / "lake")), [str(journal)], [], DayRange(), lambda: _AT),
            batch_id="prepare",
            stage=stage,
        )
        stage("writing the archive")
    finally:
        spark.stop()
        exit_code = _end_jvm()
    return exit_code


def _entries() -> list[JournalEntry]:
    """Return the records of one deletion."""
    phase: dict[str, JsonValue] = {"took_ms": 0, "topic_id": _TOPIC_ID, "partitions": 1, "replicas": 1}
    answer: dict[str, JsonValue] = {"broker": 1, "broker_epoch": 1, "request_id": 1, "partitions": "0"}
    answer |= {"result": "NONE", "topic_id": _TOPIC_ID}
    records = (
        EventRecord(EventRecordType.DELETION_PHASE, _SUBJECT, {"phase": "queued", **phase}),
        EventRecord(EventRecordType.ACK, _SUBJECT, answer),
        EventRecord(EventRecordType.DELETION_PHASE, _SUBJECT, {"phase": "done", **phase}),
    )
    return [
        JournalEntry(f"1-{number}", "/lethe/controller/1", _AT_MS + number, record)
        for number, record in enumerate(records, start=1)
    ]


def _end_jvm() -> int:
    """End the JVM, and return its exit code. The next session starts another one."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 -- PySpark keeps the JVM until Python ends
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.shutdown()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait())
