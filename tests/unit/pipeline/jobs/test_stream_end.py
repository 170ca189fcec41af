"""How a stream ends whose Spark fails: as asked where it was to end anyway, else with what is wrong. And what it does
while Spark has nothing to do."""

from __future__ import annotations

import datetime
from typing import Any, Final, cast

import pytest
from pyspark.errors import StreamingQueryException

from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.lock import Locked
from lethe.pipeline.jobs import stream
from lethe.pipeline.jobs.stream import Stream, StreamFailed, StreamOptions


class Query:
    """A query that failed."""

    isActive = True  # noqa: N815 - as Spark has it

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error or StreamingQueryException("a worker is gone")

    def awaitTermination(self, timeout: float | None = None) -> None:  # noqa: N802 - as Spark has it
        self.isActive = False
        raise self._error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(stream, "SIGNAL_S", 0)
    nothing = cast("Any", None)
    return Stream(nothing, nothing, StreamOptions(), lambda: datetime.datetime.now(datetime.UTC))


def test_what_fails_while_all_processes_are_ended_is_the_end(failing: Stream) -> None:
    failing.stopping.set()
    failing._failure = RuntimeError("a worker is gone")
    failing._await_end(cast("Any", Query()))


def test_what_has_to_be_mended_is_told_all_the_same(failing: Stream) -> None:
    failing.stopping.set()
    failing._failure = FileSystemError("cannot write: /lake: No space left on device")
    with pytest.raises(FileSystemError, match="No space left"):
        failing._await_end(cast("Any", Query()))


def test_otherwise_a_failure_is_one(failing: Stream) -> None:
    with pytest.raises(StreamFailed, match="a worker is gone"):
        failing._await_end(cast("Any", Query()))


class JavaError(StreamingQueryException):
    """As PySpark has the errors of Java."""

    def __init__(self, message: str, cause: Exception | None) -> None:
        super().__init__(message)
        self._cause = cause


def test_a_failure_is_told_with_its_first_cause(failing: Stream) -> None:
    first = JavaError("Could not find a 'KafkaClient' entry\n", None)
    error = JavaError("Failed to create new KafkaAdminClient\nmore", JavaError("Failed to create", first))
    said = "^Failed to create new KafkaAdminClient: Could not find a 'KafkaClient' entry$"
    with pytest.raises(StreamFailed, match=said):
        failing._await_end(cast("Any", Query(error)))


class IdleQuery:
    """A query for which nothing new comes; it is over after so many looks, where it is to end by itself."""

    status: Final = {"isTriggerActive": False}

    def __init__(self, looks: int = 1_000) -> None:
        self.isActive = True
        self.looks = looks

    def awaitTermination(self, timeout: float | None = None) -> None:  # noqa: N802 - as Spark has it
        self.looks -= 1
        self.isActive &= self.looks > 0

    def stop(self) -> None:
        self.isActive = False


class Batches:
    """Counts how often time passed; another process holds the lake at first."""

    def __init__(self, error: Exception | None = None) -> None:
        self.errors = [] if error is None else [error]
        self.passed = 0

    def refresh_time_dependent(self) -> None:
        if self.errors:
            raise self.errors.pop()
        self.passed += 1


def idle(plan: StreamOptions, batches: Batches) -> Stream:
    nothing = cast("Any", None)
    found = Stream(nothing, nothing, plan, lambda: datetime.datetime.now(datetime.UTC))
    found._runner = cast("Any", batches)
    return found


def test_time_passes_though_spark_begins_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LOCKED_POLL_S", 0)
    batches = Batches(Locked("somebody writes"))
    said: list[str] = []
    following = idle(StreamOptions(every_s=0.0, refresh_s=0.0), batches)
    following.on_wait = said.append
    following.on_time_refresh = lambda: following.stopping.set() if batches.passed == 3 else None
    following._await_end(cast("Any", IdleQuery()))
    assert (batches.passed, said) == (3, ["somebody writes"])


def test_not_before_it_is_due() -> None:
    batches = Batches()
    idle(StreamOptions(every_s=0.0, refresh_s=3600.0), batches)._await_end(cast("Any", IdleQuery(20)))
    idle(StreamOptions(every_s=3600.0, refresh_s=0.0), batches)._await_end(cast("Any", IdleQuery(20)))
    assert batches.passed == 0


def test_a_stream_that_ends_by_itself_lets_time_pass_once_where_nothing_came() -> None:
    batches = Batches()
    idle(StreamOptions(), batches)._await_end(cast("Any", IdleQuery(3)))
    changed = idle(StreamOptions(), batches)
    changed._changed_at = 0.0
    changed._await_end(cast("Any", IdleQuery(3)))
    assert batches.passed == 1


def test_a_spark_that_is_ended_with_the_stream_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SIGNAL_S", 0)

    class Ended(Batches):
        def refresh_time_dependent(self) -> None:
            following.stopping.set()
            raise ConnectionRefusedError

    following = idle(StreamOptions(every_s=0.0, refresh_s=0.0), Ended())
    following._await_end(cast("Any", IdleQuery()))
    with pytest.raises(RuntimeError, match="a fault"):
        idle(StreamOptions(), Batches(RuntimeError("a fault")))._await_end(cast("Any", IdleQuery(3)))
