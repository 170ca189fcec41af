"""The board's memory, built from facts as they are recorded. Pure: times are arguments.

A topic is in the column of the phase that its deletion has reached. A column keeps the order in which topics entered
it, so the first ones have been there longest. A fact moves one topic, and nothing is iterated. Finished deletions,
tenures and history are bounded. Consecutive facts of one kind become one line of history with a count.

`tombstoned` is no column: a topic is in REMOVING once it is both acknowledged and tombstoned, in any order.

    facts of topic orders                          column
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
from typing import Final

from lethe.controller.runtime.board.pace import Pace
from lethe.protocol.causes import HELD_BY, sentence
from lethe.protocol.journal import Fact, FactType, JsonValue
from lethe.protocol.vocabulary import NO_BROKER

MAX_DONE: Final = 200
MAX_HISTORY: Final = 100
MAX_TENURES: Final = 20
MAX_TEXT: Final = 300
MERGE_WITHIN_MS: Final = 60_000
"""A fact joins the latest line of history if it is alike and no later than this."""


_TENURE_WORDS: Final = {
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


GOING_ON: Final = (Phase.HELD, Phase.QUEUED, Phase.STARTED, Phase.ACKNOWLEDGED, Phase.REMOVING)


@dataclass(slots=True)
class Going:
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
class Tenure:
    """One controller's time as the active one; only own tenures have `epoch`."""

    id: int
    controller: int
    since_ms: int
    epoch: int | None = None
    active_ms: int | None = None
    """When failover was complete."""
    until_ms: int | None = None
    reason: str | None = None


@dataclass(slots=True)
class Line:
    """One line of history: the latest of `count` facts of a kind."""

    id: int
    at_ms: int
    kind: str
    """`deleted`, `held`, `let go`, `vanished`, `refusal`, `broker`, `tenure`, `set aside`, `fault` or `pause`."""
    subject: str
    what: str
    why: str | None
    count: int = 1


