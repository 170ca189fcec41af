"""Reads and writes topics in ZooKeeper for commands: list, describe, create, mark for deletion.

No controller is asked. An unreadable znode is reported with its topic and hides no other topic. Under a KRaft
controller writes are refused, because no controller acts on ZooKeeper then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import Outcome, outcome_of
from lethe.admin.topic_plans import (
    PartitionDescription,
    TopicDescription,
    TopicPlan,
    creation_operations,
    creation_problem,
    deletion_operation,
    deletion_problem,
)
from lethe.protocol.vocabulary import Broker, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Exists,
    GetChildren,
    GetData,
    MultiFailed,
    MultiOutcome,
    ReadOutcome,
    Stat,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import (
    ControllerZnode,
    MalformedZnode,
    TopicZnode,
    decode_config,
    decode_controller,
)
from lethe.survey.znodes import (
    ZnodeUnreadable,
    broker_of,
    children_of,
    data_of,
    read_data,
    reassignment_of,
    stat_of,
    state_of,
    topic_of,
)

_NO_TOPIC: Final = TopicZnode({})


class NoCluster(Exception):
    """There is no Kafka cluster in ZooKeeper mode here; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class ListedTopics:
    """All topics, and the marked ones, which may be gone already; sorted."""

    names: tuple[str, ...]
    marked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActiveController:
    """Content and Stat of `/controller`."""

    znode: ControllerZnode
    stat: Stat

    @property
    def is_kraft(self) -> bool:
        """True if a KRaft controller created the znode: persistent, or with a KRaft epoch."""
        return self.stat.ephemeral_owner == 0 or self.znode.is_kraft


async def list_topics(session: ZooKeeperSession) -> ListedTopics:
    """Return all topics and marks. Raises NoCluster where there is no cluster."""
    ids, topics, marks = await session.read(
        [Exists(paths.BROKER_IDS), GetChildren(paths.BROKER_TOPICS), GetChildren(paths.DELETE_TOPICS)]
    )
    require_cluster(ids)
    return ListedTopics(children_of(topics, paths.BROKER_TOPICS) or (), children_of(marks, paths.DELETE_TOPICS) or ())


def require_cluster(broker_ids: ReadOutcome) -> None:
    """Raise NoCluster if the outcome of an Exists says that no broker has ever registered. Raises ZnodeUnreadable."""
    if stat_of(broker_ids, paths.BROKER_IDS) is None:
        raise NoCluster(
            f"ZooKeeper has no {paths.BROKER_IDS} here: no broker has ever registered. Is the path after the hosts "
            "(the chroot) the one of the brokers' zookeeper.connect?"
        )


async def live_brokers(session: ZooKeeperSession) -> tuple[tuple[Broker, ...], tuple[MalformedZnode, ...]]:
    """Return the registered brokers by id, and the unreadable registrations."""
    (children,) = await session.read([GetChildren(paths.BROKER_IDS)])
    named = (paths.broker_named(name) for name in children_of(children, paths.BROKER_IDS) or ())
    ids = sorted(broker for broker in named if broker is not None)
    brokers, malformed = [], []
    for broker, outcome in zip(ids, await session.read([GetData(paths.broker_id(b)) for b in ids]), strict=True):
        try:
            brokers.append(broker_of(outcome, broker))
        except MalformedZnode as problem:
            malformed.append(problem)
    return tuple(broker for broker in brokers if broker is not None), tuple(malformed)


async def active_controller(session: ZooKeeperSession) -> ActiveController | None:
    """Return the content of `/controller`; None where there is no controller. Raises MalformedZnode."""
    data = await read_data(session, paths.CONTROLLER)
    return None if data is None else ActiveController(decode_controller(data.data), data.stat)


async def describe(session: ZooKeeperSession, names: Sequence[str], marked: Iterable[str]) -> list[TopicDescription]:
    """Return the topics as in their znodes, in the order of the names, without those that were deleted meanwhile."""
    to_be_deleted = set(marked)
    reads = [read for name in names for read in (GetData(paths.topic(name)), GetData(paths.config_topic(name)))]
    outcomes = await session.read(reads)
    found = []
    for name, topic, config in zip(names, outcomes[::2], outcomes[1::2], strict=True):
        if not is_absent(topic):
            found.append(_found(name, topic, config))
    partitions = [(topic.name, p) for topic in found for p in topic.znode.assignments]
    requests = await _requests(session) if partitions else ReassignmentRequests({})
    states = await session.read([GetData(paths.partition_state(*partition)) for partition in partitions])
    by_partition = dict(zip(partitions, states, strict=True))
    return [topic.describe(by_partition, requests, is_marked=topic.name in to_be_deleted) for topic in found]


