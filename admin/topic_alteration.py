"""Reads topics with their versions, and writes changes that are conditional on these.

A change is one multi per topic: the topic's znode, its configuration and the notification, all or nothing. After a
conflicting write the topic is read, planned and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.topic_changes import (
    Replicas,
    assignment_problem,
    changed_config,
    expansion_problem,
    with_partitions,
)
from lethe.admin.topic_plans import unplaceable
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.controller.core.replica_assignment import BrokerRack, ReplicaAssignmentError, place_replicas
from lethe.protocol.counting import listed
from lethe.protocol.vocabulary import Broker
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import (
    GetData,
    MultiDone,
    Operation,
    ReadOutcome,
    SetData,
)
from lethe.protocol.zookeeper.znodes import TopicZnode, decode_config, decode_topic
from lethe.survey.znodes import ZnodeUnreadable, data_of


@dataclass(frozen=True, slots=True)
class CurrentTopicZnodes:
    """A topic's own znodes as they were read. `config_version` is None where there is no configuration."""

    name: str
    data: bytes | None
    version: int
    znode: TopicZnode
    config: dict[str, str]
    config_version: int | None


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The change of a topic: added partitions, and its whole new configuration (None: unchanged)."""

    now: CurrentTopicZnodes
    added: dict[int, Replicas]
    config: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return self.now.name

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Empty where nothing changes."""
        operations: list[Operation] = []
        if self.added:
            data = with_partitions(self.name, self.now.data, self.added)
            operations.append(SetData(paths.topic(self.name), data, self.now.version))
        if self.config is not None and self.config != self.now.config:
            operations.extend(config_operations(paths.config_topic(self.name), self.config, self.now.config_version))
        return tuple(operations)


Plan = Callable[[CurrentTopicZnodes], TopicChange]
"""Returns the change of a topic; raises ValueError, naming the topic, where it is impossible."""


async def read_topics(session: ZooKeeperSession, names: Sequence[str]) -> list[CurrentTopicZnodes]:
    """Return the topics in the order of the names. Raises ValueError for a missing or malformed one, and
    ZnodeUnreadable."""
    reads = [read for name in names for read in (GetData(paths.topic(name)), GetData(paths.config_topic(name)))]
    outcomes = await session.read(reads)
    return [
        _topic_now(name, topic, config)
        for name, topic, config in zip(names, outcomes[::2], outcomes[1::2], strict=True)
    ]


async def change_topics(
    session: ZooKeeperSession, changes: Sequence[TopicChange], plan: Plan
) -> tuple[dict[str, TopicChange], list[Outcome]]:
    """Write the changes. Return what was changed, by topic, and the outcomes in the given order.

    `plan` is called again for a topic that has changed since. Raises NoCluster under a KRaft controller.
    """
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.config_topics(), paths.CONFIG_CHANGES))
    written: dict[str, TopicChange] = {}
    ended: dict[str, Outcome] = {}
    pending = [change for change in changes if change.operations]
    for _ in range(MAX_ATTEMPTS):
        conflicts = []
        outcomes = await session.multis([change.operations for change in pending]) if pending else []
        for change, outcome in zip(pending, outcomes, strict=True):
            if is_conflict(outcome):
                conflicts.append(change.name)
                continue
            act, done = f"change topic {change.name}", f"topic {change.name} was changed"
            ended[change.name] = outcome_of(change.name, outcome, act=act, done=done)
            if isinstance(outcome, MultiDone):
                written[change.name] = change
        pending = await _planned_again(session, conflicts, plan, ended)
    for change in pending:
        ended[change.name] = given_up(change.name, f"topic {change.name}")
    return written, [ended.get(change.name, Outcome(change.name, was_done=True)) for change in changes]


