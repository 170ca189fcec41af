"""What a rescue can do about a topic, and when it has done what it can. Pure.

A controller that takes over finishes every deletion whose brokers are there and answer. What it cannot do is answer for
a broker: where one is missing or its disk is broken, the replica may come back, and with it records under a name that
somebody else uses by then.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lethe.protocol.causes import CauseKind
from lethe.survey.evidence import Told
from lethe.survey.explain import Explanation, Verdict


class Outlook(enum.Enum):
    """What is to be expected of a rescue, for one topic."""

    FINISHES = "can be finished"
    WAITS = "will go on waiting"
    NEEDS_WORD = "is deleted only with --even-if-disabled"
    NOT_ASKED_FOR = "is not marked for deletion"
    DONE = "is not there (any more)"


_IN_THE_WAY: Final = frozenset(
    {
        CauseKind.KRAFT,
        CauseKind.RESUMPTION,
        CauseKind.CONFIGURATION,
        CauseKind.CONFIGURATION_UNREAD,
        CauseKind.READABLE_ZNODE,
        CauseKind.BROKER_TO_RETURN,
        CauseKind.BROKER_SILENT,
        CauseKind.BROKER_UNREACHABLE,
        CauseKind.BROKER_UNASKABLE,
        CauseKind.BROKER_ERROR,
        CauseKind.LOG_DIRECTORY,
    }
)
"""What no controller can do anything about."""


def outlook(found: Explanation, *, even_if_disabled: bool) -> Outlook:
    """What is to be expected for the topic. `even_if_disabled`: it may be deleted where deletion is switched off."""
    kinds = [cause.kind for cause in found.causes]
    if found.verdict in (Verdict.GONE, Verdict.UNSEEN, Verdict.RECLAIMING, Verdict.LEFT_OVER):
        return Outlook.DONE
    if CauseKind.DISABLED in kinds and not even_if_disabled:
        return Outlook.NEEDS_WORD
    if found.verdict is Verdict.MARKER_UNSEEN:
        return Outlook.NOT_ASKED_FOR
    if found.verdict is Verdict.NOT_MARKED and CauseKind.DISABLED not in kinds:
        return Outlook.NOT_ASKED_FOR
    return Outlook.WAITS if any(kind in _IN_THE_WAY for kind in kinds) else Outlook.FINISHES


def is_to_be_deleted(found: Explanation) -> bool:
    """Whether the topic is there and marked, or would be but for `delete.topic.enable`."""
    if found.verdict is Verdict.NOT_MARKED:
        return any(cause.kind is CauseKind.DISABLED for cause in found.causes)
    return found.verdict in (Verdict.WAITING, Verdict.IN_PROGRESS)


def is_without_trace(found: Explanation) -> bool:
    """Whether nothing of the topic was seen anywhere: it was deleted, or never was."""
    return found.verdict in (Verdict.GONE, Verdict.UNSEEN) and not found.causes


def to_mark(found: Iterable[Explanation]) -> tuple[str, ...]:
    """Topics whose markers a controller would drop because deletion is switched off. Of others that have none, nobody
    has asked for their deletion."""
    return tuple(
        each.topic
        for each in found
        if each.verdict is Verdict.NOT_MARKED and any(cause.kind is CauseKind.DISABLED for cause in each.causes)
    )


_HOPELESS: Final = frozenset(
    {
        CauseKind.BROKER_TO_RETURN,
        CauseKind.LOG_DIRECTORY,
        CauseKind.READABLE_ZNODE,
        CauseKind.RESUMPTION,
        CauseKind.CONFIGURATION,
        CauseKind.DISABLED,
        CauseKind.NOT_CHOSEN,
        CauseKind.DONE,
    }
)
"""What the controller waits for and does not end by waiting a little longer."""


@dataclass(slots=True)
class Progress:
    """How the deletions go on, as the controller tells it from time to time."""

    chosen: frozenset[str] | None
    """The topics that matter; None: all."""
    patience_ms: int
    """Nothing more is expected when nothing has changed for so long."""
    settled_ms: int = 2_000
    """The same, where all that is left waits for what does not come."""
    left: tuple[str, ...] = ()
    """Topics that are not gone yet, as far as they were told."""
    _seen: object = None
    _since_ms: int = 0
    _waits: frozenset[CauseKind] = field(default_factory=frozenset)

    def note(self, told: Told, now_ms: int) -> bool:
        """Takes in what the controller says now; whether that is other than before."""
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
        """Whether all is done, or nothing more is to be expected."""
        quiet_ms = now_ms - self._since_ms
        if self._seen == ((), 0):
            return True
        hopeless = self._waits <= _HOPELESS
        return quiet_ms >= (min(self.settled_ms, self.patience_ms) if hopeless else self.patience_ms)


def outlook_counts(outlooks: Iterable[Outlook]) -> dict[Outlook, int]:
    """How many topics have each outlook; those that none has are left out."""
    found: dict[Outlook, int] = {}
    for each in outlooks:
        found[each] = found.get(each, 0) + 1
    return {each: found[each] for each in Outlook if each in found}
