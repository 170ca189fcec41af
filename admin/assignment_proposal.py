"""Proposes a new assignment of topics to brokers, by the rule that places new topics (Kafka's `--generate`)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.partition_views import view_partitions
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import unplaceable
from lethe.controller.core.replica_assignment import BrokerRack, ReplicaAssignmentError, place_replicas
from lethe.protocol.topic_names import unknown_topic
from lethe.protocol.vocabulary import TopicPartition

Targets = dict[TopicPartition, tuple[int, ...]]


async def proposal(
    session: ZooKeeperSession,
    names: Sequence[str],
    brokers: Sequence[int],
    *,
    disable_rack_aware: bool = False,
    rng: random.Random | None = None,
) -> tuple[Targets, Targets]:
    """Return the current replicas of the topics' partitions (those before a reassignment in progress), and the proposed
    ones.

    Each topic keeps the replication factor of its first partition. Raises Refusal where a topic or a broker does not
    exist, and where there are too few brokers.
    """
    views = await view_partitions(session, names)
    for name in names:
        if name in views.problems or name not in views.by_topic:
            raise Refusal(views.problems.get(name) or unknown_topic(name, views.there.names))
    absent = [broker for broker in brokers if broker not in views.brokers]
    if absent:
        raise Refusal(f"--brokers names brokers that are not registered: {absent}")
    racks = [BrokerRack(b, None if disable_rack_aware else views.brokers[b].rack) for b in brokers]
    draw = random.SystemRandom() if rng is None else rng
    targets: Targets = {}
    for name in names:
        partitions = [tp for tp in views.assignments if tp.topic == name]
        factor = len(views.assignments[partitions[0]].origin)
        start, shift = (draw.randrange(len(racks)) for _ in range(2))
        try:
            placed = place_replicas(racks, len(partitions), factor, start_index=start, shift=shift)
        except ReplicaAssignmentError as error:
            raise Refusal(unplaceable(name, error)) from error
        targets.update(zip(partitions, placed, strict=True))
    return {tp: views.assignments[tp].origin for tp in targets}, targets
