"""Requests about partitions through ZooKeeper: reassignments, and elections of preferred leaders.

`/admin/reassign_partitions` is written on condition of the version that was read, so no other tool's request is lost.
It is one znode, which Kafka's controller reads when it is created. Only Lethe's controller also reads later additions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.partition_views import PartitionViews
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    Exists,
    MultiFailed,
    Operation,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.znodes import decode_reassignment, encode_preferred_replica_election, encode_reassignment
from lethe.survey.znodes import read_data, stat_of

MAX_REQUEST_BYTES: Final = 800_000
"""ZooKeeper's default limit is a megabyte."""
_ADMIN: Final = paths.parent_of(paths.REASSIGN_PARTITIONS)


class RequestPending(Exception):
    """There is a request already, and the active controller ignores additions to it."""


class RequestTooLarge(ValueError):
    """The partitions do not fit into one znode."""


async def request_reassignment(
    session: ZooKeeperSession, targets: Mapping[TopicPartition, tuple[int, ...]], *, may_merge: bool
) -> Outcome:
    """Request the reassignments. Earlier requests stay, unless they are about the same partition; `was_done`: there
    were some.

    Raises RequestPending where there is a request and `may_merge` is False, RequestTooLarge, MalformedZnode for an
    unreadable request, NoCluster under a KRaft controller.
    """
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (_ADMIN,))
    path = paths.REASSIGN_PARTITIONS
    for _ in range(MAX_ATTEMPTS):
        data = await read_data(session, path)
        operation: Operation
        if data is None:
            operation = Create(path, _fitting(encode_reassignment(targets), len(targets)))
        else:
            before = decode_reassignment(data.data)
            if not may_merge:
                raise RequestPending(f"{path} asks for the reassignment of {counted(len(before), 'partition')} already")
            merged = {**before, **targets}
            operation = SetData(path, _fitting(encode_reassignment(merged), len(merged)), data.stat.version)
        outcome = await session.multi([operation])
        if is_conflict(outcome):
            continue
        return outcome_of(path, outcome, act=f"write {path}", done=f"{path} was written", was_done=data is not None)
    return given_up(path, path)


async def request_election(session: ZooKeeperSession, partitions: Sequence[TopicPartition]) -> Outcome:
    """Request the election of preferred leaders. `was_done`: another request is pending, and nothing was written."""
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (_ADMIN,))
    path = paths.PREFERRED_REPLICA_ELECTION
    outcome = await session.multi([Create(path, encode_preferred_replica_election(partitions))])
    if outcome == MultiFailed(0, ZkError.NODE_EXISTS):
        return Outcome(path, was_done=True)
    return outcome_of(path, outcome, act=f"write {path}", done=f"{path} was written")


async def election_is_pending(session: ZooKeeperSession) -> bool:
    """Return True where the controller has not taken the last request yet. Raises ZnodeUnreadable."""
    (outcome,) = await session.read([Exists(paths.PREFERRED_REPLICA_ELECTION)])
    return stat_of(outcome, paths.PREFERRED_REPLICA_ELECTION) is not None


def portions(partitions: Sequence[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Yield the partitions in order, in portions that fit into one znode."""
    portion: list[TopicPartition] = []
    size = 0
    for partition in partitions:
        bytes_more = len(partition.topic) + 48
        if portion and size + bytes_more > MAX_REQUEST_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(partition)
        size += bytes_more
    if portion:
        yield portion


def _fitting(data: bytes, partitions: int) -> bytes:
    if len(data) > MAX_REQUEST_BYTES:
        raise RequestTooLarge(
            f"a request of {counted(partitions, 'partition')} is {counted(len(data), 'byte')}, and ZooKeeper "
            f"takes {MAX_REQUEST_BYTES:,}: "
            "move fewer partitions at a time"
        )
    return data


class Election(NamedTuple):
    """One partition: its leader, its preferred leader, and why it cannot be elected (None where it can, or leads)."""

    partition: TopicPartition
    before: int | None
    preferred: int
    problem: str | None
    is_unseen: bool = False
    """True if the leader is not known, because the state znode cannot be understood."""

    @property
    def is_needed(self) -> bool:
        return self.problem is None and self.before != self.preferred


def election_of(views: PartitionViews, partition: TopicPartition) -> Election:
    """Return what an election of the preferred replica would change."""
    replicas = views.assignments[partition].replicas
    preferred = replicas[0] if replicas else -1
    before = views.leader(partition)
    unseen = views.unseen(partition)
    problem = None
    if not replicas:
        problem = "it has no replicas"
    elif partition.topic in views.there.marked:
        problem = "its topic is marked for deletion"
    elif preferred not in views.brokers:
        problem = f"the preferred replica {preferred} is on a broker that is not registered"
    elif unseen is not None:
        problem = f"its state is unseen: {unseen}"
    elif preferred not in views.isr(partition):
        isr = ",".join(map(str, views.isr(partition))) or "nobody"
        problem = f"the preferred replica {preferred} is not in sync (in sync: {isr})"
    return Election(partition, before, preferred, problem, unseen is not None)
