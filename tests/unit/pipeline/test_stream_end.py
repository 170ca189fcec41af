"""How a stream ends whose Spark fails: as asked where it was to end anyway, else with what is wrong."""

from __future__ import annotations

import datetime
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from pipeline.io.files import FileTrouble
from pipeline.jobs import stream
from pipeline.jobs.stream import Plan, Stream, StreamFailed


class Query:
    """A query that failed."""

    isActive = True  # noqa: N815 - as Spark has it

    def awaitTermination(self, timeout: float | None = None) -> None:  # noqa: N802 - as Spark has it
        self.isActive = False
        raise StreamingQueryException("a worker is gone")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(stream, "SIGNAL_S", 0)
    nothing = cast("Any", None)
    return Stream(nothing, nothing, Plan(), lambda: datetime.datetime.now(datetime.UTC))


def test_what_fails_while_all_processes_are_ended_is_the_end(failing: Stream) -> None:
    failing.stopping.set()
    failing._failure = RuntimeError("a worker is gone")
    failing._follow(cast("Any", Query()))


def test_what_has_to_be_mended_is_told_all_the_same(failing: Stream) -> None:
    failing.stopping.set()
    failing._failure = FileTrouble("cannot write: /lake: No space left on device")
    with pytest.raises(FileTrouble, match="No space left"):
        failing._follow(cast("Any", Query()))


def test_otherwise_a_failure_is_one(failing: Stream) -> None:
    with pytest.raises(StreamFailed, match="a worker is gone"):
        failing._follow(cast("Any", Query()))