async def _planned_again(
    session: ZooKeeperSession, names: Collection[str], plan: Plan, ended: dict[str, Outcome]
) -> list[TopicChange]:
    planned = []
    for name in names:
        try:
            (now,) = await read_topics(session, [name])
            change = plan(now)
        except (ValueError, ZnodeUnreadable) as problem:
            ended[name] = Outcome(name, f"{problem} (it was changed by another process at the same time)")
            continue
        if change.operations:
            planned.append(change)
    return planned


def _topic_now(name: str, topic: ReadOutcome, config: ReadOutcome) -> CurrentTopicZnodes:
    found = data_of(topic, paths.topic(name))
    if found is None:
        raise ValueError(f"topic {name!r} does not exist")
    znode = decode_topic(name, found.data)
    config_path = paths.config_topic(name)
    if (written := data_of(config, config_path)) is None:
        return CurrentTopicZnodes(name, found.data, found.stat.version, znode, {}, None)
    settings = decode_config(config_path, written.data)
    return CurrentTopicZnodes(name, found.data, found.stat.version, znode, settings, written.stat.version)


@dataclass(frozen=True, slots=True)
class TopicChangeRequest:
    """The options of the command, for each topic."""

    names: tuple[str, ...]
    partitions: int | None = None
    assignment: tuple[tuple[int, ...], ...] = ()
    config: dict[str, str] = field(default_factory=dict)
    delete_config: tuple[str, ...] = ()
    disable_rack_aware: bool = False


async def change_planner(
    session: ZooKeeperSession, wanted: TopicChangeRequest, warn: Callable[[str], None]
) -> Callable[[CurrentTopicZnodes], TopicChange]:
    """Return the plan for the options, with the present brokers, marks and reassignments."""
    there = await topic_znodes.list_topics(session)
    requested = await topic_znodes.requested_reassignments(session)
    brokers, malformed = await topic_znodes.live_brokers(session)
    if wanted.partitions is not None:
        for problem in malformed:
            warn(f"WARNING: {problem}; no replica is placed on that broker")
    marked = frozenset(there.marked)

    def plan(now: CurrentTopicZnodes) -> TopicChange:
        if now.name in marked:
            raise ValueError(f"topic {now.name} is marked for deletion: nothing of it can be changed any more")
        config = None
        if wanted.config or wanted.delete_config:
            config = changed_config(now.name, now.config, wanted.config, wanted.delete_config)
        if wanted.partitions is None:
            return TopicChange(now, {}, config)
        moving = [str(tp) for tp in requested if tp.topic == now.name]
        if moving:
            raise ValueError(
                f"the reassignment of {listed(moving, 5)} is requested in /admin/reassign_partitions, and no "
                f"partition can be added to topic {now.name} meanwhile: see `lethe partitions reassign --list`"
            )
        return TopicChange(now, _added(now, wanted, wanted.partitions, brokers), config)

    return plan


def _added(
    now: CurrentTopicZnodes, wanted: TopicChangeRequest, partitions: int, brokers: Sequence[Broker]
) -> dict[int, tuple[int, ...]]:
    """Return the new partitions. Raises ValueError where they are impossible."""
    problem = expansion_problem(now.name, now.znode, partitions)
    if problem is None and wanted.assignment:
        problem = assignment_problem(now.name, now.znode, wanted.assignment, [int(broker.id) for broker in brokers])
    if problem is not None:
        raise ValueError(problem)
    existing = len(now.znode.assignments)
    if wanted.assignment:
        return dict(enumerate(wanted.assignment[existing:], start=existing))
    racks = [BrokerRack(int(b.id), None if wanted.disable_rack_aware else b.rack) for b in brokers]
    first = now.znode.assignments[0].replicas
    start = next((place for place, broker in enumerate(racks) if broker.id >= first[0]), 0)
    try:
        placed = place_replicas(
            racks, partitions - existing, len(first), start_index=start, shift=start, first_partition=existing
        )
    except ReplicaAssignmentError as error:
        raise ValueError(unplaceable(now.name, error)) from error
    return dict(enumerate(placed, start=existing))
