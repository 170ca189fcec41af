"""Makes the board's documents. Bounded: no look iterates over all topics or partitions.

The columns come from the board's own memory. For the first topics of a column, the core's memory supplies the finished
replicas and the cause of a wait. While a long step changes that memory on its thread, earlier values are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from lethe.adapters.clock import Clock
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import DeletionStage
from lethe.controller.core.pausing import pauses
from lethe.controller.core.power_view import PowerView
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.waiting import Wait, first_wait, marked_since_ms
from lethe.controller.runtime.blockers import LASTS_MS
from lethe.controller.runtime.board.document import Document, Row, Rows
from lethe.controller.runtime.board.groups import Groups, words
from lethe.controller.runtime.board.state import MAX_TEXT, BoardState, DeletionRow, Phase
from lethe.controller.runtime.board.surroundings import Surroundings
from lethe.controller.runtime.debts import debts_summary
from lethe.controller.runtime.explanation import path_of, pause_document, with_access
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ChannelView
from lethe.controller.runtime.pace_document import pace_document
from lethe.controller.runtime.powers import Problems
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.trash_document import trash_summary
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId

CARDS: Final = 60
"""Topics shown per column."""
MAX_BROKERS: Final = 200
MAX_EVENTS: Final = 8
MAX_OWING: Final = 8
GROUPED: Final = 1_000
"""Topics per column that are examined for groups (topics with the same cause)."""
GROUPED_REPLICAS: Final = 4_000
"""The limit on their replicas; it does not apply to the shown cards."""
CARDS_OF_GROUP: Final = 20
"""Cards per group, which leaves room for other topics."""
LOOK_AGAIN_MS: Final = 5_000
"""Interval at which columns are updated without event records: a silent broker becomes a cause after some time."""
REST: Final = 20
"""The pause between two looks at the columns, as a multiple of the time of the first."""
_REPLICAS_LOOKED_AT: Final = 32
"""Replicas of a waiting topic that are examined to name one of its brokers."""


class BoardView:
    """Makes documents. `leader_url` and `power` are set from outside."""

    def __init__(
        self,
        state: BoardState,
        loop: ControllerLoop,
        sessions: SessionKeeper,
        channels: Callable[[], Iterable[ChannelView]],
        problems: Callable[[], Problems],
        clock: Clock,
    ) -> None:
        self.state = state
        self.leader_url: str | None = None
        """URL of the active controller's board; None where this one is active, or the URL is unknown."""
        self.power: Callable[[], PowerView] = PowerView
        """Which brokers obey."""
        self._loop = loop
        self._sessions = sessions
        self._channels = channels
        self._problems = problems
        self._clock = clock
        self.surroundings = Surroundings(loop.context.config.controller_id)
        self._lists: dict[str, Rows] = {}
        self._kept: dict[str, JsonValue] = {"trash": None, "debts": None}
        """What grows with the trash and the debts, as of the last look at the columns."""
        self._seen_changes = -1
        self._look_again_ms = 0
        self._rest_until_s = 0.0

    def look(self) -> Document:
        """Return the document as of now."""
        state, context = self.state, self._loop.readable()
        if context is not None:
            self._lists["brokers"] = self._brokers(context)
        now_ms, began_s = self._clock.now_ms(), time.monotonic()
        is_due = self._seen_changes != state.changes or now_ms >= self._look_again_ms
        if is_due and began_s >= self._rest_until_s:
            self._look_again_ms = now_ms + LOOK_AGAIN_MS
            if context is None:
                self._lists |= {phase.value: self._bare_column(phase) for phase in Phase}
            else:
                groups: dict[str, Row] = {}
                self._lists |= {phase.value: self._column(context, phase, groups) for phase in Phase}
                self._lists["groups"] = Rows(len(groups), groups)
                leads = context.is_leading
                self._kept["trash"] = trash_summary(context) if leads else None
                self._kept["debts"] = debts_summary(context) if leads else None
            self._lists["terms"] = Rows(len(state.terms), {str(t.id): _term(t) for t in reversed(state.terms)})
            self._lists["history"] = Rows(len(state.history), {str(h.id): _line(h) for h in reversed(state.history)})
            # A look during a step is incomplete: look again after it.
            self._seen_changes = -1 if context is None else state.changes
            self._rest_until_s = time.monotonic() + REST * (time.monotonic() - began_s)
        return Document({"controller": self._controller(context is None), "queue": self._queue()}, dict(self._lists))

    def card(self, context: Context, going: DeletionRow) -> Row:
        """Return one topic as a row, with the core's details."""
        if going.phase is Phase.DONE:
            return _size(going)
        return {**_size(going), **details(context, going.topic, self._problems(), self._clock.now_ms())}

    # --- values -------------------------------------------------------------------------------------------------------

    def _controller(self, stepping: bool) -> JsonValue:
        context, sessions, power = self._loop.context, self._sessions, self.power()
        return {
            "id": context.config.controller_id,
            "role": context.role.value,
            "leads": context.is_leading,
            "epoch": context.cluster.epoch if context.is_leading else None,
            "elected_ms": context.cluster.elected_at_ms if context.is_leading else None,
            "active_controller": context.active_controller,
            "active_url": self.leader_url,
            "refusal": context.refusal,
            "power": (power.reason or power.note) if context.is_leading else None,
            "owed": [
                {"broker": broker, "topics": len(owing_broker.topics), "since_ms": owing_broker.since_ms}
                for broker, owing_broker in ([] if stepping else list(context.cluster.owed.items())[:MAX_OWING])
                if broker in context.cluster.brokers
            ],
            "pauses": [pause_document(pause) for pause in pauses(context)],
            "delete_topic_enable": context.delete_topic_enable,
            "pace": None if stepping or not context.is_leading else pace_document(context, self._clock.now_ms()),
            **self._kept,
            "zookeeper": None if sessions.session is not None else str(sessions.problem)[:MAX_TEXT],
            "topics": len(context.cluster.topics),
            "cluster_id": self.surroundings.cluster_id,
            "others": [{"id": other.controller, "url": other.url} for other in self.surroundings.others],
            "ended": dict(
                zip(("topics", "partitions"), self.state.pace.last_minute(self._clock.now_ms()), strict=True)
            ),
            "waiting": context.cluster.topics_in_stage.get(DeletionStage.WAITING, 0),
            "stepping": stepping and self._loop.handling_s >= 1,
        }

    def _queue(self) -> JsonValue:
        queue, handling = self._loop.queue, self._loop.handling
        waiting = [(name, count) for name, count in queue.by_event.items() if count]
        waiting.sort(key=lambda row: -row[1])
        took_s = int(self._loop.handling_s)
        return {
            "waiting": len(queue),
            "oldest_s": int(queue.oldest_s),
            # Short events would only flicker.
            "in_progress": type(handling.event).__name__ if handling is not None and took_s >= 1 else None,
            "in_progress_s": took_s,
            "by_event": dict(waiting[:MAX_EVENTS]),
        }

    # --- topics -------------------------------------------------------------------------------------------------------

    def _column(self, context: Context, phase: Phase, groups: dict[str, Row]) -> Rows:
        """Return the first cards of a column, and add its groups to `groups`."""
        if phase is Phase.DONE:
            return self._bare_column(phase)
        count, left = self.state.count(phase), GROUPED_REPLICAS
        found = Groups(phase)
        cards: dict[str, Row] = {}
        looked_at = 0
        for going in self.state.column(phase, GROUPED):
            left -= 1 + min(going.replicas, _REPLICAS_LOOKED_AT)
            if left < 0 and looked_at >= CARDS:
                break
            looked_at += 1
            row = self.card(context, going)
            key, size = found.add(row)
            if len(cards) < CARDS and size <= CARDS_OF_GROUP:
                cards[going.topic] = {**row, "group": key}
        groups |= found.rows(at_least=count > looked_at)
        return Rows(count, cards)

    def _bare_column(self, phase: Phase) -> Rows:
        """Return a column during a step: without reading the core's memory, with earlier details."""
        before = self._lists.get(phase.value, Rows()).rows
        goings: Iterable[DeletionRow] = self.state.column(phase, CARDS)
        groups = self._lists.get("groups", Rows()).rows.values()
        if any(group["phase"] == phase.value for group in groups):
            # Keep the cards: the column's first topics may include grouped ones without a card.
            goings = filter(None, [self.state.get(phase, topic) for topic in before])
        rows = {going.topic: {**before.get(going.topic, {}), **_size(going)} for going in goings}
        return Rows(self.state.count(phase), rows)

    # --- brokers ------------------------------------------------------------------------------------------------------

    def _brokers(self, context: Context) -> Rows:
        problems = self._problems()
        channels = {channel.broker: channel for channel in self._channels()}
        waiting = context.cluster.waiting_replicas
        ids = sorted({*context.cluster.brokers, *context.cluster.quarantined_brokers, *waiting})
        rows: dict[str, Row] = {}
        for broker in ids[:MAX_BROKERS]:
            channel, problem = channels.get(broker), problems.get(broker)
            rows[str(broker)] = {
                **broker_status(context, broker, None if problem is None else f"{problem.reason}: {problem.what}"),
                "failing_s": None if problem is None else problem.lasts_ms // 1000,
                "requests": 0 if channel is None else channel.counts.queue_size,
                "bytes": 0 if channel is None else channel.counts.backlog_bytes,
                "oldest_s": 0 if channel is None else int(channel.oldest_s),
                "replicas": waiting.get(broker, 0),
                "failed_dirs": bool(context.cluster.offline_dirs.get(broker)),
            }
        return Rows(len(ids), rows)


