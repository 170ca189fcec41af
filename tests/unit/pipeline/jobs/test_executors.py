"""Jobs do not wait for executors without end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import pytest

from lethe.pipeline.jobs.executors import ExecutorWatch, NoExecutors

POLL_S = 0.001
LIMIT_S = 10.0
"""Of a wait of this test."""


class Application:
    """Has executors by turns, and at last always what it had last; its jobs end when they are cancelled."""

    def __init__(self, executors: Sequence[bool], *, jobs: bool = True) -> None:
        self._executors = list(executors)
        self._jobs = jobs
        self.seen_all = threading.Event()
        self.cancelled = threading.Event()

    def has_executors(self) -> bool:
        if len(self._executors) == 1:
            self.seen_all.set()
            return self._executors[0]
        return self._executors.pop(0)

    def has_jobs(self) -> bool:
        return self._jobs

    def cancel_jobs(self) -> None:
        self.cancelled.set()


def watch(application: Application, told: list[str], limit_s: float | None) -> ExecutorWatch:
    """A watch for which a second passes from look to look."""
    seconds = itertools.count()
    return ExecutorWatch(
        application, "no executor", told.append, limit_s, poll_s=POLL_S, clock=lambda: float(next(seconds))
    )


def cancelled(application: Application) -> None:
    assert application.cancelled.wait(LIMIT_S)
    raise RuntimeError("Job 0 cancelled")


def failed(application: Application) -> None:
    assert application.seen_all.wait(LIMIT_S)
    raise RuntimeError("[DIVIDE_BY_ZERO]")


def test_jobs_are_cancelled_at_the_limit() -> None:
    application, told = Application([False]), list[str]()
    with pytest.raises(NoExecutors, match=r"^no executor for 20 s: start workers"), watch(application, told, 20):
        cancelled(application)
    assert told == ["waiting: no executor"]


def test_a_short_limit_is_told_by_its_error_alone() -> None:
    application, told = Application([False]), list[str]()
    with pytest.raises(NoExecutors, match=r"^no executor for 3 s"), watch(application, told, 3):
        cancelled(application)
    assert not told


def test_an_error_before_the_limit_stays_what_it_is() -> None:
    application = Application([True] * 5)
    with pytest.raises(RuntimeError, match="DIVIDE"), watch(application, [], 3):
        failed(application)
    assert not application.cancelled.is_set()


@pytest.mark.parametrize(
    "application",
    [Application([True] * 30), Application([False] * 30, jobs=False), Application([False, False, True] * 10)],
    ids=["executors", "no jobs", "executors that come back"],
)
def test_what_does_not_wait_is_left_alone(application: Application) -> None:
    with watch(application, [], 3):
        assert application.seen_all.wait(LIMIT_S)
    assert not application.cancelled.is_set()


def test_without_a_limit_it_is_told_once() -> None:
    application, told = Application([False] * 60), list[str]()
    with watch(application, told, None):
        assert application.seen_all.wait(LIMIT_S)
    assert told == ["waiting: no executor"]
    assert not application.cancelled.is_set()
