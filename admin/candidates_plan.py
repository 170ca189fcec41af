"""Plan of `lethe topics delete --from-candidates`: every candidate, judged by the present state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.candidates import Candidate
from lethe.admin.candidates_judge import SelectedCandidate, SkippedCandidate, judge, judge_readers, unwritten_since_ms
from lethe.admin.candidates_look import CurrentTopic, look_now
from lethe.admin.paced_marking import Pace
from lethe.admin.protection import read_protected
from lethe.admin.refusal import Refusal
from lethe.admin.topic_usage import LeaderQuery, TopicUsage, ask_readers
from lethe.protocol.vocabulary import Broker, TopicPartition
from lethe.survey.zookeeper import read_cluster_id as cluster_here

MAX_AGE_DAYS: Final = 7

AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class CandidateDeletionRequest:
    """The options of the command."""

    path: Path
    reach: BrokerReach
    protected: tuple[str, ...] = ()
    max_age_days: float = MAX_AGE_DAYS
    pace: Pace = field(default_factory=lambda: Pace(AT_ONCE))
    dry_run: bool = False
    timeout_ms: int = 300_000
    quiet: bool = False
    allow_unasked: bool = False
    """Delete also topics whose consumer groups or offsets are unknown."""


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What would be done. `problems` are the unanswered questions; `is_strict`: these leave topics out."""

    chosen: tuple[SelectedCandidate, ...]
    left_out: tuple[SkippedCandidate, ...]
    problems: tuple[str, ...] = ()
    is_strict: bool = True


async def make_plan(
    session: ZooKeeperSession, candidates: Sequence[Candidate], wanted: CandidateDeletionRequest
) -> DeletionPlan:
    """Return the plan, by the present state."""
    judged, problems = await judge_all(session, candidates, wanted)
    chosen = tuple(each for each in judged if isinstance(each, SelectedCandidate))
    left_out = sorted((each for each in judged if isinstance(each, SkippedCandidate)), key=lambda out: out.topic)
    return DeletionPlan(chosen, tuple(left_out), problems, not wanted.allow_unasked)


async def judge_all(
    session: ZooKeeperSession, candidates: Sequence[Candidate], wanted: CandidateDeletionRequest
) -> tuple[list[SelectedCandidate | SkippedCandidate], tuple[str, ...]]:
    """Judge all candidates by znodes and sizes, and the remaining ones by consumer groups and offsets. Return the
    judgements and the unanswered questions."""
    found, unread, brokers = await look_now(session, wanted.reach, [candidate.topic for candidate in candidates])
    protected = (*wanted.protected, *(await read_protected(session)).patterns)
    first = [
        SkippedCandidate(candidate.topic, f"its existence is unseen: {unread[candidate.topic]}")
        if candidate.topic in unread
        else judge(candidate, found.get(candidate.topic), protected)
        for candidate in candidates
    ]
    able = [each for each in first if isinstance(each, SelectedCandidate)]
    readers = await _readers(session, wanted.reach, brokers, able, found) if able else TopicUsage()

    def second(each: SelectedCandidate) -> SelectedCandidate | SkippedCandidate:
        partitions = [partition.partition for partition in found[each.candidate.topic].description.partitions]
        return judge_readers(each, partitions, readers, allow_unasked=wanted.allow_unasked)

    return [second(each) if isinstance(each, SelectedCandidate) else each for each in first], readers.problems


async def demand_this_cluster(session: ZooKeeperSession, path: Path, of_table: str | None) -> None:
    """Raise Refusal for a lake of another cluster, where both ids are known."""
    here = await cluster_here(session)
    if of_table is not None and here is not None and of_table != here:
        raise Refusal(
            f"{path} is of the Kafka cluster {of_table}, and --zookeeper leads to the cluster {here}: nothing was done"
        )


async def _readers(
    session: ZooKeeperSession,
    reach: BrokerReach,
    brokers: Sequence[Broker],
    able: Sequence[SelectedCandidate],
    found: Mapping[str, CurrentTopic],
) -> TopicUsage:
    asked = {}
    for each in able:
        since_ms = unwritten_since_ms(each.candidate)
        for partition in found[each.candidate.topic].description.partitions:
            where = TopicPartition(each.candidate.topic, partition.partition)
            asked[where] = LeaderQuery(-1 if partition.leader is None else partition.leader, since_ms)
    return await ask_readers(session, reach, brokers, asked)