def broker_status(context: Context, broker: BrokerId, problem: str | None) -> Row:
    """Return the status of a broker, since when it is gone, and its problem; `problem` is that of its channel."""
    cluster, gone_ms = context.cluster, None
    status = "registered"
    if broker not in cluster.brokers and (unusable := cluster.quarantined_brokers.get(broker)) is not None:
        status, problem = "unreadable", f"{unusable.path}: {unusable.reason}"
    elif broker not in cluster.brokers:
        status, gone_ms = "not registered", cluster.gone_since_ms.get(broker)
    elif broker in cluster.shutting_down:
        status = "shutting down"
    elif problem is not None:
        status = "unreachable"
    return {"status": status, "gone_ms": gone_ms, "problem": None if problem is None else problem[:MAX_TEXT]}


def _size(going: DeletionRow) -> Row:
    return {
        "since_ms": going.since_ms,
        "phase_ms": going.phase_ms,
        "partitions": going.partitions,
        "replicas": going.replicas,
    }


def details(context: Context, topic: str, problems: Problems, now_ms: int = 0) -> dict[str, JsonValue]:
    """Return the details of a marked topic: `cause` is a name of `protocol.causes`, `note` its sentence."""
    mark, deletion = context.cluster.marks.get(topic), context.cluster.deletions.get(topic)
    of_core = first_wait(context, topic, _REPLICAS_LOOKED_AT)
    wait = None if of_core is None else with_access(of_core, problems)
    found: dict[str, JsonValue] = {
        "waits": mark is not None,
        "cause": None if wait is None else wait.waiting_for.name,
        "note": None if wait is None else _note(context, wait, now_ms),
        "broker": None if wait is None else wait.broker,
    }
    if (since_ms := marked_since_ms(context, topic)) is not None:
        found["since_ms"] = since_ms
    if deletion is not None:
        found["done"] = deletion.by_state.get(ReplicaState.DELETION_SUCCESSFUL, 0)
        found["waits"] = deletion.ineligible or context.cluster.paused is not None
    return found


_USUAL_CAUSES: Final = (CauseKind.ANSWER, CauseKind.OTHER_REPLICAS, CauseKind.TURN, CauseKind.ZNODES)
"""Causes that every deletion has for a moment."""


def _note(context: Context, wait: Wait, now_ms: int) -> str | None:
    """Return the sentence of the cause; None where the wait is usual and has no error."""
    has_lasted = wait.waiting_for is CauseKind.ANSWER and now_ms - wait.since_ms >= LASTS_MS
    if wait.waiting_for in _USUAL_CAUSES and wait.last_error is None and not has_lasted:
        return None
    path = path_of(context, wait.waiting_for)
    why = words(wait.waiting_for, wait.topic, broker=wait.broker, path=path, detail=wait.last_error)
    return why[:MAX_TEXT]


def _term(term: object) -> Row:
    return {
        name: getattr(term, name) for name in ("controller", "epoch", "since_ms", "active_ms", "until_ms", "reason")
    }


def _line(line: object) -> Row:
    return {name: getattr(line, name) for name in ("at_ms", "kind", "subject", "what", "why", "count")}