class BoardState:
    """The board's memory. `note` adds a fact; `column`, `tenures` and `history` are for views."""

    def __init__(self, controller_id: int) -> None:
        self.controller_id = controller_id
        self.changes = 0
        """Number of facts so far, by which a view detects changes."""
        self.done_count = 0
        """Deletions that have ended in this tenure or, while not active, in the latest."""
        self.pace = Pace()
        self.active_controller = int(NO_BROKER)
        self.tenures: deque[Tenure] = deque(maxlen=MAX_TENURES)
        self.history: deque[Line] = deque(maxlen=MAX_HISTORY)
        self._columns: dict[Phase, dict[str, Going]] = {phase: {} for phase in Phase}
        self._phase_of: dict[str, Phase] = {}
        self._last_id = 0

    # --- reading ------------------------------------------------------------------------------------------------------

    def count(self, phase: Phase) -> int:
        return self.done_count if phase is Phase.DONE else len(self._columns[phase])

    def column(self, phase: Phase, at_most: int) -> list[Going]:
        """Return the first topics of a column: the longest in the phase; of DONE, the latest."""
        column = self._columns[phase]
        chosen: Iterator[Going] = reversed(column.values()) if phase is Phase.DONE else iter(column.values())
        return list(islice(chosen, at_most))

    def names(self, phase: Phase) -> list[str]:
        """Return a copy of all topic names of a column, in its order."""
        names = list(self._columns[phase])
        return names[::-1] if phase is Phase.DONE else names

    def get(self, phase: Phase, topic: str) -> Going | None:
        return self._columns[phase].get(topic)

    # --- writing ------------------------------------------------------------------------------------------------------

    def note(self, fact: Fact, now_ms: int) -> None:
        """Record a fact. No content of a fact makes it raise."""
        self.changes += 1
        match fact.type:
            case FactType.DELETION_PHASE:
                self._note_phase(fact, now_ms)
            case FactType.REFUSAL:
                self._line("refusal", fact.subject, _text(fact, "what"), _text(fact, "why"), now_ms)
            case FactType.BROKER:
                self._line("broker", fact.subject, _text(fact, "what"), None, now_ms)
            case FactType.SET_ASIDE:
                self._line("set aside", fact.subject, "left alone: it cannot be used", _text(fact, "reason"), now_ms)
            case FactType.ELECTION:
                self._note_election(fact, now_ms)
            case FactType.EVENT:
                self._note_event(fact, now_ms)
            case _:
                pass

    def note_active(self, controller: int, now_ms: int) -> None:
        """Record the id of the active controller; -1: none."""
        if controller == self.active_controller:
            return
        self._end_tenure(now_ms, None)
        self.active_controller = controller
        if controller != NO_BROKER:
            self._last_id += 1
            self.tenures.append(Tenure(self._last_id, controller, now_ms))

    def _note_phase(self, fact: Fact, now_ms: int) -> None:
        topic = fact.subject.removeprefix("topic/")
        match fact.data.get("phase"):
            case "held":
                self._enter(topic, Phase.HELD, fact, now_ms)
                self._line("held", fact.subject, "held back", _why_held(fact), now_ms)
            case "queued":
                self._enter(topic, Phase.QUEUED, fact, now_ms)
            case "started":
                self._enter(topic, Phase.STARTED, fact, now_ms)
            case "tombstoned":
                going = self._going(topic)
                if going is not None:
                    going.tombstoned = True
                    if going.phase is Phase.ACKNOWLEDGED:
                        self._enter(topic, Phase.REMOVING, fact, now_ms)
            case "acknowledged":
                going = self._going(topic)
                is_last = going is not None and going.tombstoned
                self._enter(topic, Phase.REMOVING if is_last else Phase.ACKNOWLEDGED, fact, now_ms)
            case "done":
                self._finish(topic, fact, now_ms)
            case "let go":
                self._forget(topic)
                self._line("let go", fact.subject, "let go of: its marker was taken away", None, now_ms)
            case "vanished":
                self._forget(topic)
                self._line("vanished", fact.subject, "ended: somebody else removed its znode", None, now_ms)
            case _:
                pass

    def _going(self, topic: str) -> Going | None:
        phase = self._phase_of.get(topic)
        return None if phase is None else self._columns[phase].get(topic)

    def _enter(self, topic: str, phase: Phase, fact: Fact, now_ms: int) -> None:
        known = self._going(topic)
        if known is None:
            since_ms = min(_number(fact, "marked_at_ms") or now_ms, now_ms)
            known = Going(topic, since_ms, phase, now_ms, _number(fact, "partitions"), _number(fact, "replicas"))
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

    def _finish(self, topic: str, fact: Fact, now_ms: int) -> None:
        known = self._going(topic)
        since_ms = now_ms - _number(fact, "took_ms") if known is None else known.since_ms
        self._forget(topic)
        done = self._columns[Phase.DONE]
        # A topic name may be deleted more than once: show the latest deletion.
        done.pop(topic, None)
        done[topic] = Going(
            topic, since_ms, Phase.DONE, now_ms, _number(fact, "partitions"), _number(fact, "replicas"), tombstoned=True
        )
        if len(done) > MAX_DONE:
            del done[next(iter(done))]
        self.done_count += 1
        self.pace.note(_number(fact, "partitions"), now_ms)
        self._line("deleted", fact.subject, "deleted", None, now_ms)

    def _note_election(self, fact: Fact, now_ms: int) -> None:
        what = fact.data.get("what")
        epoch = fact.data.get("epoch")
        if what == "elected":
            self.note_active(self.controller_id, now_ms)
            self._clear()
            # The count and the shown topics are both of this tenure.
            self._columns[Phase.DONE].clear()
            self.done_count = 0
            self.pace.clear()
            if self.tenures:
                self.tenures[-1].epoch = epoch if isinstance(epoch, int) else None
        elif what == "active" and self.tenures:
            self.tenures[-1].active_ms = now_ms
        elif what == "resigned":
            self._clear()
            if self.active_controller == self.controller_id:
                self._end_tenure(now_ms, _text(fact, "reason"))
                self.active_controller = NO_BROKER
        said = _TENURE_WORDS.get(str(what), str(what)[:MAX_TEXT])
        self._line("tenure", fact.subject, said, _text(fact, "reason") or None, now_ms)

    def _note_event(self, fact: Fact, now_ms: int) -> None:
        what = fact.data.get("what")
        if what == "deletions are paused" or what == "deletions go on":
            self._line("pause", fact.subject, what, _text(fact, "reason") or None, now_ms)
        elif fact.data.get("outcome") == "fault":
            self._line("fault", fact.subject, f"a fault in {_text(fact, 'event')}", _text(fact, "error"), now_ms)

    def _end_tenure(self, now_ms: int, reason: str | None) -> None:
        if self.tenures and self.tenures[-1].until_ms is None:
            self.tenures[-1].until_ms, self.tenures[-1].reason = now_ms, reason

    def _clear(self) -> None:
        """Remove the topics in deletion, which only the active controller has; DONE stays."""
        self._phase_of.clear()
        for phase in GOING_ON:
            self._columns[phase].clear()

    def _line(self, kind: str, subject: str, what: str, why: str | None, now_ms: int) -> None:
        last = self.history[-1] if self.history else None
        alike = last is not None and (last.kind, last.what, last.why) == (kind, what, why)
        if last is not None and alike and kind != "tenure" and now_ms - last.at_ms <= MERGE_WITHIN_MS:
            last.at_ms, last.subject, last.count = now_ms, subject[:MAX_TEXT], last.count + 1
            return
        self._last_id += 1
        self.history.append(Line(self._last_id, now_ms, kind, subject[:MAX_TEXT], what, why))


def _why_held(fact: Fact) -> str | None:
    kind = HELD_BY.get(_text(fact, "held_by"))
    return None if kind is None else sentence(kind, fact.subject.removeprefix("topic/"))


def _text(fact: Fact, key: str) -> str:
    value: JsonValue = fact.data.get(key)
    return "" if value is None else str(value)[:MAX_TEXT]


def _number(fact: Fact, key: str) -> int:
    value = fact.data.get(key)
    return int(value) if isinstance(value, int | float) else 0
