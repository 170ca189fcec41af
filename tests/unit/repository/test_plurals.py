"""Messages that count something, for none, one and two: "1 topics" is how readers notice that nobody looked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from lethe.admin.outcomes import Outcome
from lethe.admin.rescue_ghosts import CacheDifference, CacheReport, ended_lines, found_lines
from lethe.admin.rescue_snapshot import ElectionRate
from lethe.cli.deletion_show import Detail, marking_lines
from lethe.cli.rescue_show import before, plan
from lethe.controller.core.context import NOTHING_UNCONFIRMED
from lethe.controller.runtime.blockers import Blocked, Blocker, warning
from lethe.controller.runtime.unconfirmed_deletions import left_words, waiting_words
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.explain import DeletionVerdict, Explanation
from tests.unit.cli.test_rescue_show import GONE, end, look

_PLURALS: Final = "topics|brokers|causes|times|problems|metadata caches"
_SINGULARS: Final = "topic|broker|cause|time|problem|metadata cache"
_WRONG: Final = re.compile(rf"\b1 (?:more )?(?:{_PLURALS})\b|\b[02] (?:more )?(?:{_SINGULARS})\b")
ONE: Final = BrokerId(1)


def names(count: int) -> tuple[str, ...]:
    return tuple(f"topic-{number}" for number in range(count))


def caches(count: int) -> CacheReport:
    ghosts = tuple(CacheDifference(ONE, name, "it was told to drop it") for name in names(count))
    unseen = tuple((BrokerId(number), "it gave no answer") for number in range(count))
    return CacheReport(ghosts, unseen, tuple((ONE, name) for name in names(count)))


def waiting(count: int) -> list[Explanation]:
    return [Explanation(name, DeletionVerdict.WAITING) for name in names(count)]


def marked(count: int) -> Iterable[str]:
    return marking_lines([Outcome(name, None, was_done=False) for name in names(count)], Detail.CAUSES)


def blocked(count: int) -> Iterable[str]:
    found = Blocked(count, list(names(count)))
    return [warning(Blocker(CauseKind.BROKER_TO_RETURN, ONE), found)] if count else []


def left(count: int) -> Iterable[str]:
    of_one = {ONE: names(count)} if count else {}
    everything = NOTHING_UNCONFIRMED._replace(gone=of_one, marked=of_one, ghosts=of_one, missed=of_one)
    return [*left_words(everything), waiting_words(everything, 5_000)]


MESSAGES: Final[dict[str, Callable[[int], Iterable[Any]]]] = {
    "what a stopping controller leaves": left,
    "what blocks deletions, in the log": blocked,
    "topics delete": marked,
    "rescue, ghosts found": lambda count: found_lines(caches(count)),
    "rescue, ghosts at the end": lambda count: ended_lines(caches(count)),
    "rescue, turns": lambda count: [ElectionRate(count, 1_000)],
    "rescue, before": lambda count: before(look(*waiting(count)), even_if_disabled=False),
    "rescue, dry run": lambda count: plan(look(*waiting(count)), even_if_disabled=False, lines=()).lines,
    "rescue, at the end": lambda count: end(*waiting(count), *([GONE] * count)).lines,
}


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_has_its_nouns_in_the_right_form(message: str, count: int) -> None:
    for line in MESSAGES[message](count):
        assert not _WRONG.search(str(line)), line


def test_the_guard_finds_a_wrong_form() -> None:
    wrong = ("1 topics", "1 more causes", "0 topic", "for 2 broker")
    assert all(_WRONG.search(each) for each in wrong)
    assert not any(_WRONG.search(each) for each in ("1 topic", "0 topics", "21 topics", "1 ms"))
