"""How far the deletion of topics is, seen from outside: ZooKeeper, every broker's metadata cache, every broker's logs.

Only the incarnation that was there when the deletion was asked for counts: a topic of the same name that was created
since is told apart by its znode's czxid and its topic id. Brokers do not tell the ids of their logs, so once there is a
new incarnation its logs say nothing about the old one's and are not counted.

A directory that is renamed for removal is no log any more, so "stored" ends with the rename: what is seen here is that
a topic is *deleted*, not that its bytes are *reclaimed*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from adapters.topic_admin import live_brokers
from adapters.zookeeper.interface import ZooKeeperSession
from protocol.vocabulary import Broker, TopicId
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Data, Exists, GetData, Present
from protocol.zookeeper.znodes import MalformedZnode, decode_topic


@dataclass(frozen=True, slots=True)
class Target:
    """A topic whose deletion is watched. `czxid` names its znode's incarnation; None where only a mark was left."""

    name: str
    czxid: int | None
    topic_id: TopicId | None
    brokers: tuple[int, ...]
    """Those that have a replica, sorted."""
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """What one broker says of the topics it was asked about: those in its metadata cache with their ids (None where
    it tells none), and those of which it has logs."""

    cached: Mapping[str, TopicId | None]
    stored: frozenset[str]
    failed_log_dirs: tuple[str, ...] = ()
    """Its log directories that have failed: it cannot tell what lies in them."""


class FailedLogDir(NamedTuple):
    """A log directory that its broker can no longer use."""

    broker: int
    path: str


AskBroker = Callable[[Broker, Sequence[Target]], Awaitable[BrokerView | None]]
"""Asks one broker about topics; None where it did not answer."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What there still is of one topic."""

    name: str
    is_marked: bool
    has_znode: bool
    cached_by: tuple[int, ...] = ()
    stored_by: tuple[int, ...] = ()
    silent: tuple[int, ...] = field(default=())
    """Registered brokers that did not answer, so that nobody knows."""
    absent: tuple[int, ...] = field(default=())
    """Brokers with replicas that are not registered: the controller waits for them."""
    failed_log_dirs: tuple[FailedLogDir, ...] = field(default=())
    """Those of brokers with replicas. Whether one of the topic's lies there is not known: no broker tells."""

    @property
    def is_done(self) -> bool:
        """Nothing of the topic is left, as far as ZooKeeper and every registered broker know."""
        return not (self.is_marked or self.has_znode or self.cached_by or self.stored_by or self.silent)

    @property
    def is_given_up(self) -> bool:
        """The mark is gone and the topic is not: a controller with delete.topic.enable=false drops marks."""
        return self.has_znode and not self.is_marked

    @property
    def waits_for(self) -> str:
        """What it waits for, in words; empty where it is done."""
        parts = []
        if self.has_znode and self.absent:
            parts.append(f"{_brokers(self.absent)} to come back")
        if self.has_znode:
            parts += [
                f"broker {failed.broker} whose log directory {failed.path} has failed (if a replica lies there, "
                "repair it and restart the broker)"
                for failed in self.failed_log_dirs
            ]
        if not parts and (self.has_znode or self.is_marked):
            parts.append("the controller")
        if self.cached_by:
            parts.append(f"the metadata cache of {_brokers(self.cached_by)}")
        if self.stored_by:
            parts.append(f"the logs of {_brokers(self.stored_by)}")
        if self.silent:
            parts.append(f"an answer of {_brokers(self.silent)}")
        return ", ".join(parts)


async def targets(session: ZooKeeperSession, names: Sequence[str]) -> list[Target]:
    """The topics as they are now, in the order of the names."""
    outcomes = await session.read([GetData(paths.topic(name)) for name in names])
    found = []
    for name, outcome in zip(names, outcomes, strict=True):
        if not isinstance(outcome, Data):
            found.append(Target(name, None, None, (), ()))
            continue
        try:
            znode = decode_topic(name, outcome.data)
        except MalformedZnode:  # it can be deleted none the less; which brokers have replicas is unknown
            found.append(Target(name, outcome.stat.czxid, None, (), ()))
            continue
        brokers = {broker for assignment in znode.assignments.values() for broker in assignment.replicas}
        found.append(Target(name, outcome.stat.czxid, znode.topic_id, tuple(sorted(brokers)), tuple(znode.assignments)))
    return found


async def look(session: ZooKeeperSession, ask: AskBroker, wanted: Sequence[Target]) -> list[Progress]:
    """What is left of each topic now, in the order of `wanted`. Brokers are asked at the same time.

    Marks are read before topics: a controller removes the mark last, so "no mark, but a topic" is then never the
    picture of a deletion that was just completed.
    """
    reads = [read for t in wanted for read in (Exists(paths.delete_topic(t.name)), Exists(paths.topic(t.name)))]
    outcomes = await session.read(reads)
    brokers, _ = await live_brokers(session)
    registered = {int(broker.id) for broker in brokers}
    views = await asyncio.gather(*(ask(broker, wanted) for broker in brokers))
    by_broker = {int(broker.id): view for broker, view in zip(brokers, views, strict=True)}
    silent = tuple(broker for broker, view in by_broker.items() if view is None)
    progress = []
    for target, mark, topic in zip(wanted, outcomes[::2], outcomes[1::2], strict=True):
        czxid = topic.stat.czxid if isinstance(topic, Present) else None
        is_recreated = czxid is not None and czxid != target.czxid
        cached = [b for b, view in by_broker.items() if view is not None and _caches(view, target, is_recreated)]
        stored = [b for b, view in by_broker.items() if view and not is_recreated and target.name in view.stored]
        failed = [
            FailedLogDir(broker, path)
            for broker, view in by_broker.items()
            if view is not None and broker in target.brokers
            for path in view.failed_log_dirs
        ]
        progress.append(
            Progress(
                target.name,
                is_marked=isinstance(mark, Present),
                has_znode=czxid is not None and not is_recreated,
                cached_by=tuple(cached),
                stored_by=tuple(stored),
                silent=silent,
                absent=tuple(broker for broker in target.brokers if broker not in registered),
                failed_log_dirs=tuple(failed),
            )
        )
    return progress


def _caches(view: BrokerView, target: Target, is_recreated: bool) -> bool:
    if target.name not in view.cached:
        return False
    cached_id = view.cached[target.name]
    if cached_id is None or target.topic_id is None:
        return not is_recreated
    return cached_id == target.topic_id


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
