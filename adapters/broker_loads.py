"""What each broker has to do with the cluster's partitions, counted from ZooKeeper alone.

Brokers that are not registered count too, where assignments name them: dead, or taken away without their replicas
having been moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from adapters.partition_views import PartitionViews
from adapters.zookeeper.interface import ZooKeeperSession
from protocol.vocabulary import TopicPartition
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Data, GetData
from protocol.zookeeper.znodes import registered_at_ms


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

    @property
    def imbalance(self) -> float:
        """The part of its preferred partitions that it does not lead, as Kafka reckons it; 0 to 1."""
        return len(self.displaced) / self.preferred if self.preferred else 0.0


def broker_loads(views: PartitionViews) -> dict[int, BrokerLoad]:
    """Every broker that is registered or that an assignment names, by id."""
    loads = {broker: BrokerLoad(broker) for broker in views.brokers}
    marked = frozenset(views.there.marked)
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
    return dict(sorted(loads.items()))


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
