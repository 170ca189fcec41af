"""The board's memory, built from event records as they are recorded. Pure: times are arguments.

A topic is in the column of the phase that its deletion has reached. A column keeps the order in which topics entered
it, so the first ones have been there longest. An event record moves one topic, and nothing is iterated. Finished
deletions, terms and history are bounded. Consecutive event records of one kind become one line of history with a count.

`tombstoned` is no column: a topic is in REMOVING once it is both acknowledged and tombstoned, in any order.

    event records of topic orders                  column
    held                                           HELD
    queued, started                                STARTED
    queued, started, tombstoned                    STARTED
    queued, started, tombstoned, acknowledged      REMOVING
    queued, started, acknowledged                  ACKNOWLEDGED
    done                                           DONE
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from lethe.controller.core.deletion_memory import PAUSED, RESUMED
from lethe.controller.runtime.board.pace import Pace
from lethe.protocol.causes import HELD_BY, sentence
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED, TRASHED
from lethe.protocol.vocabulary import NO_BROKER

MAX_DONE: Final = 200
MAX_HISTORY: Final = 100
MAX_TERMS: Final = 20
MAX_TEXT: Final = 300
MERGE_WITHIN_MS: Final = 60_000
"""An event record joins the latest line of history if it is alike and no later than this."""


_TERM_WORDS: Final = {
    "taken": "took control from another one",
    "elected": "was elected",
    "active": "has loaded everything and is active",
    "resigned": "resigned",
}


class Phase(enum.StrEnum):
    """The columns of the board, from left to right."""

    HELD = "held"
    QUEUED = "queued"
    STARTED = "started"
    ACKNOWLEDGED = "acknowledged"
    REMOVING = "removing"
    DONE = "done"


TRASH_EVENTS: Final = (TRASHED, BACK, EXPIRED, PURGED, GAVE_WAY)
GOING_ON: Final = (Phase.HELD, Phase.QUEUED, Phase.STARTED, Phase.ACKNOWLEDGED, Phase.REMOVING)


@dataclass(slots=True)
class DeletionRow:
    """One topic in deletion, or one whose deletion has ended."""

    topic: str
    since_ms: int
    """When its marker was made, or first seen."""
    phase: Phase
    phase_ms: int
    """When it entered `phase`."""
    partitions: int
    replicas: int
    tombstoned: bool = False


@dataclass(slots=True)
class TermRow:
    """One controller's time as the active one; only own terms have `epoch`."""

    id: int
    controller: int
    since_ms: int
    epoch: int | None = None
    active_ms: int | None = None
    """When failover was complete."""
    until_ms: int | None = None
    reason: str | None = None


HistoryKind = Literal[
    "deleted",
    "held",
    "let go",
    "vanished",
    "refusal",
    "broker",
    "term",
    "quarantined",
    "fault",
    "pause",
    "trash",
    "debt",
]
"""Kind of a line of history; page.css gives some a colour."""


@dataclass(slots=True)
class HistoryRow:
    """One line of history: the latest of `count` event records of a kind."""

    id: int
    at_ms: int
    kind: HistoryKind
    subject: str
    what: str
    why: str | None
    count: int = 1


