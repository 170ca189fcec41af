"""What each broker has to do with the cluster's partitions, counted from ZooKeeper alone.

Brokers that are not registered count too, where assignments name them: dead, or taken away without their replicas
having been moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.acting_controller import Acting, acting_controller
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.partition_views import PartitionViews, view_partitions
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import registered_at_ms

if TYPE_CHECKING:
    from lethe.survey.brokers import AskBroker
    from lethe.survey.views import BrokerAnswers


@dataclass(slots=True)
class BrokerLoad:
    """One broker's part. Lists are in the order of topics and partitions."""

    broker: int
    replicas: int = 0
    leads: int = 0
    follows: int = 0
    lagging: list[TopicPartition] = field(default_factory=list)
    """Partitions of which its replica is not in sync."""
    preferred: int = 0
    """Partitions that it should lead."""
    displaced: list[TopicPartition] = field(default_factory=list)
    """Those of them that another broker leads, or nobody."""
    deletions: dict[str, None] = field(default_factory=dict)
    """Topics marked for deletion of which it has replicas."""
    only_here: list[TopicPartition] = field(default_factory=list)
    """Partitions of living topics of which no other live broker has a copy in sync, as far as ZooKeeper knows; of a
    broker that is away also those that still count it as in sync. An empty broker under its id would lead them, or
    might, and the other replicas would be cut down to what it has."""

    @property
    def imbalance(self) -> float:
        """The part of its preferred partitions that it does not lead, as Kafka reckons it; 0 to 1."""
        return len(self.displaced) / self.preferred if self.preferred else 0.0


def broker_loads(views: PartitionViews, *, are_marked_kept: bool = False) -> dict[int, BrokerLoad]:
    """Every broker that is registered or that an assignment names, by id. Marked topics count as living where they
    are kept all the same, since deletions are paused."""
    loads = {broker: BrokerLoad(broker) for broker in views.brokers}
    marked = frozenset(views.there.marked)
    doomed: frozenset[str] = frozenset() if are_marked_kept else marked
    for partition, assignment in views.assignments.items():
        leader, isr = views.leader(partition), views.isr(partition)
        for place, broker in enumerate(assignment.replicas):
            load = loads.setdefault(broker, BrokerLoad(broker))
            load.replicas += 1
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
            if partition.topic in marked:
                load.deletions[partition.topic] = None
            if partition.topic not in doomed and _is_only_on(broker, isr, views.brokers):
                load.only_here.append(partition)
    return dict(sorted(loads.items()))


def _is_only_on(broker: int, isr: Collection[int], live: Collection[int]) -> bool:
    """Nothing known counts as nothing elsewhere. A broker that is away and in the ISR may be made leader as it
    returns, whoever else is in it."""
    return (broker in isr and broker not in live) or not any(other in live for other in isr if other != broker)


def unreadable_registrations(views: PartitionViews) -> dict[int, str]:
    """Brokers that are registered in a way that cannot be understood, with what is wrong."""
    found = {}
    for where, problem in views.problems.items():
        broker = paths.broker_of(where)
        if broker is not None:
            found[int(broker)] = problem
    return found


async def registered_since(session: ZooKeeperSession, views: PartitionViews) -> dict[int, int]:
    """When each registered broker registered, in milliseconds by its own clock; those that do not say are left out."""
    outcomes = await session.read([GetData(paths.broker_id(broker)) for broker in views.brokers])
    found = {}
    for broker, outcome in zip(views.brokers, outcomes, strict=True):
        since_ms = registered_at_ms(outcome.data) if isinstance(outcome, Data) else None
        if since_ms is not None:
            found[broker] = since_ms
    return found


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """Everything about the brokers. `answers` has those that were asked."""

    views: PartitionViews
    acting: Acting
    loads: Mapping[int, BrokerLoad]
    since_ms: Mapping[int, int]
    unreadable: Mapping[int, str]
    answers: Mapping[int, BrokerAnswers] = field(default_factory=dict)

    @property
    def missing(self) -> list[BrokerLoad]:
        """Those that assignments name and that are not registered."""
        known = {*self.views.brokers, *self.unreadable}
        return [load for broker, load in self.loads.items() if broker not in known]

    @property
    def silent(self) -> list[int]:
        """Brokers that did not answer all that they were asked."""
        return [broker for broker, answers in self.answers.items() if answers.failure is not None]


async def look_at_brokers(
    session: ZooKeeperSession, *, ask: AskBroker | None, only: Collection[int] | None = None
) -> BrokersSeen:
    """Looks at all brokers, and asks them, or only some. Raises NoCluster where there is no cluster."""
    views = await view_partitions(session)
    acting = await acting_controller(session)
    since_ms = await registered_since(session, views)
    asked = [broker for number, broker in views.brokers.items() if only is None or number in only]
    answers: dict[int, BrokerAnswers] = {}
    if ask is not None:
        from lethe.survey.brokers import ask_all

        answers = {int(answer.broker): answer for answer in await ask_all(asked, ask)}
    is_paused = await deletions_paused(session) is not None
    loads = broker_loads(views, are_marked_kept=is_paused)
    return BrokersSeen(views, acting, loads, since_ms, unreadable_registrations(views), answers)
