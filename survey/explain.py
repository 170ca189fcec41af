"""Concludes from evidence why a topic is not gone yet. Pure.

Theory of operation. ZooKeeper says whether the topic is marked and still exists:

    marked       exists    evidence                             verdict
    yes          any       every cause ends without help        IN_PROGRESS
    yes          any       another cause                        WAITING
    no           yes                                            NOT_MARKED
    unreadable   yes       no answer of the controller          MARKER_UNSEEN
    no           no        a cached entry, a znode, a replica   LEFT_OVER
    no           no        an entry in the trash                IN_TRASH
    no           no        only renamed directories, all seen   RECLAIMING
    no           no        debts, all seen                      OWED
    no           no        none of these; broker 3 not seen     UNSEEN
    no           no        none, all seen                       GONE

A marked topic is held (no controller, a pause, a reassignment, an unreadable znode), or it waits for brokers. A
broker's part is known from its answers to the survey and, if a Lethe controller answered, from the requests that the
controller sent. The controller has more (attempts, errors, times) and comes first. The survey adds what the controller
cannot have: the broker is silent to all clients, which log directory has failed, what is on the disks.

Without the controller's answer, a replica is known by its directory: present, renamed or gone. It is unknown where its
broker does not answer or a log directory has failed. What could not be seen leads to no conclusion.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import plural
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.survey import unreadable
from lethe.survey.causes import ObservedCause, protection_cause, ranges
from lethe.survey.evidence import Evidence, ReportedTopic, protected_topics
from lethe.survey.leftovers import damage
from lethe.survey.replicas import (
    Replica,
    ReplicaPresence,
    Stored,
    merge_causes,
    owed_tombstones,
    refine_with_broker_answers,
    replicas_of,
    stored_by_topic,
)
from lethe.survey.traces import Traces
from lethe.survey.unreadable import lethe_leads, with_deleted_replicas
from lethe.survey.views import TopicTree

LATE_AFTER_MS: Final = 60_000
"""An unobstructed deletion takes seconds."""


CLEAN: Final = "ZooKeeper is clean, and so are the caches and disks of all brokers that are registered"


class DeletionVerdict(enum.Enum):
    """Name for scripts, value for messages."""

    GONE = "no such topic, and no trace of one"
    """`CLEAN`, and no unregistered broker has replicas of any topic. The topic was deleted, or never existed."""
    UNSEEN = "no such topic, and no trace of one as far as could be seen"
    """`unseen_text` says what could not be seen. The causes may be renamed directories that were seen."""
    RECLAIMING = "deleted; bytes wait for their removal"
    OWED = "deleted, but for what brokers still have and owe"
    LEFT_OVER = "deleted, but something is left"
    IN_TRASH = "in the trash, which keeps its records"
    """The causes are what is left of it elsewhere."""
    NOT_MARKED = "not marked for deletion"
    MARKER_UNSEEN = "there; whether it is marked for deletion could not be seen"
    """`/admin/delete_topics` cannot be read, and no controller says that the topic is marked."""
    IN_PROGRESS = "being deleted"
    WAITING = "waits"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of one topic's deletion."""

    topic: str
    verdict: DeletionVerdict
    causes: tuple[ObservedCause, ...] = ()
    """First those that hold the topic, then those of brokers, by id."""
    replicas: tuple[Replica, ...] = ()
    """All replicas by partition, in assignment order; empty where the assignment is unknown."""
    marked_since_ms: int | None = None
    phase: str | None = None
    is_tiered: bool | None = False
    """Marked, with `remote.storage.enable=true`: its remote segments are not examined. None: unknown."""


def explain(evidence: Evidence, topic: str) -> Explanation:
    """Return the explanation of one topic."""
    return _explain(_Lookups(evidence), topic)


def explain_all(evidence: Evidence) -> tuple[Explanation, ...]:
    """Return the explanations of all topics of the evidence, in order."""
    lookups = _Lookups(evidence)
    return tuple(_explain(lookups, topic) for topic in evidence.topics)


