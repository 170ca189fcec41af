"""Lines about refusals: each kind at once, then seldom, and all of them together limited."""

import logging

import pytest

from lethe.adapters.security import audit
from lethe.adapters.security.audit import AuditLog

LOGGER = logging.getLogger("test.audit")


class Watch:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_kind_is_logged_once_and_then_with_the_number_of_those_between(caplog: pytest.LogCaptureFixture) -> None:
    now = Watch()
    log = AuditLog(LOGGER, now)
    for second in range(0, 1_201, 200):
        now.s = second
        log.note("ann", "ann may not")
        log.note("bob", "bob may not") if second == 400 else None
    assert lines(caplog) == ["ann may not", "bob may not", "ann may not (2 more before)", "ann may not (2 more before)"]
    assert log.count == 8


def test_many_kinds_in_a_minute_are_counted_instead(caplog: pytest.LogCaptureFixture) -> None:
    now = Watch()
    log = AuditLog(LOGGER, now)
    for number in range(1_000):
        log.note(number, f"kind {number}")
    assert len(lines(caplog)) == audit.MAX_LINES
    now.s = 61.0
    log.note("later", "later")
    assert lines(caplog)[audit.MAX_LINES :] == ["besides, 940 refusals of other kinds were not logged", "later"]


def test_the_number_of_kinds_that_are_kept_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    now = Watch()
    log = AuditLog(LOGGER, now)
    for number in range(3_000):
        now.s = number * 1.5
        log.note(number, "x")
    assert len(log._kinds) == audit.MAX_KINDS
