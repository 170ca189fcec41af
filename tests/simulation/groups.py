"""Consumer groups: what they have committed, and how controllers read and commit it over connections of their own.

A group's coordinator is the leader of one partition of `__consumer_offsets`. It drops what its groups have committed
for a partition when it takes in the partition's tombstone, whichever incarnation of the topic's name that is of, as
Kafka's does (`GroupCoordinator.handleDeletedPartitions`). It takes no offsets for a topic that it does not know, and
none from others while the group has members. A question may be lost, or be asked of a broker that is down, that is
silent, or that has not heard yet that it leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from lethe.broker.core.replica import ReplicaState
from lethe.controller.core.effects import CommitOffsets, Coordinator, GroupCommit, ReadOffsets
from lethe.controller.core.events import OffsetsCommitted, OffsetsRead
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.group_offsets import HAS_MEMBERS, CommittedOffset, coordinator_partition
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, LEADER_DURING_DELETE, BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

GROUPS = ("readers", "copiers", "auditors")
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


class Committed(NamedTuple):
    """One offset, and when it was committed."""

    offset: int
    at_ms: int


Offsets = dict[str, dict[int, Committed]]
"""By group and partition."""


class Groups:
    """All groups of the cluster, and what their coordinators store."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random(f"groups {cluster.world.seed}")
        self.committed: dict[str, Offsets] = {}
        """By topic."""
        self.with_members: dict[str, None] = {}

    def coordinator(self, group: str) -> AgentProcess | None:
        """The broker that coordinates the group, if it is up and knows that it does."""
        topic = self._cluster.ledger.living.get(GROUP_METADATA_TOPIC)
        number = coordinator_partition(group, len(topic.assignments)) if topic is not None and topic.assignments else 0
        state = None if topic is None else topic.states.get(number)
        agent = None if state is None else self._cluster.agents.get(BrokerId(state.leader))
        if state is None or agent is None or not leads(agent, number, state.leader_epoch):
            return None
        return agent

    def commit(self) -> None:
        """A group commits how far it has read some topic; its coordinator has to know the topic."""
        group = self._random.choice(GROUPS)
        agent = self.coordinator(group)
        living = self._cluster.ledger.living
        names = [n for n, each in living.items() if agent is not None and shows(agent, n) and each.states]
        if names:
            name = self._random.choice(names)
            offset = Committed(self._random.randint(1, 1_000), self._cluster.world.now_ms)
            number = self._random.choice(list(living[name].states))
            self.committed.setdefault(name, {}).setdefault(group, {})[number] = offset

    def join(self) -> None:
        """Members join a group, or all leave it."""
        group = self._random.choice(GROUPS)
        if group in self.with_members:
            del self.with_members[group]
        else:
            self.with_members[group] = None

    def told(self, agent: AgentProcess, request: UpdateMetadataRequest) -> None:
        """The broker takes this in: what its groups have of partitions that go is dropped."""
        for topic in request.topics if self.committed else ():
            groups = self.committed.get(topic.topic)
            gone = [row.partition for row in topic.partitions if row.leader == LEADER_DURING_DELETE]
            if groups and gone:
                for group in [group for group in groups if self.coordinator(group) is agent]:
                    groups[group] = {number: each for number, each in groups[group].items() if number not in gone}
                    if not groups[group]:
                        del groups[group]


def shows(agent: AgentProcess, name: str) -> bool:
    """The broker's cache has the topic."""
    return agent.is_listening and name in agent.state.cache.topics


def leads(agent: AgentProcess, number: int, leader_epoch: int) -> bool:
    """The broker has heard that it leads this partition of `__consumer_offsets` under this epoch."""
    replica = agent.state.replicas.get(TopicPartition(GROUP_METADATA_TOPIC, number))
    is_hosted = agent.is_listening and replica is not None and replica.state is ReplicaState.HOSTED
    return is_hosted and replica is not None and (replica.leader, replica.leader_epoch) == (agent.id, leader_epoch)


# --- what controllers ask -----------------------------------------------------------------------------------------


