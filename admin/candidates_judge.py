"""Decides whether a topic that the pipeline reported as unused may be deleted now. Pure.

The table describes the past. Only the topic that the survey saw, unchanged, may be deleted:

    checked                                     left out because
    name                                        internal, or protected
    topic id, creation time                     it is another topic of that name
    marker, reassignment, leaders, ISR          it is marked, moving, or not in sync
    sizes of all replicas                       they have changed, or are unknown
    consumer groups with members                a group reads it
    records since the last write                it was written to
    a question that no broker answered          unknown, unless `allow_unasked`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lethe.admin.candidates import Candidate
from lethe.admin.candidates_look import CurrentTopic
from lethe.admin.group_readers import Group
from lethe.admin.topic_plans import TopicDescription
from lethe.admin.topic_usage import TopicUsage
from lethe.protocol.counting import counted, listed
from lethe.protocol.kafka.config_values import parse_boolean
from lethe.protocol.topic_globs import KEPT_BY_CUSTOM, matching_glob
from lethe.protocol.vocabulary import INTERNAL_TOPICS, TopicPartition

DAY_MS: Final = 86_400_000
REMOTE_STORAGE: Final = "remote.storage.enable"


@dataclass(frozen=True, slots=True)
class SkippedCandidate:
    """A candidate that is not deleted."""

    topic: str
    why: str


@dataclass(frozen=True, slots=True)
class SelectedCandidate:
    """A candidate that may be deleted, and the consumer groups that it affects."""

    candidate: Candidate
    czxid: int
    groups: tuple[Group, ...] | None = None
    """Groups with offsets of the topic; None where not all groups are known."""
    notes: tuple[str, ...] = ()


def unwritten_since_ms(candidate: Candidate) -> int:
    """Return the time after which, by the table, nothing was written."""
    return candidate.taken_at_ms - candidate.unwritten_days * DAY_MS


def judge(
    candidate: Candidate, now: CurrentTopic | None, protected: Sequence[str]
) -> SelectedCandidate | SkippedCandidate:
    """Judge by znodes and sizes."""
    problem = _name_problem(candidate.topic, protected)
    if problem is None and now is None:
        problem = "it does not exist any more"
    if problem is None and now is not None:
        problem = (
            _incarnation_problem(candidate, now) or _state_problem(now.description) or _size_problem(candidate, now)
        )
    if problem is not None or now is None:
        return SkippedCandidate(candidate.topic, problem or "")
    return SelectedCandidate(candidate, now.czxid)


def judge_readers(
    chosen: SelectedCandidate, partitions: Sequence[int], readers: TopicUsage, *, allow_unasked: bool = False
) -> SelectedCandidate | SkippedCandidate:
    """Judge by consumer groups and offsets. An unanswered question leaves the topic out, unless `allow_unasked`."""
    candidate = chosen.candidate
    name = candidate.topic
    groups = readers.groups.get(name, ())
    if reading := [group for group in groups if group.members]:
        members = listed(reading[0].members, 3)
        return SkippedCandidate(name, f"consumer group {reading[0].name} reads it now: {members}")
    wanted = [TopicPartition(name, number) for number in partitions]
    known = [found for each in wanted if (found := readers.offsets.get(each)) is not None]
    if any(found.since is not None for found in known):
        return SkippedCandidate(
            name, f"it has records with times after it was last written by the table ({candidate.evidence})"
        )
    if not allow_unasked and (doubt := _doubt(wanted, readers)) is not None:
        return SkippedCandidate(name, doubt)
    notes = []
    if known and candidate.is_empty:
        written = sum(found.end for found in known)
        if any(found.end > found.first for found in known):
            return SkippedCandidate(name, "it has records, and was empty when the survey was taken")
        if written and candidate.evidence != "mtime":
            return SkippedCandidate(
                name, "its records were deleted by retention, and sizes do not tell when it was last written"
            )
        if written or len(known) == len(wanted):
            notes.append("its records were deleted by retention" if written else "never written")
    if len(known) < len(wanted):
        notes.append("its offsets could not be asked")
    return SelectedCandidate(candidate, chosen.czxid, None if readers.unasked else groups, tuple(notes))


def _doubt(wanted: Sequence[TopicPartition], readers: TopicUsage) -> str | None:
    """Return the first unanswered question."""
    if readers.unasked:
        return f"its readers are unseen: {readers.unasked[0]}"
    for each in wanted:
        if each not in readers.offsets:
            return f"its offsets are unseen: {readers.unknown.get(each, f'no answer names {each}')}"
    return None


def _name_problem(name: str, protected: Sequence[str]) -> str | None:
    if name in INTERNAL_TOPICS or name.startswith("__"):
        return "it is internal"
    if (pattern := matching_glob(name, KEPT_BY_CUSTOM)) is not None:
        return f"names like {pattern} are of what works for clients, and never deleted here"
    if (pattern := matching_glob(name, protected)) is not None:
        return f"it is protected by {pattern}"
    return None


def _incarnation_problem(candidate: Candidate, now: CurrentTopic) -> str | None:
    if now.description.problem is not None:
        return f"its znodes are unseen: {now.description.problem}"
    if candidate.topic_id != now.description.topic_id:
        return "it is another topic of that name, created since"
    if now.created_at_ms is None and candidate.topic_id is None:
        return "it has no id, and ZooKeeper does not say when it was created: it may be another topic of that name"
    if now.created_at_ms not in (None, candidate.created_at_ms):
        return "it is another topic of that name, created since"
    return None


def _state_problem(topic: TopicDescription) -> str | None:
    if topic.is_marked:
        return "it is marked for deletion already"
    if (remote := topic.config.get(REMOTE_STORAGE)) is not None and parse_boolean(remote) is not False:
        return f"{REMOTE_STORAGE} is {remote.strip()}, and what is kept elsewhere is in no survey"
    for partition in topic.partitions:
        where = f"partition {partition.partition}"
        if partition.assignment.is_being_reassigned or partition.pending:
            return f"{where} is being reassigned"
        if partition.leader is None or partition.leader < 0:
            return f"{where} has no leader"
        if sorted(partition.isr) != sorted(partition.assignment.replicas):
            return f"{where} has replicas that are not in sync"
    if topic.requests_unseen is not None:
        return f"whether it is being reassigned is unseen: {topic.requests_unseen}"
    return None


def _size_problem(candidate: Candidate, now: CurrentTopic) -> str | None:
    if candidate.segment_bytes is None:
        return "the table does not say how many bytes its segments have"
    if now.segment_bytes is None:
        return f"its size is not known now: {now.unseen}"
    if len(now.description.partitions) != candidate.partitions:
        return f"it had {counted(candidate.partitions, 'partition')} and has {len(now.description.partitions)} now"
    if now.segment_bytes != candidate.segment_bytes:
        return f"it had {counted(candidate.segment_bytes, 'byte')} and has {now.segment_bytes:,} now"
    return None
