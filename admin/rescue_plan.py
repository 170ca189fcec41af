"""What a rescue can do about a topic, and when it has done what it can. Pure.

A controller that takes over finishes every deletion whose brokers are registered and answer. It cannot replace a
broker's answer. If a broker is missing or its disk has failed, the replica may return, with records under a name that a
new topic may have by then.

    explanation of the topic            outlook
    waits for Kafka's controller        FINISHES
    waits for broker 3 to return        WAITS
    delete.topic.enable is false        NEEDS_WORD, unless even_if_disabled
    is protected                        PROTECTED
    not marked                          NOT_ASKED_FOR
    gone, or only bytes or debts left   DONE
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lethe.protocol.cause_groups import NOT_WAITED_FOR, SET_ASIDE
from lethe.protocol.causes import CauseKind
from lethe.survey.evidence import ControllerReport
from lethe.survey.explain import DeletionVerdict, Explanation


class ExpectedResult(enum.Enum):
    """Expected result of a rescue for one topic."""

    FINISHES = "can be finished"
    WAITS = "will keep waiting"
    NEEDS_WORD = "is deleted only with --even-if-disabled"
    PROTECTED = "is protected: it stays, and its marker goes"
    NOT_ASKED_FOR = "is not marked for deletion"
    DONE = "is not there (any more)"


_UNREMOVABLE: Final = frozenset(
    {
        CauseKind.KRAFT,
        CauseKind.RESUMPTION,
        CauseKind.CONFIGURATION,
        CauseKind.CONFIGURATION_UNREAD,
        *SET_ASIDE,
        CauseKind.BROKER_TO_RETURN,
        CauseKind.CANNOT_BE_OWED,
        CauseKind.ORDERS,
        CauseKind.REGISTRATION_UNREADABLE,
        CauseKind.BROKER_SILENT,
        CauseKind.BROKER_UNREACHABLE,
        CauseKind.BROKER_UNASKABLE,
        CauseKind.BROKER_ERROR,
        CauseKind.LOG_DIRECTORY,
    }
)
"""Causes that no controller can remove."""


def outlook(found: Explanation, *, even_if_disabled: bool) -> ExpectedResult:
    """Return the expected result. `even_if_disabled`: delete the topic although deletion is disabled."""
    kinds = [cause.kind for cause in found.causes]
    if found.verdict in (
        DeletionVerdict.GONE,
        DeletionVerdict.UNSEEN,
        DeletionVerdict.RECLAIMING,
        DeletionVerdict.OWED,
        DeletionVerdict.LEFT_OVER,
    ):
        return ExpectedResult.DONE
    if found.verdict is DeletionVerdict.IN_TRASH:
        return ExpectedResult.NOT_ASKED_FOR
    if CauseKind.DISABLED in kinds and not even_if_disabled:
        return ExpectedResult.NEEDS_WORD
    if found.verdict is DeletionVerdict.MARKER_UNSEEN:
        return ExpectedResult.NOT_ASKED_FOR
    if found.verdict is DeletionVerdict.NOT_MARKED and CauseKind.DISABLED not in kinds:
        return ExpectedResult.NOT_ASKED_FOR
    if CauseKind.PROTECTED in kinds:
        return ExpectedResult.PROTECTED
    return ExpectedResult.WAITS if any(kind in _UNREMOVABLE for kind in kinds) else ExpectedResult.FINISHES


def is_to_be_deleted(found: Explanation) -> bool:
    """Return True if the topic exists and is marked, or would be marked without `delete.topic.enable=false`."""
    if found.verdict is DeletionVerdict.NOT_MARKED:
        return any(cause.kind is CauseKind.DISABLED for cause in found.causes)
    return found.verdict in (DeletionVerdict.WAITING, DeletionVerdict.IN_PROGRESS)


def is_without_trace(found: Explanation) -> bool:
    """Return True if nothing of the topic was seen anywhere: it was deleted, or never existed."""
    return found.verdict in (DeletionVerdict.GONE, DeletionVerdict.UNSEEN) and not found.causes


def to_mark(found: Iterable[Explanation]) -> tuple[str, ...]:
    """Return the topics whose markers a controller would drop because deletion is disabled. No deletion was requested
    for other topics without markers."""
    return tuple(
        each.topic
        for each in found
        if each.verdict is DeletionVerdict.NOT_MARKED and any(cause.kind is CauseKind.DISABLED for cause in each.causes)
    )


_LASTING: Final = frozenset(
    {
        CauseKind.BROKER_TO_RETURN,
        CauseKind.REGISTRATION_UNREADABLE,
        CauseKind.LOG_DIRECTORY,
        *SET_ASIDE,
        CauseKind.RESUMPTION,
        CauseKind.CONFIGURATION,
        CauseKind.DISABLED,
        CauseKind.PROTECTED,
        CauseKind.NOT_CHOSEN,
        *NOT_WAITED_FOR,
    }
)
"""Causes that a little more time does not end."""


@dataclass(slots=True)
class RescueProgress:
    """Progress of the deletions, from the controller's answers over time."""

    chosen: frozenset[str] | None
    """Topics that count; None: all."""
    patience_ms: int
    """After this time without a change, no further progress is expected."""
    settled_ms: int = 2_000
    """The same where only hopeless causes are left."""
    left: tuple[str, ...] = ()
    """Topics in the latest answer that are not gone yet."""
    _seen: object = None
    _since_ms: int = 0
    _waits: frozenset[CauseKind] = field(default_factory=frozenset)

    def note(self, told: ControllerReport, now_ms: int) -> bool:
        """Store the controller's answer; return True if it differs from the one before."""
        topics = [topic for topic in told.topics.values() if self.chosen is None or topic.topic in self.chosen]
        rows = tuple(
            (t.topic, t.phase, tuple((r.waiting_for, r.partition, r.broker) for r in t.replicas)) for t in topics
        )
        self.left = tuple(topic.topic for topic in topics)
        self._waits = frozenset(row.waiting_for for topic in topics for row in topic.replicas)
        seen = (rows, told.not_shown)
        changed = seen != self._seen
        if changed:
            self._seen, self._since_ms = seen, now_ms
        return changed

    def is_over(self, now_ms: int) -> bool:
        """Return True if all is done, or no further progress is expected."""
        quiet_ms = now_ms - self._since_ms
        if self._seen == ((), 0):
            return True
        hopeless = self._waits <= _LASTING
        return quiet_ms >= (min(self.settled_ms, self.patience_ms) if hopeless else self.patience_ms)


def outlook_counts(outlooks: Iterable[ExpectedResult]) -> dict[ExpectedResult, int]:
    """Return the number of topics per outlook, without zeros."""
    found: dict[ExpectedResult, int] = {}
    for each in outlooks:
        found[each] = found.get(each, 0) + 1
    return {each: found[each] for each in ExpectedResult if each in found}
