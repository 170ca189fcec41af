"""What each replica of a topic waits for: from its directory, its broker's answers, and the controller's answer if
there is one. Pure.

The controller's cause comes first (`refine_with_broker_answers`). Without its answer (`_cause_from_outside`):

    broker                             directory        cause
    not registered                     any              BROKER_TO_RETURN
    registration unreadable            not seen         REGISTRATION_UNREADABLE
    does not answer, or with an error  any              BROKER_SILENT, BROKER_UNREACHABLE, BROKER_ERROR, ...
    refuses us login, or a right       any              BROKER_UNASKABLE: that says nothing about the deletion
    answers, a log directory failed    not seen         LOG_DIRECTORY
    answers, a log directory not read  not seen         BROKER_ERROR
    no answer to the survey            not seen         BROKER_UNASKABLE
    answers                            replica          the hold of the topic, or else STILL_STORED
    answers                            renamed or gone  none: done
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lethe.protocol.cause_groups import NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.survey.causes import ObservedCause
from lethe.survey.evidence import Evidence, ReportedReplica, ReportedTopic
from lethe.survey.views import BrokerAnswers, BrokerFailure, LogDirSource, TopicTree


class ReplicaPresence(enum.Enum):
    """A replica as its disk or its broker shows it."""

    STORED = "stored"
    RENAMED = "renamed"
    GONE = "no directory"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica. `state` is the controller's, if it answered; `cause` is what the replica waits for."""

    partition: int
    broker: BrokerId
    seen: ReplicaPresence
    cause: ObservedCause | None = None
    state: str | None = None
    next_try_ms: int | None = None
    unblock: str | None = None
    """The controller's remedy."""

    @property
    def is_done(self) -> bool:
        return self.cause is None

    @property
    def last_error(self) -> str | None:
        """Error of its broker. The detail of other causes, such as the reason of a pause, is no error."""
        return self.cause.detail if self.cause is not None and self.cause.kind in _BROKER_ERRORS else None


_BROKER_ERRORS = (
    CauseKind.BROKER_ERROR,
    CauseKind.ANSWER,
    CauseKind.LOG_DIRECTORY,
    CauseKind.BROKER_SILENT,
    CauseKind.BROKER_UNREACHABLE,
    CauseKind.BROKER_NO_ACCESS,
)

Stored = Mapping[tuple[int, BrokerId], ReplicaPresence]
"""Replicas of one topic that were seen on disks, by partition and broker."""

_CAUSES_OF_FAILURES = {
    BrokerFailure.UNASKED: CauseKind.BROKER_UNASKABLE,
    BrokerFailure.SILENT: CauseKind.BROKER_SILENT,
    BrokerFailure.UNREACHABLE: CauseKind.BROKER_UNREACHABLE,
    BrokerFailure.REFUSED: CauseKind.BROKER_UNASKABLE,
    BrokerFailure.ERROR: CauseKind.BROKER_ERROR,
}


def replicas_of(
    evidence: Evidence, there: TopicTree, stored: Stored, reported: ReportedTopic | None, hold: ObservedCause | None
) -> Iterator[Replica]:
    """Yield every replica of the topic. `hold` is the cause that keeps the controller from asking for any of them."""
    answers = {answer.broker: answer for answer in evidence.survey.answers}
    tree = evidence.survey.zookeeper
    registered = {broker.id for broker in tree.brokers}
    said = {(row.partition, row.broker): row for row in (reported.replicas if reported is not None else ())}
    is_acknowledged = reported is not None and reported.phase == "acknowledged"
    # `replicas` includes the brokers that a reassignment removes: they still have the data.
    for partition, assignment in (there.assignments or {}).items():
        for broker in _hosts(assignment):
            seen = stored.get((partition, broker))
            if seen is None:
                is_known = broker in registered and _is_absence_known(evidence, answers.get(broker), broker)
                seen = ReplicaPresence.GONE if is_known else ReplicaPresence.UNKNOWN
            row = said.get((partition, broker))
            if row is not None:
                yield _reported_replica(evidence, partition, broker, seen, row, hold)
            elif is_acknowledged:
                yield Replica(partition, broker, seen)
            else:
                # Never advise to start a broker that may be running.
                may_run = broker in registered or not tree.knows_brokers
                cause = _cause_from_outside(evidence, partition, broker, seen, answers.get(broker), may_run, hold)
                yield Replica(partition, broker, seen, cause)


def _hosts(assignment: ReplicaAssignment) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in assignment.replicas)


def stored_by_topic(evidence: Evidence) -> dict[str, dict[tuple[int, BrokerId], ReplicaPresence]]:
    """Return the replicas that were seen on disks, by topic."""
    found: dict[str, dict[tuple[int, BrokerId], ReplicaPresence]] = {}
    for view in evidence.survey.log_dirs:
        for directory in view.directories:
            if directory.topic_partition is None:
                continue
            mine = found.setdefault(directory.topic_partition.topic, {})
            key = (directory.topic_partition.partition, view.broker)
            if directory.kind is DirectoryKind.REPLICA or directory.kind is DirectoryKind.FUTURE:
                mine[key] = ReplicaPresence.STORED
            elif directory.kind is DirectoryKind.DELETED:
                mine.setdefault(key, ReplicaPresence.RENAMED)
    return found


def _is_absence_known(evidence: Evidence, answer: BrokerAnswers | None, broker: BrokerId) -> bool:
    """Return True if a directory that was not seen does not exist."""
    if answer is None or answer.log_dirs is None:
        return False
    return not _problems(evidence, broker)


def _problems(evidence: Evidence, broker: BrokerId) -> list[tuple[str, str]]:
    """Return path and problem of each log directory whose replicas the broker did not list. One that is only unreadable
    on this machine is not among them."""
    return [
        (view.path, view.problem)
        for view in evidence.survey.log_dirs
        if view.broker == broker and view.problem and (view.has_failed or view.source is LogDirSource.BROKER)
    ]


