"""Explanations as text: first the answer in a sentence, then the unfinished replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, listed
from lethe.protocol.shell_words import operand
from lethe.protocol.topic_names import suggestion
from lethe.protocol.zookeeper import paths
from lethe.survey.causes import ObservedCause, age_text, ranges, sentence, since_text, unblock
from lethe.survey.debts import debts_lines
from lethe.survey.evidence import Evidence
from lethe.survey.explain import CLEAN, DeletionVerdict, Explanation
from lethe.survey.explain_json import explanations_to_json
from lethe.survey.replicas import Replica
from lethe.survey.unseen import unseen_text

MAX_CAUSES: Final = 8
MAX_ROWS: Final = 40
MAX_TOPICS: Final = 50
REMOTE_SEGMENTS: Final = (
    "segments in remote storage, which lethe does not look at: the leader of a partition deletes them with its "
    "replica; where a partition had no leader when the topic was marked, or its leader restarts before that, they stay"
)
_NOT_BROUGHT_BACK: Final = (CauseKind.MARKER_WITHOUT_TOPIC, CauseKind.NAME_RESERVED)
"""There is no topic to bring back, or the request would be for another one, which is in the trash."""
_EXITS: Final = {
    DeletionVerdict.GONE: Exit.NO,
    DeletionVerdict.UNSEEN: Exit.UNREACHABLE,
    DeletionVerdict.MARKER_UNSEEN: Exit.UNREACHABLE,
    DeletionVerdict.WAITING: Exit.WAITS,
}


def one(evidence: Evidence, found: Explanation, similar: Sequence[str] = ()) -> Answer:
    """Return the answer about one topic; `similar` are close names. Exit code 1: no trace of it; 3: no trace, but not
    all could be seen; 6: it waits."""
    now_ms = evidence.survey.taken_at_ms
    code = _EXITS.get(found.verdict, Exit.OK)
    tables = []
    waiting = [replica for replica in found.replicas if not replica.is_done]
    if waiting:
        done = len(found.replicas) - len(waiting)
        title = f"Replicas that are not done ({done} of {len(found.replicas)} are)"
        columns = (
            "partition",
            "broker",
            "state",
            "on disk",
            "since",
            "tries",
            "last error",
            "next try",
            "unblocked by",
        )
        tables.append(Table(columns, tuple(_rows(waiting, found.topic, now_ms)), title))
    if evidence.survey.problems and found.verdict is not DeletionVerdict.GONE:
        tables.append(Table(("where", "why"), evidence.survey.problems[:MAX_ROWS], "Could not be seen"))
    return Answer(
        {**explanations_to_json(evidence, [found], replicas=True), "did_you_mean": [*similar]},
        (*_headline(evidence, found, similar), *_debts(evidence), *_source_line(evidence, found)),
        tuple(tables),
        code,
    )


def many(evidence: Evidence, found: Sequence[Explanation]) -> Answer:
    """Return the answer about all marked topics: a table of causes, then a line per topic."""
    now_ms = evidence.survey.taken_at_ms
    data = explanations_to_json(evidence, found, replicas=False)
    if not found and not evidence.survey.zookeeper.knows_markers:
        line = f"Which topics are marked for deletion is not known: {_unread_markers(evidence)}."
        return Answer(data, (line, *_owed(evidence)), exit=Exit.UNREACHABLE)
    if not found:
        return Answer(data, ("No topic is marked for deletion.", *_owed(evidence)))
    waiting = [each for each in found if each.verdict is DeletionVerdict.WAITING]
    oldest = min((each.marked_since_ms for each in found if each.marked_since_ms is not None), default=None)
    since = "" if oldest is None else f", the oldest since {since_text(oldest, now_ms)}"
    line = (
        f"{counted(len(found), 'topic is', 'topics are')} marked for deletion{since}: "
        f"{counted(len(waiting), 'waits', 'wait')}, {counted(len(found) - len(waiting), 'continues', 'continue')}."
    )
    causes = Table(("topics", "they", "unblocked by", "such as"), tuple(_grouped(found, now_ms)), "Causes")
    rows = [
        (
            each.topic,
            "" if each.marked_since_ms is None else age_text(max(0, now_ms - each.marked_since_ms)),
            each.verdict.value,
            _short(each, now_ms),
        )
        for each in (*waiting, *(each for each in found if each.verdict is not DeletionVerdict.WAITING))[:MAX_TOPICS]
    ]
    title = "Topics" if len(found) <= MAX_TOPICS else f"Topics (the first {MAX_TOPICS} of {len(found)}; --json has all)"
    topics = Table(("topic", "marked for", "state", "why"), tuple(rows), title)
    code = Exit.WAITS if waiting else Exit.OK
    lines = (line, *_owed(evidence), *_tiered(found), *_source_line(evidence, found[0]))
    return Answer(data, lines, (causes, topics), code)


def _tiered(found: Sequence[Explanation]) -> list[str]:
    """Return a line about topics with remote segments, and one about those of which that is unknown."""
    having = [each.topic for each in found if each.is_tiered]
    unknown = [each.topic for each in found if each.is_tiered is None]
    lines = []
    if having:
        lines.append(f"{counted(len(having), 'topic has', 'topics have')} {REMOTE_SEGMENTS}: {listed(having)}.")
    if unknown:
        lines.append(_maybe_tiered(listed(unknown)))
    return lines


def _tiered_one(found: Explanation) -> list[str]:
    if found.is_tiered is None:
        return [_maybe_tiered(found.topic)]
    return [f"{found.topic} has {REMOTE_SEGMENTS}."] if found.is_tiered else []


def _maybe_tiered(which: str) -> str:
    return f"The configuration of {which} cannot be read: it may have segments in remote storage, unseen by lethe."


def _unread_markers(evidence: Evidence) -> str:
    problems = evidence.survey.zookeeper.problems
    why = next((what for where, what in problems if where == paths.DELETE_TOPICS), "it was not read")
    return f"{paths.DELETE_TOPICS} cannot be read ({why})"


def _owed(evidence: Evidence) -> list[str]:
    """Return a line per broker with unconfirmed tombstones of removed topics."""
    now_ms = evidence.survey.taken_at_ms
    return [
        f"Broker {owing.broker} has not confirmed that its metadata cache has dropped "
        f"{counted(owing.topic_count, 'topic')} whose znodes are gone"
        f"{'' if owing.since_ms is None else f', since {since_text(owing.since_ms, now_ms)}'}"
        f"{f' ({owing.last_error})' if owing.last_error else ''}: {', '.join(owing.topics[:MAX_CAUSES])}"
        f"{', …' if owing.topic_count > MAX_CAUSES else ''}."
        for owing in evidence.reported.owed or ()
    ]


def _debts(evidence: Evidence) -> list[str]:
    """Return a line for each broker that owes something of the topics."""
    return [f"{line[:1].upper()}{line[1:]}." for line in debts_lines(evidence.survey.zookeeper)]


def no_trace(topic: str, how_far: str, similar: Sequence[str]) -> str:
    """Return the message about a name without a trace; `how_far` limits it, `similar` are close names."""
    return f"There is no topic {topic}, and no trace of one{how_far}{suggestion(similar) or '.'}"


def in_trash(topic: str, problem: str | None = None) -> str:
    """Return the message about a topic in the trash; `problem`: why its entry cannot be understood."""
    if problem is not None:
        return (
            f"{topic} is {DeletionVerdict.IN_TRASH.value}, and can neither come back nor be deleted while its "
            f"entry cannot be used: {problem}. Repair {paths.trashed(topic)} (if a newer release wrote it, "
            "have that lead), then have the controller read it again: lethe controller-resign."
        )
    return (
        f"{topic} is {DeletionVerdict.IN_TRASH.value}: lethe topics trash list shows until when, and lethe topics "
        f"undelete {operand(topic)} brings it back."
    )


def _headline(evidence: Evidence, found: Explanation, similar: Sequence[str] = ()) -> list[str]:
    topic, now_ms = found.topic, evidence.survey.taken_at_ms
    match found.verdict:
        case DeletionVerdict.GONE:
            return [no_trace(topic, f": {CLEAN}", similar)]
        case DeletionVerdict.UNSEEN:
            words = unseen_text(evidence.survey, found.causes)
            if not found.causes:
                return [no_trace(topic, f" as far as could be seen: {words}", similar)]
            owing = [f"{sentence(cause, topic, now_ms)}: {unblock(cause, topic)}." for cause in found.causes]
            return [f"{topic} is gone as far as could be seen: {words}.", *owing]
        case DeletionVerdict.OWED:
            owing = [f"{sentence(cause, topic, now_ms)}: {unblock(cause, topic)}." for cause in found.causes]
            return [f"{topic} is {found.verdict.value}: {CLEAN}.", *owing]
        case DeletionVerdict.IN_TRASH:
            also = [f"{sentence(cause, topic, now_ms)}: {unblock(cause, topic)}." for cause in found.causes]
            return [in_trash(topic, evidence.survey.zookeeper.unreadable_trash.get(topic)), *also]
        case DeletionVerdict.MARKER_UNSEEN:
            return [f"Whether {topic} is marked for deletion is not known: {_unread_markers(evidence)}."]
        case _:
            pass
    lines = []
    if found.marked_since_ms is not None:
        lines.append(f"{topic} is marked for deletion since {since_text(found.marked_since_ms, now_ms)}.")
    said = [f"{sentence(cause, topic, now_ms)}: {unblock(cause, topic)}." for cause in found.causes[:MAX_CAUSES]]
    left = len(found.causes) - len(said)
    more = [f"… and {counted(left, 'more cause')} (--json has all)"] if left > 0 else []
    return [*lines, *said, *more, *_held(found), *_tiered_one(found)]


def _held(found: Explanation) -> list[str]:
    """Return how a topic is kept whose deletion this controller has not begun. Another one may have begun it."""
    if found.phase != "held" or any(cause.kind in _NOT_BROUGHT_BACK for cause in found.causes):
        return []
    keep = f"lethe topics undelete {operand(found.topic)}, which refuses where replicas may be gone"
    return [f"Its phase is held: this controller has deleted no replica of it. To keep it: {keep}."]


def _source_line(evidence: Evidence, found: Explanation) -> list[str]:
    """Return the source of the explanation where it is not the controller."""
    if evidence.reported.is_known or found.verdict in (
        DeletionVerdict.GONE,
        DeletionVerdict.UNSEEN,
        DeletionVerdict.IN_TRASH,
    ):
        return []
    return [f"(Concluded from ZooKeeper, caches and disks; the controller said nothing: {evidence.reported.problem}.)"]


def _short(found: Explanation, now_ms: int) -> str:
    if not found.causes:
        return ""
    first = sentence(found.causes[0], "", now_ms).strip()
    more = len(found.causes) - 1
    return first if not more else f"{first}; and {more} more"


def in_short(found: Explanation) -> tuple[str, ...]:
    """Return `waits for …: what helps` for each cause, without times, so that equal causes of topics have equal
    texts."""
    untimed = (replace(cause, since_ms=None) for cause in found.causes[:MAX_CAUSES])
    return tuple(f"{sentence(each, '', 0).strip()}: {unblock(each, found.topic)}" for each in untimed)


def _grouped(found: Iterable[Explanation], now_ms: int) -> list[tuple[str, ...]]:
    """Return a row per kind, broker and path; causes of the most topics first."""
    groups: dict[tuple[object, ...], tuple[ObservedCause, dict[str, None]]] = {}
    for each in found:
        for cause in each.causes:
            groups.setdefault(cause.group, (cause, {}))[1][each.topic] = None
    ordered = sorted(groups.values(), key=lambda group: -len(group[1]))[:MAX_ROWS]
    return [
        (
            str(len(topics)),
            sentence(cause, "", now_ms).strip(),
            unblock(cause, next(iter(topics))),
            ", ".join([*topics][:3]),
        )
        for cause, topics in ordered
    ]


def _rows(waiting: Sequence[Replica], topic: str, now_ms: int) -> list[tuple[str, ...]]:
    """Return a row per replica; for very many replicas, a row per broker and cause."""
    rows: dict[tuple[str, ...], list[int]] = {}
    together = len(waiting) > MAX_ROWS
    for replica in waiting:
        rows.setdefault(_row(replica, topic, now_ms, None if together else replica.partition), []).append(
            replica.partition
        )
    return [(ranges(tuple(partitions)), *row[1:]) for row, partitions in rows.items()][:MAX_ROWS]


def _row(replica: Replica, topic: str, now_ms: int, partition: int | None) -> tuple[str, ...]:
    cause = replica.cause
    assert cause is not None
    next_try = "" if replica.next_try_ms is None else f"in {age_text(max(0, replica.next_try_ms - now_ms))}"
    return (
        "" if partition is None else str(partition),
        str(replica.broker),
        (replica.state or cause.kind.name).lower().replace("_", " "),
        replica.seen.value,
        "" if cause.since_ms is None else since_text(cause.since_ms, now_ms),
        str(cause.attempts or ""),
        replica.last_error or "",
        next_try,
        replica.unblock or unblock(cause, topic),
    )