class _Lookups:
    """The evidence by topic. All explanations share it, so that their time grows with the number of topics, not with
    its square."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.marked = frozenset(evidence.survey.zookeeper.marked)
        self.in_motion = frozenset(evidence.survey.in_motion)
        self.stored = stored_by_topic(evidence)
        self.traces = Traces(evidence.survey)


def _explain(lookups: _Lookups, topic: str) -> Explanation:
    evidence, traces = lookups.evidence, lookups.traces
    tree, stored = evidence.survey.zookeeper, lookups.stored.get(topic, {})
    marked_since_ms = evidence.marked_since_ms.get(topic)
    reported = evidence.reported.topics.get(topic)
    phase = None if reported is None else reported.phase
    if topic in lookups.in_motion:
        return Explanation(
            topic, DeletionVerdict.IN_PROGRESS, (ObservedCause(CauseKind.IN_MOTION),), (), marked_since_ms, phase
        )
    there = tree.topics.get(topic)
    if topic in lookups.marked or (there is not None and reported is not None and not tree.knows_markers):
        causes, replicas = _causes_if_marked(evidence, there, stored, reported)
        going_on = all(_ends_alone(evidence, cause) for cause in causes)
        verdict = DeletionVerdict.IN_PROGRESS if going_on else DeletionVerdict.WAITING
        is_tiered = evidence.tiered.get(topic, False)
        return Explanation(topic, verdict, causes, replicas, marked_since_ms, phase, is_tiered)
    if there is not None and not tree.knows_markers:
        return Explanation(topic, DeletionVerdict.MARKER_UNSEEN)
    if there is not None:
        return Explanation(topic, DeletionVerdict.NOT_MARKED, tuple(_causes_if_unmarked(evidence, there)))
    causes, owed = tuple(traces.causes(topic)), tuple(owed_tombstones(evidence, topic))
    if tree.is_in_trash(topic):
        return Explanation(topic, DeletionVerdict.IN_TRASH, (*causes, *owed))
    if any(cause.kind is not CauseKind.RECLAIMING for cause in causes):
        return Explanation(topic, DeletionVerdict.LEFT_OVER, (*causes, *owed))
    if owed or traces.may_be_unseen(topic):
        return Explanation(topic, DeletionVerdict.UNSEEN, (*owed, *causes))
    gone = DeletionVerdict.OWED if traces.is_owed(topic) else DeletionVerdict.GONE
    return Explanation(topic, DeletionVerdict.RECLAIMING if causes else gone, causes)


_ENDS_ALONE = frozenset(
    {
        CauseKind.IN_PROGRESS,
        CauseKind.STILL_STORED,
        CauseKind.OTHER_REPLICAS,
        CauseKind.TURN,
        CauseKind.IN_MOTION,
        CauseKind.MARKER_WITHOUT_TOPIC,
    }
)


_CONSEQUENCES = frozenset({CauseKind.STILL_STORED, CauseKind.OTHER_REPLICAS, CauseKind.TURN})
"""Causes that end without help once the others have ended."""


def _ends_alone(evidence: Evidence, cause: ObservedCause) -> bool:
    """Return True if the cause ends without help where a controller is active. Lethe's finishes a half-deleted topic at
    once."""
    return cause.kind in _ENDS_ALONE or (cause.kind is CauseKind.HALF_DELETED and lethe_leads(evidence))


# --- marked -------------------------------------------------------------------------------------------------------


def _causes_if_marked(
    evidence: Evidence, there: TopicTree | None, stored: Stored, reported: ReportedTopic | None
) -> tuple[tuple[ObservedCause, ...], tuple[Replica, ...]]:
    held_by_controller = tuple(_no_controller(evidence))
    if there is None:
        # A controller drops such a marker despite a pause or delete.topic.enable=false.
        return (*held_by_controller, ObservedCause(CauseKind.MARKER_WITHOUT_TOPIC)), ()
    holds = (*held_by_controller, *_holds(evidence, there, stored, reported))
    hold = next((cause for cause in holds if cause.kind.is_hold), None)
    replicas = tuple(replicas_of(evidence, with_deleted_replicas(evidence, there, reported), stored, reported, hold))
    causes = (*holds, *_damaged(evidence, there), *merge_causes(replicas))
    causes = tuple(dict.fromkeys((*causes, *_further_causes(evidence, reported, causes))))
    going_on = all(_ends_alone(evidence, cause) for cause in causes)
    if going_on and (late := _late_controller(evidence, there.name)) is not None:
        return (late,), replicas
    if not going_on:
        return tuple(cause for cause in causes if cause.kind not in _CONSEQUENCES), replicas
    return causes or (ObservedCause(CauseKind.IN_PROGRESS, detail=_phase(there, reported)),), replicas


def _phase(there: TopicTree, reported: ReportedTopic | None) -> str | None:
    if reported is not None and any(row.waiting_for is CauseKind.ZNODES for row in reported.replicas):
        return "its znodes are being removed"
    return "its marker orders that, although its znode cannot be read" if there.assignments is None else None


def _no_controller(evidence: Evidence) -> Iterator[ObservedCause]:
    tree = evidence.survey.zookeeper
    controller = tree.controller
    if (why := tree.problem_of(paths.CONTROLLER)) is not None:
        # A controller that has answered is active, whatever its znode says.
        if not evidence.reported.is_known:
            yield ObservedCause(CauseKind.CONTROLLER_UNSEEN, path=paths.CONTROLLER, detail=why)
    elif controller is None:
        yield ObservedCause(CauseKind.NO_CONTROLLER)
    elif controller.is_kraft:
        yield ObservedCause(CauseKind.KRAFT)
    elif (silent := _silent_controller(evidence)) is not None:
        yield silent


def _holds(
    evidence: Evidence, there: TopicTree, stored: Stored, reported: ReportedTopic | None
) -> Iterator[ObservedCause]:
    """Yield what holds the topic although there is a controller."""
    if (disabled := _disabled(evidence)) is not None and not _has_begun(evidence, there, stored, reported):
        yield disabled
    if (protected := _protected(evidence, there.name)) and not _has_begun(evidence, there, stored, reported):
        yield protected
    yield from _paused(evidence)
    if (held := unreadable.hold_cause(evidence, there, reported)) is not None:
        yield held
    moving = _moving(evidence, there)
    waits = {row.waiting_for for row in reported.replicas} if reported is not None else set()
    if moving and (reported is None or not reported.replicas or CauseKind.REASSIGNMENT in waits):
        since_ms = next((row.since_ms for row in reported.replicas), None) if reported is not None else None
        since_ms = _moving_since(evidence, there) if since_ms is None else since_ms
        yield ObservedCause(
            CauseKind.REASSIGNMENT, None, tuple(moving), since_ms=since_ms, detail=_destinations(moving)
        )
    elif reported is not None and CauseKind.REASSIGNMENT in waits:
        yield ObservedCause(CauseKind.REASSIGNMENT, since_ms=reported.replicas[0].since_ms)


def _paused(evidence: Evidence) -> Iterator[ObservedCause]:
    """Yield the pauses, which only Lethe's controllers obey: those in ZooKeeper, and those that the controller
    reports."""
    holds, reported = evidence.holds, evidence.reported
    if evidence.survey.zookeeper.controller is not None and not lethe_leads(evidence):
        return
    if (paused := holds.paused) is not None:
        yield ObservedCause(CauseKind.RESUMPTION, since_ms=paused.since_ms, detail=paused.reason or None)
    for pause in reported.pauses:
        if pause.kind is not CauseKind.RESUMPTION:
            yield ObservedCause(pause.kind, path=pause.path, since_ms=pause.since_ms, detail=pause.reason)
        elif paused is None:
            yield ObservedCause(pause.kind, since_ms=pause.since_ms, detail=pause.reason)
    if holds.unreadable is not None and not reported.is_known:
        # A controller may still use the value that it read before. Only its answer could say so.
        path, why = holds.unreadable
        yield ObservedCause(CauseKind.CONFIGURATION_UNREAD, path=path, detail=why)


def _silent_controller(evidence: Evidence) -> ObservedCause | None:
    """Return the cause for a Kafka controller that does not answer as a broker; other failures of it cannot be seen."""
    controller = evidence.survey.zookeeper.controller
    if controller is None or controller.admin is not None or evidence.reported.is_known:
        return None
    response = evidence.survey.response_of(controller.broker_id)
    if response.answers is not False:
        return None
    return ObservedCause(CauseKind.CONTROLLER_SILENT, controller.broker_id, detail=response.why)


def _late_controller(evidence: Evidence, topic: str) -> ObservedCause | None:
    """Return the cause for a Kafka controller that has had enough time; it does not say what it waits for."""
    controller, since_ms = evidence.survey.zookeeper.controller, evidence.marked_since_ms.get(topic)
    if controller is None or controller.admin is not None or evidence.reported.is_known or since_ms is None:
        return None
    if evidence.survey.taken_at_ms - since_ms < LATE_AFTER_MS:
        return None
    response = evidence.survey.response_of(controller.broker_id)
    seen = "it answers" if response.answers else f"whether it answers was not seen: {response.why}"
    return ObservedCause(CauseKind.CONTROLLER_LATE, controller.broker_id, since_ms=since_ms, detail=seen)


def _disabled(evidence: Evidence) -> ObservedCause | None:
    """Return the cause for disabled deletion. The controller's answer overrides the configuration in ZooKeeper."""
    configured, reported = evidence.holds.delete_topic_enable, evidence.reported.deletion_enabled
    says_so = configured.path if configured is not None and not configured.value else None
    brokers = evidence.holds.disabled_on if says_so is None else ()
    is_disabled = says_so is not None or bool(brokers) if reported is None else not reported
    place = f"in the configuration of {plural(len(brokers), 'broker')} {ranges(brokers)}" if brokers else None
    return ObservedCause(CauseKind.DISABLED, path=says_so, detail=place) if is_disabled else None


