"""Surveys of clusters in disorder, drawn from a seed: topics broken in every way, in few names, so that things meet."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from typing import Final

from lethe.adapters.debts import OpenDebt
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import NEVER_CUT, DirectoryKind
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import Debt
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Directory,
    LogDirSource,
    LogDirView,
    Problem,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

NAMES: Final = ("a", "orders", "orders-eu", "orders.eu", "order", "z", "long" * 60, "long" * 60 + "er", "b-1", "ba")
IDS: Final = tuple(TopicId(uuid.UUID(int=number)) for number in (2**120 + 7, 2**121 + 8, 2**122 + 9))
BROKERS: Final = (1, 2, 3, 4)
UNIQUE: Final = "0123456789abcdef" * 2


def draw_survey(seed: int, taken_at_ms: int = 1_700_000_000_000) -> Survey:
    """The same survey for the same seed. About one in ten is of a cluster where nothing is wrong."""
    survey = _Draw(random.Random(seed)).survey(taken_at_ms)
    tree = _with_trash(survey.zookeeper, random.Random(f"trash {seed}"))
    return replace(survey, zookeeper=replace(tree, debts=_debts(random.Random(-seed))))


def _with_trash(tree: ZooKeeperTree, source: random.Random) -> ZooKeeperTree:
    """A trash in one survey of two, from numbers of its own; one of twelve could not be read."""
    problems = (*tree.problems, Problem(paths.TRASH, "NO_AUTH")) if source.random() < 1 / 12 else tree.problems
    names = source.sample(NAMES, source.choice((0, 0, 0, 1, 2, 4)))
    return replace(
        tree,
        trashed={name: source.choice(IDS) for name in names[1:]},
        unreadable_trash=dict.fromkeys(names[:1], "not JSON") if source.random() < 0.5 else {},
        problems=problems,
    )


def _debts(source: random.Random) -> tuple[OpenDebt, ...]:
    """Debts in two surveys of three, from numbers of their own."""
    drawn = {
        (source.choice(BROKERS), source.choice(NAMES), czxid): Debt(
            source.choice((None, *IDS)), tuple(sorted(source.sample(range(4), source.randint(1, 4)))), 3, 1_000
        )
        for czxid in range(source.choice((0, 3, 12)))
    }
    return tuple(OpenDebt(BrokerId(broker), name, czxid, debt, 0) for (broker, name, czxid), debt in drawn.items())


class _Draw:
    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._trouble = source.choice((0.0, 0.05, 0.15, 0.15, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6))
        self._ids = {name: source.choice(IDS) for name in NAMES}
        self._untold = self._some(NAMES, self._trouble / 3)

    def _trouble_comes(self) -> bool:
        return self._random.random() < self._trouble

    def _some(self, names: tuple[str, ...], chance: float | None = None) -> tuple[str, ...]:
        limit = self._trouble if chance is None else chance
        return tuple(name for name in names if self._random.random() < limit)

    def survey(self, taken_at_ms: int) -> Survey:
        names = tuple(sorted(self._some(NAMES, 0.6)))
        topics = {name: self._topic(name) for name in names}
        live = tuple(broker for broker in BROKERS if not self._trouble_comes())
        ghosts = self._some(NAMES, self._trouble / 2)
        tree = ZooKeeperTree(
            topics,
            marked=tuple(sorted({*self._some(names), *ghosts})),
            configured=tuple(sorted({*self._some(names, 0.8), *self._some(NAMES, self._trouble / 2)})),
            reassigning={
                TopicPartition(name, self._random.randrange(3)): (1, 2)
                for name in sorted({*self._some(names), *self._some(NAMES, self._trouble / 3)})
            },
            brokers=tuple(Broker(BrokerId(n), BrokerEpoch(n * 10), (Endpoint("PLAINTEXT", "h", 1),)) for n in live),
            controller_epoch=3,
            cluster_id="cluster",
            problems=tuple(Problem(path, "NO_AUTH") for path in (*self._unread(), *self._unread_partitions(topics))),
        )
        answers = tuple(self._answer(broker, topics) for broker in live)
        views = tuple(
            view for broker in BROKERS if not self._trouble_comes() for view in self._log_dirs(broker, topics)
        )
        moving = self._some(NAMES, self._trouble / 3)
        return Survey(taken_at_ms, 5, tree, answers, views, moving)

    def _unread(self) -> tuple[str, ...]:
        """Lists and registrations that could not be read, whole or in part. What was read all the same is there."""
        lists = (paths.BROKER_TOPICS, paths.DELETE_TOPICS, paths.REASSIGN_PARTITIONS, paths.BROKER_IDS)
        return self._some((*lists, f"{paths.BROKER_IDS}/4", paths.CONTROLLER), self._trouble / 12)

    def _unread_partitions(self, topics: dict[str, TopicTree]) -> tuple[str, ...]:
        """The places of some missing `partitions`, which may be there unseen."""
        missing = tuple(name for name, topic in topics.items() if topic.partition_znodes is None)
        return tuple(paths.topic_partitions(name) for name in self._some(missing, 0.5))

    # --- ZooKeeper ------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> TopicTree:
        count = self._random.choice((0, 1, 1, 2, 3, 3, 14))
        assignments = {number: self._assignment() for number in range(count)}
        znodes: tuple[int, ...] | None = tuple(range(count))
        states: dict[int, LeaderAndIsr | None] = {number: self._state(assignments[number]) for number in range(count)}
        if self._trouble_comes():
            znodes = self._random.choice((None, (), tuple(range(count // 2)), (*range(count), count + 3)))
            states = {number: states.get(number) for number in znodes or ()}
        if self._trouble_comes():
            states = {number: state for number, state in states.items() if self._random.random() < 0.6}
        if self._trouble_comes():
            assignments = {number: each for number, each in assignments.items() if self._random.random() < 0.6}
        readable = None if self._trouble_comes() else assignments
        topic_id = self._ids[name] if readable is not None and self._random.random() < 0.9 else None
        return TopicTree(name, topic_id, readable, znodes, states)

    def _assignment(self) -> ReplicaAssignment:
        replicas = tuple(self._random.sample(BROKERS, self._random.choice((1, 2, 3))))
        if not self._trouble_comes():
            return ReplicaAssignment(replicas)
        return ReplicaAssignment(replicas, adding=replicas[:1], removing=replicas[1:2])

    def _state(self, assignment: ReplicaAssignment) -> LeaderAndIsr | None:
        if self._trouble_comes():
            return None
        return LeaderAndIsr(assignment.replicas[0], 4, assignment.replicas, 3)

    # --- brokers --------------------------------------------------------------------------------------------------

    def _answer(self, broker: int, topics: dict[str, TopicTree]) -> BrokerAnswers:
        if self._trouble_comes():
            return BrokerAnswers(
                BrokerId(broker), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "it does not answer"),)
            )
        names = sorted({*(name for name in topics if not self._trouble_comes()), *self._some(NAMES)} - {*self._untold})
        cache = {name: CachedTopic(self._found_id(name), tuple(range(self._random.randrange(4)))) for name in names}
        if self._trouble_comes():
            refused = UnansweredQuestion(
                BrokerFailure.REFUSED, "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED", BrokerPlace.LOGS
            )
            return BrokerAnswers(BrokerId(broker), cache, BrokerId(1), None, (refused,))
        return BrokerAnswers(BrokerId(broker), cache, BrokerId(1), ())

    def _found_id(self, name: str) -> TopicId | None:
        if self._trouble_comes():
            return self._random.choice((None, *IDS))
        return self._ids[name]

    # --- disks ----------------------------------------------------------------------------------------------------

    def _log_dirs(self, broker: int, topics: dict[str, TopicTree]) -> tuple[LogDirView, ...]:
        found: dict[str, dict[str, Directory]] = {"/d1": {}, "/d2": {}}
        for name, topic in topics.items():
            for number, assignment in (topic.assignments or {}).items():
                if broker in assignment.replicas and not self._trouble_comes():
                    directory = self._directory(DirectoryKind.REPLICA, name, number)
                    found[self._random.choice(("/d1", "/d2"))][directory.name] = directory
        for _ in range(6):
            if self._trouble_comes():
                directory = self._odd_directory()
                found[self._random.choice(("/d1", "/d2"))][directory.name] = directory
        source = self._random.choice((LogDirSource.LOCAL, LogDirSource.BROKER))
        views = []
        for path, directories in found.items():
            problem = "it cannot be read whole" if self._random.random() < self._trouble / 4 else None
            in_order = tuple(directories[name] for name in sorted(directories))
            views.append(LogDirView(BrokerId(broker), path, source, in_order, problem, has_failed=problem is not None))
        # Of a broker that told nothing only a directory that was named may be known.
        return tuple(views[: 1 if self._trouble_comes() else None])

    def _odd_directory(self) -> Directory:
        kind = self._random.choice((*DirectoryKind, DirectoryKind.REPLICA, DirectoryKind.FUTURE))
        if kind is DirectoryKind.UNKNOWN:
            return Directory(f"lost+found{self._random.randrange(9)}", kind, None, 7)
        name = self._random.choice(NAMES)
        if kind is not DirectoryKind.REPLICA and self._random.random() < 0.5:
            shortest = NEVER_CUT if len(name) > NEVER_CUT and self._random.random() < 0.7 else 1
            name = name[: self._random.randrange(shortest, len(name) + 1)]
        return self._directory(kind, name, self._random.randrange(4))

    def _directory(self, kind: DirectoryKind, name: str, partition: int) -> Directory:
        ending = {DirectoryKind.REPLICA: "", DirectoryKind.DELETED: f".{UNIQUE}-delete"}.get(
            kind, f".{UNIQUE}-{kind.value}"
        )
        return Directory(
            f"{name}-{partition}{ending}",
            kind,
            TopicPartition(name, partition),
            self._random.randrange(10**12),
            self._found_id(name) if name in self._ids else None,
            3,
            1_700_000_000_000,
        )
