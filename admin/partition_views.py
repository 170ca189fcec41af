"""The cluster's partitions as ZooKeeper has them: assignments, leadership, requests, live brokers.

Requests are read before topics: the controller writes a request to the topic before it deletes the request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.partition_names import Selector, selected
from lethe.admin.refusal import Refusal
from lethe.admin.topic_znodes import ListedTopics, list_topics, live_brokers, read_states, requested_reassignments
from lethe.protocol.topic_names import unknown_topic
from lethe.protocol.vocabulary import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import GetData
from lethe.protocol.zookeeper.znodes import MalformedZnode
from lethe.survey.znodes import ZnodeUnreadable, topic_of


@dataclass(frozen=True, slots=True)
class PartitionViews:
    """Ordered by topic name and partition number. A partition has no entry in `states` where its state znode does not
    exist, and where `unseen` says why its state is not known."""

    brokers: Mapping[int, Broker]
    """The registered brokers, by id."""
    there: ListedTopics
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    states: Mapping[TopicPartition, LeaderAndIsr]
    requested: Mapping[TopicPartition, tuple[int, ...]]
    """Target replicas in `/admin/reassign_partitions`."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Unreadable znodes, by topic or path."""
    states_unseen: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions whose state znode cannot be understood, with the reason; `problems` has them by path."""

    @property
    def requests_unseen(self) -> str | None:
        """Why `/admin/reassign_partitions` cannot be understood; then `requested` is empty."""
        why = self.problems.get(paths.REASSIGN_PARTITIONS)
        return None if why is None else str(MalformedZnode(paths.REASSIGN_PARTITIONS, why))

    @property
    def by_topic(self) -> dict[str, list[int]]:
        """The readable partitions of each topic."""
        found: dict[str, list[int]] = {}
        for topic, partition in self.assignments:
            found.setdefault(topic, []).append(partition)
        return found

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader, even if it is not live; None where there is none."""
        state = self.states.get(partition)
        return None if state is None or state.leader < 0 else state.leader

    def isr(self, partition: TopicPartition) -> tuple[int, ...]:
        state = self.states.get(partition)
        return () if state is None else state.isr

    def unseen(self, partition: TopicPartition) -> str | None:
        """Return why leader and ISR are not known; None where they are, and where the partition does not exist."""
        return self.states_unseen.get(partition) or self.problems.get(partition.topic)

    def has_live_leader(self, partition: TopicPartition) -> bool:
        return self.leader(partition) in self.brokers


async def view_partitions(session: ZooKeeperSession, names: Collection[str] | None = None) -> PartitionViews:
    """Return all partitions, or those of the existing ones of `names`. Raises NoCluster where there is no cluster."""
    problems: dict[str, str] = {}
    try:
        requested = await requested_reassignments(session)
    except MalformedZnode as malformed:
        requested = {}
        problems[malformed.path] = malformed.reason
    there = await list_topics(session)
    brokers, unreadable = await live_brokers(session)
    problems.update({malformed.path: malformed.reason for malformed in unreadable})
    chosen = [name for name in there.names if names is None or name in names]
    assignments: dict[TopicPartition, ReplicaAssignment] = {}
    for name, outcome in zip(chosen, await session.read([GetData(paths.topic(name)) for name in chosen]), strict=True):
        try:
            znode = topic_of(outcome, name)
        except (MalformedZnode, ZnodeUnreadable) as malformed:
            problems[name] = str(malformed)
            continue
        if znode is not None:
            assignments.update({TopicPartition(name, p): found for p, found in znode.assignments.items()})
    read = await read_states(session, list(assignments))
    malformed_states = {partition: state for partition, state in read.items() if isinstance(state, MalformedZnode)}
    problems.update({malformed.path: malformed.reason for malformed in malformed_states.values()})
    return PartitionViews(
        {int(broker.id): broker for broker in brokers},
        there,
        assignments,
        {partition: state for partition, state in read.items() if not isinstance(state, MalformedZnode)},
        requested,
        problems,
        {partition: str(malformed) for partition, malformed in malformed_states.items()},
    )


def selection(views: PartitionViews, selectors: Sequence[Selector]) -> list[TopicPartition]:
    """Return the selected partitions; without selectors, all. Raises Refusal for a missing or unreadable topic or
    partition."""
    for selector in selectors:
        if selector.topic in views.problems:
            raise Refusal(views.problems[selector.topic])
        if selector.topic not in views.by_topic:
            raise Refusal(unknown_topic(selector.topic, views.there.names))
    try:
        return selected(selectors, views.by_topic) if selectors else list(views.assignments)
    except ValueError as problem:
        raise Refusal(str(problem)) from problem