def _protected(evidence: Evidence, topic: str) -> ObservedCause | None:
    """Return the cause for a topic that Lethe's controller protects. Kafka's deletes it."""
    if evidence.survey.zookeeper.controller is not None and not lethe_leads(evidence):
        return None
    refused = evidence.reported.refused
    cause = protection_cause(topic, protected_topics(evidence.holds, evidence.reported))
    was_refused = refused is not None and refused.cause is CauseKind.PROTECTED
    return replace(cause, since_ms=refused.at_ms) if cause and refused and was_refused else cause


def _has_begun(evidence: Evidence, there: TopicTree, stored: Stored, reported: ReportedTopic | None) -> bool:
    """Return True if the deletion has started, and thus continues even when deletion is disabled. Without the
    controller's answer, a renamed or missing replica shows it."""
    if reported is not None:
        return reported.phase != "held"
    return any(
        replica.seen in (ReplicaPresence.RENAMED, ReplicaPresence.GONE)
        for replica in replicas_of(evidence, there, stored, None, None)
    )


def _moving(evidence: Evidence, there: TopicTree) -> dict[int, tuple[int, ...]]:
    """Return the partitions that are being reassigned or are to be, and their target brokers."""
    found = {p: a.target for p, a in (there.assignments or {}).items() if a.is_being_reassigned}
    for partition in there.assignments or {}:
        wanted = evidence.survey.zookeeper.reassigning.get(TopicPartition(there.name, partition))
        if wanted is not None:
            found.setdefault(partition, wanted)
    return dict(sorted(found.items()))