class GroupWork:
    """One `ReadOffsets` or `CommitOffsets` on its way; one event follows unless the session is lost meanwhile."""

    def __init__(
        self, cluster: Cluster, owner: ControllerProcess, effect: ReadOffsets | CommitOffsets, run: int
    ) -> None:
        self._cluster = cluster
        self._owner = owner
        self._effect = effect
        self._run = run
        self._client = owner.client
        self._random = Random(f"{cluster.world.seed} {effect.id} {cluster.world.now_ms}")

    def start(self) -> None:
        """Ask."""
        world, (low_ms, high_ms) = self._cluster.world, self._cluster.mix.network_ms
        world.after(self._random.randint(2 * low_ms, 4 * high_ms + 2), self._arrive)

    def _arrive(self) -> None:
        effect = self._effect
        event = self._read(effect) if isinstance(effect, ReadOffsets) else self._commit(effect)
        high_ms = self._cluster.mix.network_ms[1]
        is_late = self._random.random() < self._cluster.mix.p_answer_lost
        if is_late:
            event = _unanswered(effect)
        wait_ms = self._cluster.mix.request_timeout_ms if is_late else self._random.randint(0, high_ms)
        self._cluster.world.after(wait_ms, lambda: self._tell(event))

    def _tell(self, event: OffsetsRead | OffsetsCommitted) -> None:
        if self._owner.client is self._client:
            self._owner.hear(event, self._run)

    def _unreachable(self, broker: BrokerId) -> bool:
        agent = self._cluster.agents[broker]
        is_off = not agent.is_listening or agent.is_silent or self._cluster.link(self._owner.id, broker).is_cut
        return is_off or self._random.random() < self._cluster.mix.p_request_lost

    def _read(self, effect: ReadOffsets) -> OffsetsRead:
        found: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        for each in effect.coordinators:
            agent = self._cluster.agents[each.broker]
            if self._unreachable(each.broker):
                return OffsetsRead(effect.id, None, f"broker {each.broker} does not answer")
            if not all(leads(agent, *led) for led in each.led):
                return OffsetsRead(effect.id, None, f"broker {each.broker} does not know yet what it leads")
            self._add(found, each, effect.topics)
        return OffsetsRead(effect.id, found)

    def _add(
        self, found: dict[str, dict[str, dict[int, CommittedOffset]]], coordinator: Coordinator, names: tuple[str, ...]
    ) -> None:
        groups = self._cluster.groups
        for name in names:
            for group, offsets in groups.committed.get(name, {}).items():
                if groups.coordinator(group) is self._cluster.agents[coordinator.broker]:
                    read = {number: CommittedOffset(each.offset) for number, each in offsets.items()}
                    found.setdefault(name, {})[group] = read

    def _commit(self, effect: CommitOffsets) -> OffsetsCommitted:
        problems: dict[str, dict[str, str]] = {}
        for each in effect.groups:
            for name, problem in self._commit_one(each).items():
                problems.setdefault(name, {})[each.group] = problem
        return OffsetsCommitted(effect.id, problems)

    def _commit_one(self, commit: GroupCommit) -> Mapping[str, str]:
        groups, now_ms = self._cluster.groups, self._cluster.world.now_ms
        agent = groups.coordinator(commit.group)
        if agent is None or agent.id != commit.endpoint.port - 9092 or self._unreachable(agent.id):
            return dict.fromkeys(commit.topics, "its coordinator does not answer")
        problems: dict[str, str] = {}
        for name, offsets in commit.topics.items():
            known = groups.committed.get(name, {}).get(commit.group, {})
            missing = {n: Committed(each.offset, now_ms) for n, each in offsets.items() if n not in known}
            if missing and commit.group in groups.with_members:
                problems[name] = HAS_MEMBERS
            elif missing and not shows(agent, name):
                problems[name] = UNKNOWN_TOPIC
            elif missing:
                groups.committed.setdefault(name, {})[commit.group] = {**known, **missing}
        return problems


def _unanswered(effect: ReadOffsets | CommitOffsets) -> OffsetsRead | OffsetsCommitted:
    """No answer in time: of a commit nobody knows whether it was taken."""
    if isinstance(effect, ReadOffsets):
        return OffsetsRead(effect.id, None, "no answer in time")
    problems: dict[str, dict[str, str]] = {}
    for each in effect.groups:
        for name in each.topics:
            problems.setdefault(name, {})[each.group] = "no answer in time"
    return OffsetsCommitted(effect.id, problems)