async def read_states(
    session: ZooKeeperSession, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr | MalformedZnode]:
    """Return the leader and ISR of the partitions that have a state znode, or why that cannot be understood."""
    outcomes = await session.read([GetData(paths.partition_state(*partition)) for partition in partitions])
    found: dict[TopicPartition, LeaderAndIsr | MalformedZnode] = {}
    for partition, outcome in zip(partitions, outcomes, strict=True):
        if not is_absent(outcome):
            try:
                if (state := state_of(outcome, partition)) is not None:
                    found[partition] = state
            except MalformedZnode as problem:
                found[partition] = problem
    return found


async def requested_reassignments(session: ZooKeeperSession) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Return the content of `/admin/reassign_partitions`, empty where it does not exist. Raises MalformedZnode."""
    (outcome,) = await session.read([GetData(paths.REASSIGN_PARTITIONS)])
    return reassignment_of(outcome)


class ReassigningTopics(NamedTuple):
    """Topics with partitions in a running or requested reassignment, and those for which that is unseen, with the
    reason. Topics in neither are not being reassigned."""

    names: tuple[str, ...]
    unseen: Mapping[str, str]


async def being_reassigned(session: ZooKeeperSession, names: Sequence[str]) -> ReassigningTopics:
    """Return which of the topics are being reassigned."""
    requests = await _requests(session)
    requested = {partition.topic for partition in requests.targets}
    found, unseen = [], {}
    for name, outcome in zip(names, await session.read([GetData(paths.topic(name)) for name in names]), strict=True):
        unread = requests.unseen
        try:
            znode = topic_of(outcome, name) or _NO_TOPIC
        except (MalformedZnode, ZnodeUnreadable) as problem:
            znode, unread = _NO_TOPIC, str(problem)
        if name in requested or any(assignment.is_being_reassigned for assignment in znode.assignments.values()):
            found.append(name)
        elif unread is not None:
            unseen[name] = unread
    return ReassigningTopics(tuple(found), unseen)


class ReassignmentRequests(NamedTuple):
    """Content of `/admin/reassign_partitions`. `unseen` says why it cannot be read or understood; then there are no
    targets."""

    targets: Mapping[TopicPartition, tuple[int, ...]]
    unseen: str | None = None


async def _requests(session: ZooKeeperSession) -> ReassignmentRequests:
    try:
        return ReassignmentRequests(await requested_reassignments(session))
    except (MalformedZnode, ZnodeUnreadable) as problem:
        return ReassignmentRequests({}, str(problem))


async def create_topics(session: ZooKeeperSession, plans: Sequence[TopicPlan]) -> list[Outcome]:
    """Create each topic that is possible, pipelined, and return the outcomes in the order of the plans.

    Raises NoCluster where there is no cluster, or under a KRaft controller.
    """
    there = await list_topics(session)
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.BROKER_TOPICS, paths.config_topics()))
    known = list(there.names)
    problems: list[str | None] = []
    for plan in plans:
        problems.append(creation_problem(plan, topics=known, marked=there.marked))
        if problems[-1] is None:
            known.append(plan.name)
    able = [plan for plan, problem in zip(plans, problems, strict=True) if problem is None]
    trashed = await _in_trash(session, [plan.name for plan in able])
    problems = [problem or trashed.get(plan.name) for plan, problem in zip(plans, problems, strict=True)]
    able = [plan for plan in able if plan.name not in trashed]
    configs = await session.read([Exists(paths.config_topic(plan.name)) for plan in able])
    multis = [
        creation_operations(plan, config_exists=stat_of(config, paths.config_topic(plan.name)) is not None)
        for plan, config in zip(able, configs, strict=True)
    ]
    done = iter(await session.multis(multis) if multis else ())
    return [
        Outcome(plan.name, problem) if problem is not None else _creation_outcome(plan.name, next(done))
        for plan, problem in zip(plans, problems, strict=True)
    ]


async def _in_trash(session: ZooKeeperSession, names: Sequence[str]) -> dict[str, str]:
    """Return why these names are not free: a topic of the name is in the trash."""
    outcomes = await session.read([Exists(paths.trashed(name)) for name in names]) if names else ()
    return {
        name: f"the name {name} is reserved by a topic in the trash: bring that back (lethe topics undelete {name}) "
        f"or delete it for good (lethe topics trash purge {name})"
        for name, outcome in zip(names, outcomes, strict=True)
        if stat_of(outcome, paths.trashed(name)) is not None
    }


async def mark_for_deletion(session: ZooKeeperSession, names: Sequence[str]) -> list[Outcome]:
    """Mark each topic for deletion, and return the outcomes in the order of the names.

    A topic that another client marks at the same time counts as marked. Raises NoCluster where there is no cluster, or
    under a KRaft controller.
    """
    there = await list_topics(session)
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.DELETE_TOPICS,))
    before = [
        Outcome(name, problem=deletion_problem(name, topics=there.names), was_done=name in there.marked)
        for name in names
    ]
    able = [outcome.name for outcome in before if outcome.problem is None and not outcome.was_done]
    multis = await session.multis([(deletion_operation(name),) for name in able]) if able else []
    after = {name: _marking_outcome(name, outcome) for name, outcome in zip(able, multis, strict=True)}
    return [after.get(outcome.name, outcome) for outcome in before]


class _Found(NamedTuple):
    """A topic's own znodes, before its partitions are read."""

    name: str
    znode: TopicZnode
    config: dict[str, str]
    znode_problem: MalformedZnode | ZnodeUnreadable | None
    config_problem: MalformedZnode | ZnodeUnreadable | None

    def describe(
        self,
        states: dict[tuple[str, int], ReadOutcome],
        requests: ReassignmentRequests,
        *,
        is_marked: bool,
    ) -> TopicDescription:
        problems = [problem for problem in (self.znode_problem, self.config_problem) if problem is not None]
        partitions = []
        for partition, assignment in self.znode.assignments.items():
            state = unseen = None
            try:
                state = state_of(states[self.name, partition], TopicPartition(self.name, partition))
            except (MalformedZnode, ZnodeUnreadable) as problem:
                unseen = str(problem)
                problems.append(problem)
            leader, epoch, isr = (None, -1, ()) if state is None else (state.leader, state.leader_epoch, state.isr)
            asked = requests.targets.get(TopicPartition(self.name, partition))
            partitions.append(PartitionDescription(partition, leader, epoch, isr, assignment, asked, unseen))
        return TopicDescription(
            self.name,
            self.znode.topic_id,
            is_marked,
            self.config,
            tuple(partitions),
            "; ".join(map(str, problems)) or None,
            requests.unseen,
            None if self.config_problem is None else str(self.config_problem),
            None if self.znode_problem is None else str(self.znode_problem),
            is_refused=any(isinstance(problem, ZnodeUnreadable) for problem in problems),
        )


