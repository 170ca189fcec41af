"""Reads the znode tree in a few bulk reads. A znode that cannot be understood becomes a problem."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

from lethe.adapters.debts import read_debts
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import Broker, BrokerId, LeaderAndIsr, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    ReadOutcome,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    TrashPhase,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_trash,
)
from lethe.survey.views import Problem, TopicTree, ZooKeeperTree
from lethe.survey.znodes import ZnodeUnreadable, broker_of, children_of, data_of, reassignment_of, state_of, topic_of

T = TypeVar("T")


class TopicNames(NamedTuple):
    """Topics that exist, are marked, have a configuration. They are read again at the end, to detect changes."""

    topics: tuple[str, ...]
    marked: tuple[str, ...]
    configured: tuple[str, ...]

    def moved_since(self, earlier: TopicNames) -> set[str]:
        """Return the topics with an entry that was added or removed since `earlier`."""
        return {
            name for then, now in zip(earlier, self, strict=True) for name in frozenset(then).symmetric_difference(now)
        }


_NAMES = (
    GetChildren(paths.BROKER_TOPICS),
    GetChildren(paths.DELETE_TOPICS),
    GetChildren(paths.config_topics()),
)


@dataclass(slots=True)
class ZnodeDecoder:
    """Decodes outcomes and collects problems."""

    problems: list[Problem] = field(default_factory=list)

    def noted(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; None where it raises, which becomes a problem."""
        try:
            return read()
        except (MalformedZnode, ZnodeUnreadable) as unread:
            self.problems.append(Problem(unread.path, unread.reason))
            return None

    def children(self, path: str, outcome: ReadOutcome) -> tuple[str, ...] | None:
        """Return the children; None where the znode does not exist or is unreadable."""
        return self.noted(lambda: children_of(outcome, path))

    def decoded(self, path: str, outcome: ReadOutcome, decode: Callable[[Data], T]) -> T | None:
        """Return the decoded data; None where the znode does not exist or is unreadable."""
        data = self.noted(lambda: data_of(outcome, path))
        return None if data is None else self.noted(lambda: decode(data))

    def numbers(self, path: str, names: Sequence[str], what: str) -> tuple[int, ...]:
        """Return the numeric children, in order; any other is a problem."""
        found = []
        for name in names:
            number = paths.broker_named(name)
            if number is None:
                self.problems.append(Problem(f"{path}/{name}", f"its name is no {what}"))
            else:
                found.append(int(number))
        return tuple(sorted(found))


async def read_names(session: ZooKeeperSession) -> TopicNames:
    """Return the three lists as they are now, in one read. A list that cannot be read is empty."""
    outcomes = await session.read(_NAMES)
    topics, marked, configured = (outcome.names if isinstance(outcome, Children) else () for outcome in outcomes)
    return TopicNames(topics, marked, configured)


async def read_cluster_id(session: ZooKeeperSession) -> str | None:
    """Return the cluster id; None where there is no readable one."""
    (outcome,) = await session.read([GetData(paths.CLUSTER_ID)])
    return ZnodeDecoder().decoded(paths.CLUSTER_ID, outcome, lambda found: decode_cluster_id(found.data))


async def read_hosts(
    session: ZooKeeperSession, topics: Sequence[str]
) -> tuple[tuple[BrokerId, ...], tuple[Problem, ...]]:
    """Return the brokers with replicas of these topics, by id, and the topics that cannot be read or understood, each
    with what follows from that."""
    outcomes = await session.read([GetData(paths.topic(name)) for name in topics]) if topics else ()
    reader = ZnodeDecoder()
    znodes = (reader.noted(partial(topic_of, found, name)) for name, found in zip(topics, outcomes, strict=True))
    hosts: set[int] = set()
    for znode in znodes:
        for assignment in () if znode is None else znode.assignments.values():
            hosts.update(assignment.replicas)
    unread = (
        Problem(where, f"{what}; a broker that only this topic names is not known") for where, what in reader.problems
    )
    return tuple(BrokerId(broker) for broker in sorted(hosts)), tuple(unread)


async def read_tree(
    session: ZooKeeperSession, topics: Collection[str] | None = None, *, with_times: bool = False
) -> tuple[ZooKeeperTree, TopicNames]:
    """Return the tree, and the lists as of the start. With `topics`, only these are read below the lists, and what is
    unreadable of other topics' debts and trash is no problem. `with_times` also reads when topics and markers were
    created, one request each. Raises SessionLost only."""
    reader = ZnodeDecoder()
    singles = (
        GetChildren(paths.BROKER_IDS),
        GetData(paths.CONTROLLER),
        GetData(paths.CONTROLLER_EPOCH),
        GetData(paths.CLUSTER_ID),
        GetData(paths.REASSIGN_PARTITIONS),
        GetChildren(paths.trash()),
    )
    outcomes = await session.read((*_NAMES, *singles))
    lists = [reader.children(read.path, outcome) for read, outcome in zip(_NAMES, outcomes[:3], strict=True)]
    names = TopicNames(lists[0] or (), lists[1] or (), lists[2] or ())
    ids, controller, epoch, cluster, reassignment, trash = outcomes[3:]
    broker_names = reader.children(paths.BROKER_IDS, ids)
    for path, listed in ((paths.BROKER_TOPICS, lists[0]), (paths.BROKER_IDS, broker_names)):
        # Without these lists, absence cannot be concluded.
        if listed is None and all(problem.where != path for problem in reader.problems):
            reader.problems.append(
                Problem(path, "there is no Kafka cluster here; is the chroot the one of zookeeper.connect?")
            )
    wanted = names.topics
    if topics is not None:
        # Without a list, the named topics can still be read.
        all_names = names.topics if lists[0] is not None else tuple(sorted(topics))
        wanted = tuple(name for name in all_names if name in topics)
    trees = await _topics(session, reader, wanted)
    created = await _created(session, [paths.topic(name) for name in wanted] if with_times else ())
    marked = await _created(session, [paths.delete_topic(name) for name in names.marked] if with_times else ())
    debts = await read_debts(session, topics)
    reader.problems.extend(Problem(unseen.path, unseen.reason) for unseen in debts.unseen)
    trashed, unreadable_trash = await _trashed(session, reader, reader.children(paths.trash(), trash) or (), topics)
    tree = ZooKeeperTree(
        topics={
            name: replace(topic, created_at_ms=created.get(paths.topic(name))) if with_times else topic
            for name, topic in zip(wanted, trees, strict=True)
            if topic is not None
        },
        marked=names.marked,
        marked_at_ms={name: marked[path] for name in names.marked if (path := paths.delete_topic(name)) in marked},
        configured=names.configured,
        reassigning=_reassigning(reader, reassignment),
        brokers=await _brokers(session, reader, broker_names or ()),
        controller=reader.decoded(paths.CONTROLLER, controller, lambda found: decode_controller(found.data)),
        controller_epoch=reader.decoded(
            paths.CONTROLLER_EPOCH, epoch, lambda found: int(decode_controller_epoch(found.data))
        ),
        cluster_id=reader.decoded(paths.CLUSTER_ID, cluster, lambda found: decode_cluster_id(found.data)),
        debts=debts.debts,
        trashed=trashed,
        unreadable_trash=unreadable_trash,
        problems=tuple(reader.problems),
    )
    return tree, names


