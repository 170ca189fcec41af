"""Load of each broker: its partitions, counted from ZooKeeper alone.

Unregistered brokers count too, where assignments name them. They are dead, or were removed without moving their
replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lethe.adapters.debts import UnseenDebts, read_debts
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import ControllerIdentity, acting_controller
from lethe.admin.marked_topics import AskController, MarkedFate, fates_of
from lethe.admin.partition_views import PartitionViews, view_partitions
from lethe.admin.trash import TrashView, read_trash
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import OfflineReplicas, TrashEntry, TrashPhase, registered_at_ms
from lethe.survey.debts import BrokerDebts, by_broker
from lethe.survey.znodes import ZnodeUnreadable

if TYPE_CHECKING:
    from lethe.survey.brokers import AskBroker
    from lethe.survey.views import BrokerAnswers


@dataclass(slots=True)
class BrokerLoad:
    """Load of one broker. Lists are in the order of topics and partitions. A partition whose state is unseen counts in
    `replicas`, `unseen` and `deletions` only."""

    broker: int
    replicas: int = 0
    leads: int = 0
    follows: int = 0
    lagging: list[TopicPartition] = field(default_factory=list)
    """Partitions in which its replica is not in sync."""
    preferred: int = 0
    """Number of partitions that it should lead, as the preferred replica."""
    displaced: list[TopicPartition] = field(default_factory=list)
    """Those of them that it does not lead."""
    unseen: list[TopicPartition] = field(default_factory=list)
    """Partitions whose leader and ISR are not known, because the state znode cannot be understood."""
    deletions: dict[str, None] = field(default_factory=dict)
    """Topics marked for deletion of which it has replicas."""
    only_here: list[TopicPartition] = field(default_factory=list)
    """Partitions without an in-sync replica on another live broker, by ZooKeeper; topics in deletion are left out. For
    an unregistered broker, also partitions whose ISR includes it. An empty broker with its id could become leader of
    these, and the other replicas would be truncated to its log."""
    perhaps_only_here: list[TopicPartition] = field(default_factory=list)
    """The same of marked topics, where it is not known whether their deletion has begun."""

    @property
    def imbalance(self) -> float:
        """Share of its preferred partitions that it does not lead, as in Kafka; 0 to 1."""
        return len(self.displaced) / self.preferred if self.preferred else 0.0


def broker_loads(views: PartitionViews, fates: Mapping[str, MarkedFate]) -> dict[int, BrokerLoad]:
    """Return the load of every registered or assigned broker, by id. `fates`: of the marked topics."""
    loads = {broker: BrokerLoad(broker) for broker in views.brokers}
    marked = frozenset(views.there.marked)
    for partition, assignment in views.assignments.items():
        leader, isr = views.leader(partition), views.isr(partition)
        for place, broker in enumerate(assignment.replicas):
            load = loads.setdefault(broker, BrokerLoad(broker))
            load.replicas += 1
            if partition.topic in marked:
                load.deletions[partition.topic] = None
            if views.unseen(partition) is not None:
                load.unseen.append(partition)
                continue
            if broker == leader:
                load.leads += 1
            else:
                load.follows += 1
            if broker not in isr:
                load.lagging.append(partition)
            if place == 0:
                load.preferred += 1
                if broker != leader:
                    load.displaced.append(partition)
            fate = fates.get(partition.topic, MarkedFate.KEPT)
            if fate is not MarkedFate.ENDING and _is_only_on(broker, isr, views.brokers):
                (load.only_here if fate is MarkedFate.KEPT else load.perhaps_only_here).append(partition)
    return dict(sorted(loads.items()))


def _is_only_on(broker: int, isr: Collection[int], live: Collection[int]) -> bool:
    """Return True if no other live broker is in the ISR, or if an unregistered broker is in it. When such a broker
    returns, it may become leader whatever the rest of the ISR is."""
    return (broker in isr and broker not in live) or no_other_in_sync(broker, isr, live)


def no_other_in_sync(broker: int, isr: Collection[int], live: Collection[int]) -> bool:
    """Return True if no other live broker is in the ISR."""
    return not any(other in live for other in isr if other != broker)


def unreadable_registrations(views: PartitionViews) -> dict[int, str]:
    """Return the brokers whose registration cannot be understood, and why."""
    found = {}
    for where, problem in views.problems.items():
        broker = paths.broker_of(where)
        if broker is not None:
            found[int(broker)] = problem
    return found


async def registered_since(session: ZooKeeperSession, views: PartitionViews) -> dict[int, int]:
    """Return when each broker registered, in milliseconds of its own clock; registrations without a time are left
    out."""
    outcomes = await session.read([GetData(paths.broker_id(broker)) for broker in views.brokers])
    found = {}
    for broker, outcome in zip(views.brokers, outcomes, strict=True):
        since_ms = registered_at_ms(outcome.data) if isinstance(outcome, Data) else None
        if since_ms is not None:
            found[broker] = since_ms
    return found


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """State of all brokers. `answers` has those that were asked."""

    views: PartitionViews
    acting: ControllerIdentity
    loads: Mapping[int, BrokerLoad]
    since_ms: Mapping[int, int]
    unreadable: Mapping[int, str]
    answers: Mapping[int, BrokerAnswers] = field(default_factory=dict)
    debts: Mapping[int, BrokerDebts] = field(default_factory=dict)
    """By broker, registered or not."""
    debts_unseen: tuple[UnseenDebts, ...] = ()
    fates: Mapping[str, MarkedFate] = field(default_factory=dict)
    """What becomes of the marked topics."""
    trash: tuple[TrashView, ...] = ()
    trash_unseen: ZnodeUnreadable | None = None
    """Why the trash could not be listed."""

    @property
    def missing(self) -> list[BrokerLoad]:
        """Brokers that assignments, debts or topics in the trash name and that are not registered, by id."""
        known = {*self.views.brokers, *self.unreadable}
        trashed = {
            broker
            for view in self.trash
            if view.entry is not None and view.entry.phase is TrashPhase.TRASHED
            for saved in view.entry.partitions.values()
            for broker in saved.replicas
        }
        named = sorted({*self.loads, *self.debts, *trashed} - known)
        return [self.loads.get(broker) or BrokerLoad(broker) for broker in named]

    @property
    def trash_problems(self) -> tuple[tuple[str, str], ...]:
        """Where the trash could not be read or understood, and why."""
        listing = () if self.trash_unseen is None else ((paths.TRASH, str(self.trash_unseen)),)
        entries = ((paths.trashed(view.name), view.problem) for view in self.trash if view.problem is not None)
        return (*listing, *entries)

    @property
    def silent(self) -> list[int]:
        """Brokers with an unanswered question."""
        return [broker for broker, answers in self.answers.items() if answers.failure is not None]

    def only_here_in_trash(self, broker: int) -> tuple[str, ...]:
        """Return the topics that have left service and have a partition that only this broker, of those that live, had
        in sync."""
        return tuple(view.name for view in self.trash if view.entry is not None and self._loses(view.entry, broker))

    def in_trash(self, broker: int) -> tuple[str, ...]:
        """Return the topics that have left service and whose deletions, which begin later, wait for this broker."""
        return tuple(view.name for view in self.trash if view.entry is not None and _waits(view.entry, broker))

    def _loses(self, entry: TrashEntry, broker: int) -> bool:
        return entry.phase is TrashPhase.TRASHED and any(
            broker in saved.isr and no_other_in_sync(broker, saved.isr, self.views.brokers)
            for saved in entry.partitions.values()
        )

    @property
    def unread_in_trash(self) -> tuple[str, ...]:
        """Return in words the topics of which the trash does not tell what they lose: their entry cannot be understood,
        or they were on their way in or out, and are not among the topics."""
        there = frozenset(self.views.there.names)
        return tuple(
            f"{view.name} in the trash"
            for view in self.trash
            if view.entry is None or (view.entry.phase is not TrashPhase.TRASHED and view.name not in there)
        )


def _waits(entry: TrashEntry, broker: int) -> bool:
    is_kept = entry.phase is TrashPhase.TRASHED and entry.offline_replicas is not OfflineReplicas.OWE
    return is_kept and any(broker in saved.replicas for saved in entry.partitions.values())


async def look_at_brokers(
    session: ZooKeeperSession,
    *,
    ask: AskBroker | None,
    only: Collection[int] | None = None,
    ask_controller: AskController | None = None,
) -> ClusterLoad:
    """Return the state of all brokers; `ask` asks the registered ones, or only some. Raises NoCluster where there is no
    cluster."""
    # Before the topics: one that comes back meanwhile is in one of both.
    trash, trash_unseen = await _look_at_trash(session)
    views = await view_partitions(session)
    acting = await acting_controller(session)
    since_ms = await registered_since(session, views)
    asked = [broker for number, broker in views.brokers.items() if only is None or number in only]
    answers: dict[int, BrokerAnswers] = {}
    if ask is not None:
        from lethe.survey.brokers import ask_all

        answers = {int(answer.broker): answer for answer in await ask_all(asked, ask)}
    marked = [name for name in views.there.marked if name in views.by_topic]
    fates = await fates_of(session, marked, acting, trash, ask_controller)
    read = await read_debts(session)
    debts = {owing.broker: owing for owing in by_broker(read.debts)}
    return ClusterLoad(
        views,
        acting,
        broker_loads(views, fates),
        since_ms,
        unreadable_registrations(views),
        answers,
        debts,
        read.unseen,
        fates,
        trash,
        trash_unseen,
    )


async def _look_at_trash(session: ZooKeeperSession) -> tuple[tuple[TrashView, ...], ZnodeUnreadable | None]:
    try:
        return tuple(await read_trash(session)), None
    except ZnodeUnreadable as unread:
        return (), unread