class BoardState:
    """The board's memory. `note` adds an event record; `column`, `terms` and `history` are for views."""

    def __init__(self, controller_id: int) -> None:
        self.controller_id = controller_id
        self.changes = 0
        """Number of event records so far, by which a view detects changes."""
        self.done_count = 0
        """Deletions that have ended in this term or, while not active, in the latest."""
        self.pace = Pace()
        self.active_controller = int(NO_BROKER)
        self.terms: deque[TermRow] = deque(maxlen=MAX_TERMS)
        self.history: deque[HistoryRow] = deque(maxlen=MAX_HISTORY)
        self._columns: dict[Phase, dict[str, DeletionRow]] = {phase: {} for phase in Phase}
        self._phase_of: dict[str, Phase] = {}
        self._last_id = 0

    # --- reading ------------------------------------------------------------------------------------------------------

    def count(self, phase: Phase) -> int:
        return self.done_count if phase is Phase.DONE else len(self._columns[phase])

    def column(self, phase: Phase, at_most: int) -> list[DeletionRow]:
        """Return the first topics of a column: the longest in the phase; of DONE, the latest."""
        column = self._columns[phase]
        chosen: Iterator[DeletionRow] = reversed(column.values()) if phase is Phase.DONE else iter(column.values())
        return list(islice(chosen, at_most))

    def names(self, phase: Phase) -> list[str]:
        """Return a copy of all topic names of a column, in its order."""
        names = list(self._columns[phase])
        return names[::-1] if phase is Phase.DONE else names

    def get(self, phase: Phase, topic: str) -> DeletionRow | None:
        return self._columns[phase].get(topic)

    # --- writing ------------------------------------------------------------------------------------------------------

    def note(self, record: EventRecord, now_ms: int) -> None:
        """Note an event record. No content of an event record makes it raise."""
        self.changes += 1
        match record.type:
            case EventRecordType.DELETION_PHASE:
                self._note_phase(record, now_ms)
            case EventRecordType.REFUSAL:
                self._line("refusal", record.subject, _text(record, "what"), _text(record, "why"), now_ms)
            case EventRecordType.BROKER:
                self._line("broker", record.subject, _text(record, "what"), None, now_ms)
            case EventRecordType.SET_ASIDE:
                self._line("quarantined", record.subject, "it cannot be used", _text(record, "reason"), now_ms)
            case EventRecordType.ELECTION:
                self._note_election(record, now_ms)
            case EventRecordType.EVENT:
                self._note_event(record, now_ms)
            case EventRecordType.DEBT:
                what, broker = _text(record, "what"), record.data.get("broker")
                self._line("debt", record.subject, f"debt of broker {broker}: {what}", None, now_ms)
            case _:
                pass

    def note_active(self, controller: int, now_ms: int) -> None:
        """Record the id of the active controller; -1: none."""
        if controller == self.active_controller:
            return
        self._end_term(now_ms, None)
        self.active_controller = controller
        if controller != NO_BROKER:
            self._last_id += 1
            self.terms.append(TermRow(self._last_id, controller, now_ms))

    def _note_phase(self, record: EventRecord, now_ms: int) -> None:
        topic = record.subject.removeprefix("topic/")
        match record.data.get("phase"):
            case "held":
                self._enter(topic, Phase.HELD, record, now_ms)
                self._line("held", record.subject, "held back", _why_held(record), now_ms)
            case "queued":
                self._enter(topic, Phase.QUEUED, record, now_ms)
            case "started":
                self._enter(topic, Phase.STARTED, record, now_ms)
            case "tombstoned":
                going = self._going(topic)
                if going is not None:
                    going.tombstoned = True
                    if going.phase is Phase.ACKNOWLEDGED:
                        self._enter(topic, Phase.REMOVING, record, now_ms)
            case "acknowledged":
                going = self._going(topic)
                is_last = going is not None and going.tombstoned
                self._enter(topic, Phase.REMOVING if is_last else Phase.ACKNOWLEDGED, record, now_ms)
            case "done":
                self._finish(topic, record, now_ms)
            case "let go":
                self._forget(topic)
                self._line("let go", record.subject, "let go of: its marker was taken away", None, now_ms)
            case "vanished":
                self._forget(topic)
                self._line("vanished", record.subject, "ended: another process removed its znode", None, now_ms)
            case _:
                pass

    def _going(self, topic: str) -> DeletionRow | None:
        phase = self._phase_of.get(topic)
        return None if phase is None else self._columns[phase].get(topic)

    def _enter(self, topic: str, phase: Phase, record: EventRecord, now_ms: int) -> None:
        known = self._going(topic)
        if known is None:
            since_ms = min(_number(record, "marked_at_ms") or now_ms, now_ms)
            known = DeletionRow(
                topic, since_ms, phase, now_ms, _number(record, "partitions"), _number(record, "replicas")
            )
        elif known.phase is phase:
            return
        else:
            del self._columns[known.phase][topic]
            known.phase, known.phase_ms = phase, now_ms
        self._columns[phase][topic] = known
        self._phase_of[topic] = phase

    def _forget(self, topic: str) -> None:
        phase = self._phase_of.pop(topic, None)
        if phase is not None:
            del self._columns[phase][topic]

    def _finish(self, topic: str, record: EventRecord, now_ms: int) -> None:
        known = self._going(topic)
        since_ms = now_ms - _number(record, "took_ms") if known is None else known.since_ms
        self._forget(topic)
        done = self._columns[Phase.DONE]
        # A topic name may be deleted more than once: show the latest deletion.
        done.pop(topic, None)
        done[topic] = DeletionRow(
            topic,
            since_ms,
            Phase.DONE,
            now_ms,
            _number(record, "partitions"),
            _number(record, "replicas"),
            tombstoned=True,
        )
        if len(done) > MAX_DONE:
            del done[next(iter(done))]
        self.done_count += 1
        self.pace.note(_number(record, "partitions"), now_ms)
        self._line("deleted", record.subject, "deleted", None, now_ms)

    def _note_election(self, record: EventRecord, now_ms: int) -> None:
        what = record.data.get("what")
        epoch = record.data.get("epoch")
        if what == "elected":
            self.note_active(self.controller_id, now_ms)
            self._clear()
            # The count and the shown topics are both of this term.
            self._columns[Phase.DONE].clear()
            self.done_count = 0
            self.pace.clear()
            if self.terms:
                self.terms[-1].epoch = epoch if isinstance(epoch, int) else None
        elif what == "active" and self.terms:
            self.terms[-1].active_ms = now_ms
        elif what == "resigned":
            self._clear()
            if self.active_controller == self.controller_id:
                self._end_term(now_ms, _text(record, "reason"))
                self.active_controller = NO_BROKER
        said = _TERM_WORDS.get(str(what), str(what)[:MAX_TEXT])
        self._line("term", record.subject, said, _text(record, "reason") or None, now_ms)

    def _note_event(self, record: EventRecord, now_ms: int) -> None:
        what = record.data.get("what")
        if what in (PAUSED, RESUMED):
            self._line("pause", record.subject, str(what), _text(record, "reason") or None, now_ms)
        elif what in TRASH_EVENTS:
            disk = f"broker {record.data.get('broker')}, {_text(record, 'path')}" if what == GAVE_WAY else None
            self._line("trash", record.subject, str(what), disk, now_ms)
        elif record.data.get("outcome") == "fault":
            self._line("fault", record.subject, f"a fault in {_text(record, 'event')}", _text(record, "error"), now_ms)

    def _end_term(self, now_ms: int, reason: str | None) -> None:
        if self.terms and self.terms[-1].until_ms is None:
            self.terms[-1].until_ms, self.terms[-1].reason = now_ms, reason

    def _clear(self) -> None:
        """Remove the topics in deletion, which only the active controller has; DONE stays."""
        self._phase_of.clear()
        for phase in GOING_ON:
            self._columns[phase].clear()

    def _line(self, kind: HistoryKind, subject: str, what: str, why: str | None, now_ms: int) -> None:
        last = self.history[-1] if self.history else None
        alike = last is not None and (last.kind, last.what, last.why) == (kind, what, why)
        if last is not None and alike and kind != "term" and now_ms - last.at_ms <= MERGE_WITHIN_MS:
            last.at_ms, last.subject, last.count = now_ms, subject[:MAX_TEXT], last.count + 1
            return
        self._last_id += 1
        self.history.append(HistoryRow(self._last_id, now_ms, kind, subject[:MAX_TEXT], what, why))


def _why_held(record: EventRecord) -> str | None:
    kind = HELD_BY.get(_text(record, "held_by"))
    return None if kind is None else sentence(kind, record.subject.removeprefix("topic/"))


def _text(record: EventRecord, key: str) -> str:
    value: JsonValue = record.data.get(key)
    return "" if value is None else str(value)[:MAX_TEXT]


def _number(record: EventRecord, key: str) -> int:
    value = record.data.get(key)
    return int(value) if isinstance(value, int | float) else 0