async def _trashed(
    session: ZooKeeperSession, reader: ZnodeDecoder, names: Sequence[str], topics: Collection[str] | None
) -> tuple[dict[str, TopicId], dict[str, str]]:
    """Return those of these names whose records are kept, with the ids of their topics; and why the entries of others
    cannot be understood, which are problems where their topics are asked about.

    In every phase but TRASHED the topic itself is there. If it is gone, another controller, such as one of Kafka's, has
    deleted it: the entry keeps nothing."""
    outcomes = await session.read([GetData(paths.trashed(name)) for name in names]) if names else ()
    kept: dict[str, TopicId] = {}
    unreadable: dict[str, str] = {}
    for name, outcome in zip(names, outcomes, strict=True):
        try:
            found = data_of(outcome, paths.trashed(name))
            entry = None if found is None else decode_trash(name, found.data)
        except (MalformedZnode, ZnodeUnreadable) as problem:
            unreadable[name] = str(problem)
            if topics is None or name in topics:
                reader.problems.append(Problem(problem.path, problem.reason))
            continue
        if entry is not None and entry.phase is TrashPhase.TRASHED:
            kept[name] = entry.topic_id
    return kept, unreadable


async def _created(session: ZooKeeperSession, znodes: Sequence[str]) -> dict[str, int]:
    """Return when these znodes were created; missing ones, and those without a time, are left out."""
    outcomes = await session.read([Exists(path) for path in znodes]) if znodes else ()
    return {
        path: found.created_at_ms
        for path, found in zip(znodes, outcomes, strict=True)
        if isinstance(found, Present) and found.created_at_ms
    }


def _reassigning(reader: ZnodeDecoder, outcome: ReadOutcome) -> Mapping[TopicPartition, tuple[int, ...]]:
    return reader.noted(lambda: reassignment_of(outcome)) or {}


async def _brokers(session: ZooKeeperSession, reader: ZnodeDecoder, names: Sequence[str]) -> tuple[Broker, ...]:
    ids = reader.numbers(paths.BROKER_IDS, names, "broker id")
    outcomes = await session.read([GetData(paths.broker_id(broker)) for broker in ids])
    found = []
    for broker, outcome in zip(ids, outcomes, strict=True):
        decoded = reader.noted(partial(broker_of, outcome, broker))
        if decoded is not None:
            found.append(decoded)
    return tuple(found)


async def _topics(session: ZooKeeperSession, reader: ZnodeDecoder, names: Sequence[str]) -> list[TopicTree | None]:
    """Return the trees in the order of the names; None for a topic that was deleted meanwhile."""
    reads = [read for name in names for read in (GetData(paths.topic(name)), GetChildren(paths.topic_partitions(name)))]
    outcomes = await session.read(reads)
    found: list[TopicTree | None] = []
    for name, data, children in zip(names, outcomes[::2], outcomes[1::2], strict=True):
        if is_absent(data):
            found.append(None)
            continue
        znode = reader.noted(partial(topic_of, data, name))
        path = paths.topic_partitions(name)
        below = reader.children(path, children)
        found.append(
            TopicTree(
                name,
                None if znode is None else znode.topic_id,
                None if znode is None else znode.assignments,
                None if below is None else reader.numbers(path, below, "partition"),
            )
        )
    return await _with_states(session, reader, found)


async def _with_states(
    session: ZooKeeperSession, reader: ZnodeDecoder, topics: Sequence[TopicTree | None]
) -> list[TopicTree | None]:
    wanted = [TopicPartition(t.name, p) for t in topics if t is not None for p in t.partition_znodes or ()]
    outcomes = await session.read([GetData(paths.partition_state(*partition)) for partition in wanted])
    states: dict[str, dict[int, LeaderAndIsr | None]] = {}
    for partition, outcome in zip(wanted, outcomes, strict=True):
        if not is_absent(outcome):
            states.setdefault(partition.topic, {})[partition.partition] = reader.noted(
                partial(state_of, outcome, partition)
            )
    return [
        None
        if topic is None
        else TopicTree(
            topic.name, topic.topic_id, topic.assignments, topic.partition_znodes, states.get(topic.name, {})
        )
        for topic in topics
    ]