def _failed_dir(evidence: Evidence, broker: BrokerId) -> str | None:
    found = [view.path for view in evidence.survey.log_dirs if view.broker == broker and view.has_failed]
    return ", ".join(found) or None


def _cause_from_outside(
    evidence: Evidence,
    partition: int,
    broker: BrokerId,
    seen: ReplicaPresence,
    answer: BrokerAnswers | None,
    may_run: bool,
    hold: ObservedCause | None,
) -> ObservedCause | None:
    """Return what the replica waits for without the controller's answer; None if its directory is renamed or gone."""
    if not may_run:
        return ObservedCause(CauseKind.BROKER_TO_RETURN, broker, (partition,))
    if answer is not None and answer.failure in _CAUSES_OF_FAILURES:
        what = answer.problems[0].what if answer.problems else None
        return ObservedCause(_CAUSES_OF_FAILURES[answer.failure], broker, (partition,), detail=what)
    unread = evidence.survey.zookeeper.problem_of(paths.broker_id(broker))
    if seen is ReplicaPresence.UNKNOWN and unread is not None:
        return ObservedCause(CauseKind.REGISTRATION_UNREADABLE, broker, (partition,), detail=unread)
    if seen is ReplicaPresence.UNKNOWN and (path := _failed_dir(evidence, broker)) is not None:
        return ObservedCause(CauseKind.LOG_DIRECTORY, broker, (partition,), path, detail="a replica may lie in it")
    match seen:
        case ReplicaPresence.UNKNOWN:
            problems = [f"{path}: {problem}" for path, problem in _problems(evidence, broker)]
            kind = CauseKind.BROKER_ERROR if problems else CauseKind.BROKER_UNASKABLE
            return ObservedCause(kind, broker, (partition,), detail="; ".join(problems) or None)
        case ReplicaPresence.STORED:
            return hold or ObservedCause(CauseKind.STILL_STORED, broker, (partition,))
        case ReplicaPresence.RENAMED | ReplicaPresence.GONE:
            return None


def _reported_replica(
    evidence: Evidence,
    partition: int,
    broker: BrokerId,
    seen: ReplicaPresence,
    row: ReportedReplica,
    hold: ObservedCause | None,
) -> Replica:
    if row.waiting_for in NOT_WAITED_FOR:
        return Replica(partition, broker, seen, None, row.state)
    kind = row.waiting_for
    cause = hold
    if kind.names_broker:
        cause = refine_with_broker_answers(evidence, kind, replace(row, partition=partition, broker=broker))
    if cause is None:
        cause = ObservedCause(
            kind, None, (partition,), since_ms=row.since_ms, attempts=row.attempts, detail=row.last_error
        )
    return Replica(partition, broker, seen, cause, row.state, row.next_try_ms, row.unblock)


def refine_with_broker_answers(evidence: Evidence, kind: CauseKind, row: ReportedReplica) -> ObservedCause:
    """Return the controller's cause, refined by the broker's own answers to the survey."""
    assert row.broker is not None
    broker = BrokerId(row.broker)
    answer = next((each for each in evidence.survey.answers if each.broker == broker), None)
    detail, path = row.last_error, None
    if (
        kind in (CauseKind.ANSWER, CauseKind.TOMBSTONE_ANSWER)
        and answer is not None
        and answer.failure in _CAUSES_OF_FAILURES
    ):
        kind = _CAUSES_OF_FAILURES[answer.failure]
        mine = answer.problems[0].what if answer.problems else None
        # Show the broker's error to the controller and its error to the survey.
        is_error = answer.failure in (BrokerFailure.REFUSED, BrokerFailure.ERROR)
        detail = "; ".join(dict.fromkeys(each for each in (detail, mine) if each)) if is_error else detail or mine
    failed = _failed_dir(evidence, broker)
    if kind is CauseKind.BROKER_ERROR and failed is not None and row.last_error and "STORAGE" in row.last_error:
        kind = CauseKind.LOG_DIRECTORY
    if kind is CauseKind.LOG_DIRECTORY:
        path = failed or "(which one the broker does not tell)"
    partitions = () if row.partition is None else (row.partition,)
    return ObservedCause(kind, broker, partitions, path, row.since_ms, row.attempts, detail)


def merge_causes(replicas: Iterable[Replica]) -> Iterator[ObservedCause]:
    """Yield one cause per kind, broker, path and detail, with all partitions, the earliest time and the most
    attempts."""
    groups: dict[tuple[CauseKind, BrokerId | None, str | None, str | None], list[ObservedCause]] = {}
    for replica in replicas:
        cause = replica.cause
        if cause is not None and not cause.kind.is_hold:
            groups.setdefault((cause.kind, cause.broker, cause.path, cause.detail), []).append(cause)
    ordered = sorted(groups.values(), key=lambda group: (group[0].broker or 0, group[0].kind.name))
    for group in ordered:
        yield replace(
            group[0],
            partitions=tuple(dict.fromkeys(partition for each in group for partition in each.partitions)),
            since_ms=min((each.since_ms for each in group if each.since_ms is not None), default=None),
            attempts=max(each.attempts for each in group),
        )


def owed_tombstones(evidence: Evidence, topic: str) -> Iterator[ObservedCause]:
    """Yield the brokers that, by the controller's answer, have not confirmed the topic's tombstone."""
    for owing in evidence.reported.owed or ():
        if topic in owing.topics:
            yield ObservedCause(
                CauseKind.TOMBSTONE_OWED,
                BrokerId(owing.broker),
                since_ms=owing.since_ms,
                attempts=owing.attempts,
                detail=owing.last_error,
            )
