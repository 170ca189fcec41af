"""A marked topic as evidence: two partitions on brokers 1 and 2, with whatever is wrong with it."""

from __future__ import annotations

from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from lethe.protocol.zookeeper.znodes import ControllerZnode
from lethe.survey.evidence import ControllerReport, DeletionHolds, Evidence, ReportedReplica, ReportedTopic
from lethe.survey.explain import Explanation
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    Directory,
    LogDirSource,
    LogDirView,
    Problem,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

STATE = LeaderAndIsr(1, 0, (1, 2), 1)
ORDERS = TopicTree("orders", None, {p: ReplicaAssignment((1, 2)) for p in (0, 1)}, (0, 1), dict.fromkeys((0, 1), STATE))
TAG = "0123456789abcdef0123456789abcdef"
LETHE = ControllerZnode(BrokerId(1001), 7, admin="http://127.0.0.1:1")
KAFKA = ControllerZnode(BrokerId(1), 7)


def stored(*partitions: int) -> tuple[Directory, ...]:
    return tuple(Directory(f"orders-{p}", DirectoryKind.REPLICA, TopicPartition("orders", p), 10) for p in partitions)


def renamed(partition: int) -> Directory:
    return Directory(f"orders-{partition}.{TAG}-delete", DirectoryKind.DELETED, TopicPartition("orders", partition), 10)


def evidence(
    *,
    topic: TopicTree | None = ORDERS,
    marked: bool = True,
    brokers: tuple[int, ...] = (1, 2),
    disks: dict[int, tuple[Directory, ...]] | None = None,
    failures: dict[int, BrokerFailure] | None = None,
    cached: tuple[int, ...] = (),
    failed_dirs: tuple[int, ...] = (),
    unlisted_dirs: tuple[int, ...] = (),
    reported: ControllerReport | None = None,
    holds: DeletionHolds | None = None,
    problems: tuple[Problem, ...] = (),
    controller: ControllerZnode | None = LETHE,
    reassigning: dict[TopicPartition, tuple[int, ...]] | None = None,
) -> Evidence:
    """Orders is marked and stored nowhere any more, with these differences."""
    failed = failures or {}
    answers = []
    views = []
    for number in brokers:
        broker = BrokerId(number)
        if number in failed:
            answers.append(BrokerAnswers(broker, unseen=(UnansweredQuestion(failed[number], "it did not answer"),)))
            continue
        cache = {"orders": CachedTopic(None, (0, 1))} if number in cached else {}
        mine = [LogDirView(broker, "/d", LogDirSource.LOCAL, (disks or {}).get(number, ()))]
        if number in failed_dirs:
            mine.append(LogDirView(broker, "/bad", LogDirSource.BROKER, problem="it says so", has_failed=True))
        if number in unlisted_dirs:
            mine.append(LogDirView(broker, "/odd", LogDirSource.BROKER, problem="it answers UNKNOWN_SERVER_ERROR"))
        views += mine
        answers.append(BrokerAnswers(broker, cache, log_dirs=tuple(mine)))
    tree = ZooKeeperTree(
        topics={} if topic is None else {"orders": topic},
        marked=("orders",) if marked else (),
        reassigning=reassigning or {},
        brokers=tuple(Broker(BrokerId(n), BrokerEpoch(n), (Endpoint("PLAINTEXT", "h", 1),)) for n in brokers),
        controller=controller,
        problems=problems,
    )
    survey = Survey(1_000_000, 1, tree, tuple(answers), tuple(views))
    return Evidence(
        survey, ("orders",), {"orders": 400_000} if marked else {}, {"orders": 300_000}, holds or DeletionHolds(),
        reported or ControllerReport(problem="it was not asked"),
    )  # fmt: skip


def kinds(found: Explanation) -> list[tuple[CauseKind, int | None]]:
    return [(cause.kind, cause.broker) for cause in found.causes]


def controller_report(*rows: ReportedReplica, phase: str = "started") -> ControllerReport:
    """Of the replicas that are not named it says that they are deleted."""
    named = {(row.partition, row.broker) for row in rows}
    done = [
        ReportedReplica(CauseKind.DONE, partition, broker, "DELETION_SUCCESSFUL")
        for partition in (0, 1)
        for broker in (1, 2)
        if (partition, broker) not in named
    ]
    return ControllerReport({"orders": ReportedTopic("orders", phase=phase, replicas=(*rows, *done))}, 3, True)