def _found(name: str, topic: ReadOutcome, config: ReadOutcome) -> _Found:
    znode, overrides, path = _NO_TOPIC, dict[str, str](), paths.config_topic(name)
    znode_problem: MalformedZnode | ZnodeUnreadable | None = None
    config_problem: MalformedZnode | ZnodeUnreadable | None = None
    try:
        znode = topic_of(topic, name) or znode
    except (MalformedZnode, ZnodeUnreadable) as problem:
        znode_problem = problem
    try:
        settings = data_of(config, path)
        overrides = {} if settings is None else decode_config(path, settings.data)
    except (MalformedZnode, ZnodeUnreadable) as problem:
        config_problem = problem
    return _Found(name, znode, overrides, znode_problem, config_problem)


async def demand_zookeeper_controller(session: ZooKeeperSession) -> None:
    """Raise NoCluster under a KRaft controller."""
    controller = await active_controller(session)
    if controller is not None and controller.is_kraft:
        raise NoCluster(
            f"{paths.CONTROLLER} belongs to the KRaft controller {controller.znode.broker_id}: this cluster is being "
            "migrated (or has been), and no controller would act on what is written to ZooKeeper"
        )


def _creation_outcome(name: str, outcome: MultiOutcome) -> Outcome:
    if isinstance(outcome, MultiFailed) and outcome.error is ZkError.NODE_EXISTS:
        return Outcome(name, f"topic {name} was created by another process at the same time")
    return outcome_of(name, outcome, act=f"create topic {name}", done=f"topic {name} was created")


def _marking_outcome(name: str, outcome: MultiOutcome) -> Outcome:
    if isinstance(outcome, MultiFailed) and outcome.error is ZkError.NODE_EXISTS:
        return Outcome(name, was_done=True)
    act, done = f"mark topic {name} for deletion", f"topic {name} was marked for deletion"
    return outcome_of(name, outcome, act=act, done=done)
