"""A small healthy cluster in a ZooKeeper, and ills to plant in it, one for each kind of `lethe doctor`."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_ills import IllKind
from lethe.admin.doctor_look import BrokerQuestions
from lethe.admin.topic_plans import TopicPlan, creation_operations
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import (
    Broker,
    BrokerId,
    ControllerEpoch,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Children,
    Create,
    Data,
    Delete,
    GetChildren,
    GetData,
    SetData,
)
from lethe.protocol.zookeeper.znodes import (
    ControllerZnode,
    DeletionOrders,
    DeletionsPaused,
    TopicZnode,
    decode_controller,
    encode_config,
    encode_controller,
    encode_debt,
    encode_deletion_marker,
    encode_deletions_paused,
    encode_isr_change,
    encode_preferred_replica_election,
    encode_reassignment,
    encode_state,
    encode_topic,
)
from lethe.protocol.zookeeper.znodes_debts import Debt
from lethe.survey.broker_settings import BrokerSettings, EpochAnswer
from lethe.survey.views import BrokerAnswers, BrokerFailure, Directory, LogDirSource, LogDirView, UnansweredQuestion
from lethe.survey.zookeeper import read_tree
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect, prepare

TOPIC_ID, OTHER_ID = TopicId(uuid.UUID(int=2**100 + 1)), TopicId(uuid.UUID(int=2**100 + 2))
ABSENT, UNKNOWN = 8, 9
EPOCH = 7
LEADER = 1


async def make_healthy(session: FakeSession) -> None:
    """Brokers 1 and 2, which share the topic `orders`; broker 1 is the controller."""
    await prepare(session, {1: None, 2: None})
    await elect(session, LEADER)
    await apply(session, Create(paths.CONTROLLER_EPOCH, b"%d" % EPOCH))
    await make_topic(session, "orders")
    await session.ensure_path(paths.ACL_TOPICS)
    await session.ensure_path(paths.ACL_CHANGES)
    await session.ensure_path(paths.LETHE)


async def make_topic(session: ZooKeeperSession, name: str, topic_id: TopicId | None = TOPIC_ID) -> None:
    """A topic of two partitions in service."""
    plan = TopicPlan(name, topic_id, ((1, 2), (2, 1)), {"retention.ms": "1000"})
    await apply(session, *creation_operations(plan, config_exists=False))
    await bring_online(session, name, {0: (1, 2), 1: (2, 1)})


@dataclass(slots=True)
class FakeBrokers:
    """Brokers that have in caches and directories what ZooKeeper says, and what a test adds."""

    session: ZooKeeperSession
    ghosts: dict[int, dict[str, CachedTopic]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    """Topics that no cache shows."""
    directories: dict[int, tuple[Directory, ...]] = field(default_factory=dict)
    lost: set[tuple[int, TopicPartition]] = field(default_factory=set)
    """Replicas without directory."""
    silent: set[int] = field(default_factory=set)
    seen_epoch: dict[int, int] = field(default_factory=dict)
    deletes_topics: bool = True

    @property
    def questions(self) -> BrokerQuestions:
        return BrokerQuestions(PLAINTEXT_REACH, lambda _: self._places, self._settings, self._epoch)

    async def _places(self, broker: Broker) -> BrokerAnswers:
        if broker.id in self.silent:
            return BrokerAnswers(broker.id, unseen=(UnansweredQuestion(BrokerFailure.SILENT, "it does not answer"),))
        tree, _ = await read_tree(self.session)
        topics = {name: topic for name, topic in tree.topics.items() if topic.assignments}
        cache = {
            name: CachedTopic(topic.topic_id, tuple(topic.assignments or ()))
            for name, topic in topics.items()
            if name not in self.hidden
        }
        replicas = tuple(
            Directory(str(TopicPartition(name, number)), DirectoryKind.REPLICA, TopicPartition(name, number))
            for name, topic in topics.items()
            for number, assignment in (topic.assignments or {}).items()
            if broker.id in assignment.replicas and (broker.id, TopicPartition(name, number)) not in self.lost
        )
        view = LogDirView(broker.id, "/data", LogDirSource.BROKER, replicas + self.directories.get(int(broker.id), ()))
        return BrokerAnswers(broker.id, cache | self.ghosts.get(int(broker.id), {}), BrokerId(LEADER), (view,))

    async def _settings(self, broker: Broker) -> BrokerSettings:
        return BrokerSettings(broker.id, self.deletes_topics)

    async def _epoch(self, broker: Broker, controller: BrokerId, epoch: ControllerEpoch) -> EpochAnswer:
        if broker.id in self.silent:
            return EpochAnswer(broker.id, None, "it does not answer")
        (held,) = await self.session.read([GetData(paths.CONTROLLER)])
        if isinstance(held, Data) and decode_controller(held.data).broker_id != controller:
            return EpochAnswer(broker.id, None, "it closed the connection, as agents do: the epoch is of another")
        refuses = self.seen_epoch.get(int(broker.id), EPOCH) > epoch
        return EpochAnswer(broker.id, ErrorCode.STALE_CONTROLLER_EPOCH if refuses else ErrorCode.NONE)


Plant = Callable[[ZooKeeperSession, FakeBrokers], Awaitable[None]]


def _writes(*operations: Create | SetData | Delete) -> Plant:
    async def plant(session: ZooKeeperSession, _: FakeBrokers) -> None:
        for operation in operations:
            if isinstance(operation, Create):
                await session.ensure_path(paths.parent_of(operation.path))
        await apply(session, *operations)

    return plant


def reassigning(name: str, assignment: ReplicaAssignment) -> SetData:
    """Writes this assignment of partition 0."""
    znode = TopicZnode({0: assignment, 1: ReplicaAssignment((2, 1))}, TOPIC_ID)
    return SetData(paths.topic(name), encode_topic(znode), ANY_VERSION)


async def _half_deleted(session: ZooKeeperSession, _: FakeBrokers) -> None:
    await make_topic(session, "half", OTHER_ID)
    state, partition = paths.partition_state("half", 0), paths.topic_partition("half", 0)
    await apply(session, Create(paths.delete_topic("half"), None), Delete(state), Delete(partition))


async def _incomplete(session: ZooKeeperSession, _: FakeBrokers) -> None:
    await apply(session, Delete(paths.partition_state("orders", 0)))


async def _nobody_leads(session: ZooKeeperSession, _: FakeBrokers) -> None:
    await apply(session, Delete(paths.CONTROLLER))


async def _stranger_leads(session: ZooKeeperSession, _: FakeBrokers) -> None:
    data = encode_controller(ControllerZnode(BrokerId(99), 0), version=1)
    await apply(session, Delete(paths.CONTROLLER), Create(paths.CONTROLLER, data, ephemeral=True))


async def _all_refuse(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.seen_epoch = {1: EPOCH + 5, 2: EPOCH + 5}


async def _one_refuses(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.seen_epoch = {2: EPOCH + 5}


async def _waits(session: ZooKeeperSession, _: FakeBrokers) -> None:
    plan = TopicPlan("waiting", OTHER_ID, ((1, ABSENT),))
    await apply(session, *creation_operations(plan, config_exists=False), Create(paths.delete_topic("waiting"), None))
    await bring_online(session, "waiting", {0: (1,)})


async def _disabled(session: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.deletes_topics = False
    await apply(session, Create(paths.delete_topic("orders"), None))


async def _ordered(session: ZooKeeperSession, _: FakeBrokers) -> None:
    await apply(
        session,
        Create(paths.topic("poison"), b"{"),
        Create(paths.delete_topic("poison"), encode_deletion_marker(DeletionOrders(unreadable=True))),
    )


async def _ghost(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.ghosts[1] = {"ghost": CachedTopic(OTHER_ID, (0,))}


async def _earlier(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.ghosts[1] = {"orders": CachedTopic(OTHER_ID, (0, 1))}


async def _hidden(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.hidden.add("orders")


def _directory(name: str, kind: DirectoryKind = DirectoryKind.REPLICA, topic_id: TopicId | None = None) -> Plant:
    async def plant(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
        topic, _dash, number = name.split(".")[0].rpartition("-")
        brokers.directories[1] = (Directory(name, kind, TopicPartition(topic, int(number)), 1000, topic_id),)

    return plant


async def _lost(_: ZooKeeperSession, brokers: FakeBrokers) -> None:
    brokers.lost.add((1, TopicPartition("orders", 0)))


FOREIGN = encode_state(LeaderAndIsr(1, 0, (1, UNKNOWN), EPOCH))
THROTTLED = encode_config({"retention.ms": "1000", "leader.replication.throttled.replicas": "0:1"})
DEBT = Debt(OTHER_ID, (0,), 3, 1_000)

PLANTS: Mapping[IllKind, Plant] = {
    IllKind.NO_CONTROLLER: _nobody_leads,
    IllKind.CONTROLLER_NOT_REGISTERED: _stranger_leads,
    IllKind.EPOCH_TOO_LOW: _all_refuse,
    IllKind.BROKER_REFUSES_EPOCH: _one_refuses,
    IllKind.ZNODE_UNREADABLE: _writes(Create(paths.topic("poison"), b"{")),
    IllKind.HALF_DELETED_TOPIC: _half_deleted,
    IllKind.INCOMPLETE_TOPIC: _incomplete,
    IllKind.STATE_OUTSIDE_ASSIGNMENT: _writes(SetData(paths.partition_state("orders", 0), FOREIGN, ANY_VERSION)),
    IllKind.DELETION_WAITS: _waits,
    IllKind.DELETION_DISABLED: _disabled,
    IllKind.DELETIONS_PAUSED: _writes(
        Create(paths.DELETIONS_PAUSED, encode_deletions_paused(DeletionsPaused(1, "upgrade")))
    ),
    IllKind.MARKER_WITHOUT_TOPIC: _writes(Create(paths.delete_topic("gone"), None)),
    IllKind.ORDER_FOR_LETHE: _ordered,
    IllKind.DEBT_OF_ABSENT_BROKER: _writes(Create(paths.debt(ABSENT, "gone", 5), encode_debt(DEBT))),
    IllKind.DEBT_UNPAID: _writes(Create(paths.debt(2, "gone", 5), encode_debt(DEBT))),
    IllKind.REASSIGNMENT_WITHOUT_TOPIC: _writes(
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment({TopicPartition("gone", 0): (1,)}))
    ),
    IllKind.REASSIGNMENT_TO_ABSENT_BROKER: _writes(
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment({TopicPartition("orders", 0): (1, ABSENT)}))
    ),
    IllKind.REASSIGNMENT_STUCK: _writes(reassigning("orders", ReplicaAssignment((1, 2, ABSENT), (ABSENT,), (2,)))),
    IllKind.PREFERRED_ELECTION_LEFT: _writes(
        Create(paths.PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election([TopicPartition("orders", 0)]))
    ),
    IllKind.NOTIFICATIONS_UNREAD: _writes(
        Create(paths.isr_change_notification("0000000003"), encode_isr_change([TopicPartition("orders", 0)]))
    ),
    IllKind.REQUEST_FOR_LETHE: _writes(Create(paths.forget(ABSENT), b"{}")),
    IllKind.CONFIG_CHANGE_UNREADABLE: _writes(Create(paths.config_change("0000000009"), b"{")),
    IllKind.CONFIG_WITHOUT_TOPIC: _writes(Create(paths.config_topic("gone"), encode_config({"retention.ms": "1"}))),
    IllKind.ACL_WITHOUT_TOPIC: _writes(Create(paths.acl_topic("gone"), b'{"version":1,"acls":[]}')),
    IllKind.BROKER_CONFIG_WITHOUT_BROKER: _writes(Create(paths.config_broker(ABSENT), encode_config({}))),
    IllKind.THROTTLE_WITHOUT_REASSIGNMENT: _writes(SetData(paths.config_topic("orders"), THROTTLED, ANY_VERSION)),
    IllKind.CACHED_WITHOUT_TOPIC: _ghost,
    IllKind.CACHED_OTHER_INCARNATION: _earlier,
    IllKind.IN_NO_CACHE: _hidden,
    IllKind.DIRECTORY_WITHOUT_TOPIC: _directory("gone-0"),
    IllKind.DIRECTORY_OF_OTHER_INCARNATION: _directory("orders-0", topic_id=OTHER_ID),
    IllKind.DIRECTORY_NOT_ASSIGNED: _directory("orders-7"),
    IllKind.NOT_RECLAIMED_YET: _directory("gone-0.x-delete", DirectoryKind.DELETED),
    IllKind.STRAY_DIRECTORY: _directory("gone-0.x-stray", DirectoryKind.STRAY),
    IllKind.REPLICA_WITHOUT_DIRECTORY: _lost,
}
"""Each makes a healthy cluster ill in this one way. Elections in quick succession are no znode."""

ACCOMPANIED: Mapping[IllKind, frozenset[IllKind]] = {
    IllKind.ORDER_FOR_LETHE: frozenset({IllKind.ZNODE_UNREADABLE}),
}
"""Further ills that belong to a plant."""


async def tree_of(session: ZooKeeperSession) -> dict[str, bytes | None]:
    """Every znode and its data."""
    found: dict[str, bytes | None] = {}
    level = ["/"]
    while level:
        outcomes = await session.read([*map(GetData, level), *map(GetChildren, level)])
        below = []
        for path, data, children in zip(level, outcomes, outcomes[len(level) :], strict=False):
            if isinstance(data, Data) and isinstance(children, Children):
                found[path] = data.data
                below += [f"{'' if path == '/' else path}/{name}" for name in children.names]
        level = below
    return found