def _moving_since(evidence: Evidence, there: TopicTree) -> int | None:
    """Return since when the deletion waits for the reassignment: the later of the marker's creation and, if the
    reassignment has started, the last write of the topic's znode."""
    times = [evidence.marked_since_ms.get(there.name)]
    if any(assignment.is_being_reassigned for assignment in (there.assignments or {}).values()):
        times.append(evidence.changed_at_ms.get(there.name))
    return max((at_ms for at_ms in times if at_ms is not None), default=None)


def _destinations(moving: dict[int, tuple[int, ...]]) -> str:
    brokers = sorted({broker for wanted in moving.values() for broker in wanted})
    return f"to brokers {', '.join(map(str, brokers))}"


def _damaged(evidence: Evidence, there: TopicTree) -> Iterator[ObservedCause]:
    found = damage(evidence.survey.zookeeper, there, is_marked=True)
    if found is not None:
        yield ObservedCause(CauseKind.HALF_DELETED, detail=found)


def _further_causes(
    evidence: Evidence, reported: ReportedTopic | None, named: Sequence[ObservedCause]
) -> Iterator[ObservedCause]:
    """Yield further causes of the controller: those of the topic, of one broker's cache, and holds that the survey did
    not show. No cause of the controller is left out."""
    known = {cause.kind for cause in named}
    for row in () if reported is None else reported.replicas:
        kind = row.waiting_for
        if row.partition is None and row.broker is not None:
            yield refine_with_broker_answers(evidence, kind, row)
        elif kind is CauseKind.MARKER_WITHOUT_TOPIC or (kind is CauseKind.ZNODES and row.last_error is None):
            # The topic exists by now, or its znodes are being removed.
            continue
        elif (row.partition is None or kind.is_hold) and kind not in known:
            yield ObservedCause(kind, since_ms=row.since_ms, attempts=row.attempts, detail=row.last_error)


# --- not marked ---------------------------------------------------------------------------------------------------


def _causes_if_unmarked(evidence: Evidence, there: TopicTree) -> Iterator[ObservedCause]:
    refused = evidence.reported.refused
    disabled = _disabled(evidence)
    found = damage(evidence.survey.zookeeper, there, is_marked=False)
    if disabled is not None:
        yield disabled if refused is None else replace(disabled, since_ms=refused.at_ms)
    elif (protected := _protected(evidence, there.name)) is not None:
        yield protected
    elif refused is not None:
        kind = refused.cause if refused.cause is CauseKind.OTHER_INCARNATION else CauseKind.REFUSED
        yield ObservedCause(kind, since_ms=refused.at_ms, detail=refused.why if kind is CauseKind.REFUSED else None)
    elif there.assignments is not None and found is None:
        # Not for a damaged or unreadable topic: the remedy would advise to delete it.
        yield ObservedCause(CauseKind.NOT_MARKED)
    if there.assignments is None:
        yield replace(unreadable.unreadable_cause(evidence, there.name), kind=CauseKind.UNREADABLE)
    elif found is not None:
        yield ObservedCause(CauseKind.INCOMPLETE, path=paths.topic(there.name), detail=found)
