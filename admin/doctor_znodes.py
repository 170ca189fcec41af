"""Reads what `lethe doctor` looks at and the survey does not: requests, notifications, ACLs, throttles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, Exists, GetChildren, GetData, Present
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    MalformedZnode,
    OfflineReplicas,
    decode_config,
    decode_config_change,
    decode_deletion_marker,
)
from lethe.survey.views import Problem
from lethe.survey.znodes import data_of
from lethe.survey.zookeeper import ZnodeDecoder

THROTTLES: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings of a topic that a reassignment makes and its end should remove."""


REQUESTS_TO_LETHE: Final = (paths.REQUESTS, paths.FORGET)
"""Parents of what commands request of Lethe's controller."""


class PendingZnode(NamedTuple):
    """A request, a notification or a marker, and the zxid of its last write; -1 for one that does not exist."""

    path: str
    mzxid: int


@dataclass(frozen=True, slots=True)
class OtherZnodes:
    """Znodes beside those of a survey."""

    acl_topics: tuple[str, ...] = ()
    """Topics with ACLs for exactly their name."""
    configured_brokers: tuple[int, ...] = ()
    controllers: frozenset[int] | None = frozenset()
    """Ids of Lethe's controllers, running or advertised; None: not seen."""
    throttled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Existing topics with throttles, and the names of these settings."""
    orders: Mapping[str, str] = field(default_factory=dict)
    """Marked topics whose marker has an order that Kafka's controller ignores, and which."""
    bad_config_changes: tuple[str, ...] = ()
    """Notifications that brokers cannot understand."""
    problems: tuple[Problem, ...] = ()


async def read_pending(session: ZooKeeperSession) -> frozenset[PendingZnode]:
    """Return what a controller takes away within moments, as it is now; unreadable parts are left out, since
    `read_others` and the survey name them. Raises SessionLost."""
    singles = (paths.CONTROLLER, paths.PREFERRED_REPLICA_ELECTION, paths.REASSIGN_PARTITIONS)
    parents = (
        paths.ISR_CHANGE_NOTIFICATION,
        paths.LOG_DIR_EVENT_NOTIFICATION,
        paths.DELETE_TOPICS,
        *REQUESTS_TO_LETHE,
    )
    outcomes = await session.read([*map(GetData, singles), *map(GetChildren, parents)])
    children = [
        f"{parent}/{name}"
        for parent, found in zip(parents, outcomes[len(singles) :], strict=True)
        for name in (found.names if isinstance(found, Children) else ())
    ]
    below = await session.read(list(map(Exists, children))) if children else ()
    pending = {
        PendingZnode(path, found.stat.mzxid if isinstance(found, Data) else -1)
        for path, found in zip(singles, outcomes[: len(singles)], strict=True)
    }
    return frozenset(
        pending
        | {
            PendingZnode(path, found.stat.mzxid)
            for path, found in zip(children, below, strict=True)
            if isinstance(found, Present)
        }
    )


async def read_others(session: ZooKeeperSession, topics: Sequence[str], marked: Sequence[str]) -> OtherZnodes:
    """Return these znodes. What cannot be read is among the problems. Raises SessionLost only."""
    reader = ZnodeDecoder()
    parents = (
        paths.ACL_TOPICS,
        paths.CONFIG_BROKERS,
        paths.CONFIG_CHANGES,
        paths.CONTROLLERS,
        paths.INSTANCES,
        paths.ISR_CHANGE_NOTIFICATION,
        paths.LOG_DIR_EVENT_NOTIFICATION,
        *REQUESTS_TO_LETHE,
    )
    outcomes = await session.read([*map(GetChildren, parents), GetData(paths.PREFERRED_REPLICA_ELECTION)])
    acls, brokers, changes, advertised, running, *_ = (
        reader.children(path, found) or () for path, found in zip(parents, outcomes, strict=False)
    )
    unread = {problem.where for problem in reader.problems}
    ids = [number for name in (*advertised, *running) if (number := paths.broker_named(name)) is not None]
    reader.noted(lambda: data_of(outcomes[-1], paths.PREFERRED_REPLICA_ELECTION))
    numbers = [name for name in brokers if name != paths.DEFAULT_ENTITY]
    return OtherZnodes(
        acl_topics=tuple(name for name in acls if name != "*"),
        configured_brokers=reader.numbers(paths.CONFIG_BROKERS, numbers, "broker id"),
        throttled=await _throttled(session, reader, topics),
        orders=await _orders(session, reader, marked),
        bad_config_changes=await _bad_changes(session, reader, changes),
        controllers=None if unread & {paths.CONTROLLERS, paths.INSTANCES} else frozenset(map(int, ids)),
        problems=tuple(reader.problems),
    )


async def _throttled(
    session: ZooKeeperSession, reader: ZnodeDecoder, topics: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    znodes = [paths.config_topic(name) for name in topics]
    outcomes = await session.read(list(map(GetData, znodes))) if znodes else ()
    found = {}
    for name, path, outcome in zip(topics, znodes, outcomes, strict=True):
        config = reader.decoded(path, outcome, lambda read, path=path: decode_config(path, read.data))  # type: ignore[misc]
        if keys := tuple(key for key in THROTTLES if (config or {}).get(key)):
            found[name] = keys
    return found


async def _orders(session: ZooKeeperSession, reader: ZnodeDecoder, marked: Sequence[str]) -> dict[str, str]:
    znodes = [paths.delete_topic(name) for name in marked]
    outcomes = await session.read(list(map(GetData, znodes))) if znodes else ()
    found = {}
    for name, path, outcome in zip(marked, znodes, outcomes, strict=True):
        orders = reader.decoded(path, outcome, lambda read: decode_deletion_marker(read.data))
        if orders is not None and (texts := tuple(_order_texts(orders))):
            found[name] = "; ".join(texts)
    return found


def _order_texts(orders: DeletionOrders) -> Iterator[str]:
    if orders.unreadable:
        yield "delete it although its znode cannot be read"
    if orders.offline_replicas is OfflineReplicas.OWE:
        yield "do not wait for absent brokers"
    if orders.grace_ms:
        yield "keep it in the trash first"
    if orders.topic_czxid is not None:
        yield "delete no later topic of this name"
    if orders.problem is not None:
        yield orders.problem


async def _bad_changes(session: ZooKeeperSession, reader: ZnodeDecoder, names: Sequence[str]) -> tuple[str, ...]:
    znodes = [f"{paths.CONFIG_CHANGES}/{name}" for name in names]
    outcomes = await session.read(list(map(GetData, znodes))) if znodes else ()
    bad = []
    for path, outcome in zip(znodes, outcomes, strict=True):
        data = reader.noted(lambda path=path, outcome=outcome: data_of(outcome, path))  # type: ignore[misc]
        try:
            if data is not None:
                decode_config_change(path, data.data)
        except MalformedZnode:
            bad.append(path)
    return tuple(bad)
