"""Topics as they are now, with the versions that a change of them is tied to, and such changes written.

A change is one multi per topic: the topic's znode, its settings and the notification of these, all or nothing. Where
something else changed the topic since it was read, it is read again, planned again and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.topic_changes import Replicas, config_operations, with_partitions
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Data,
    GetData,
    MultiDone,
    Operation,
    ReadFailed,
    ReadOutcome,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.znodes import MalformedZnode, TopicZnode, decode_config, decode_topic


@dataclass(frozen=True, slots=True)
class TopicNow:
    """A topic's own znodes as they were read. `config_version` is None where there are no settings."""

    name: str
    data: bytes | None
    version: int
    znode: TopicZnode
    config: dict[str, str]
    config_version: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """What a topic shall become: partitions more, and all its settings anew (None: they stay)."""

    now: TopicNow
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
            operations.extend(config_operations(self.name, self.config, self.now.config_version))
        return tuple(operations)


Plan = Callable[[TopicNow], Change]
"""Says what a topic shall become; raises ValueError where it cannot, in words that name the topic."""


async def read_topics(session: ZooKeeperSession, names: Sequence[str]) -> list[TopicNow]:
    """The topics in the order of the names. Raises ValueError where one is not there or cannot be understood."""
    reads = [read for name in names for read in (GetData(paths.topic(name)), GetData(paths.config_topic(name)))]
    outcomes = await session.read(reads)
    return [
        _topic_now(name, topic, config)
        for name, topic, config in zip(names, outcomes[::2], outcomes[1::2], strict=True)
    ]


async def change_topics(
    session: ZooKeeperSession, changes: Sequence[Change], plan: Plan
) -> tuple[dict[str, Change], list[Outcome]]:
    """Writes the changes; what was changed in the end, by topic, and what became of each, in the order given.

    `plan` is asked again about a topic that was found changed. Raises NoCluster where a KRaft controller has the
    cluster.
    """
    await demand_zookeeper_controller(session)
    await ensure_roots(session, (paths.config_topics(), paths.CONFIG_CHANGES))
    written: dict[str, Change] = {}
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
) -> list[Change]:
    planned = []
    for name in names:
        try:
            (now,) = await read_topics(session, [name])
            change = plan(now)
        except ValueError as problem:
            ended[name] = Outcome(name, f"{problem} (it was changed by somebody else at the same time)")
            continue
        if change.operations:
            planned.append(change)
    return planned


def _topic_now(name: str, topic: ReadOutcome, config: ReadOutcome) -> TopicNow:
    match topic:
        case Data(data=data, stat=stat):
            pass
        case ReadFailed(error=ZkError.NO_NODE):
            raise ValueError(f"topic {name!r} does not exist")
        case _:
            raise MalformedZnode(paths.topic(name), f"ZooKeeper does not give its data ({topic})")
    znode = decode_topic(name, data)
    match config:
        case Data():
            settings = decode_config(paths.config_topic(name), config.data)
            return TopicNow(name, data, stat.version, znode, settings, config.stat.version)
        case ReadFailed(error=ZkError.NO_NODE):
            return TopicNow(name, data, stat.version, znode, {}, None)
        case _:
            raise MalformedZnode(paths.config_topic(name), f"ZooKeeper does not give its data ({config})")
