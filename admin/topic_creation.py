"""Plans topics to create: their ids, and replicas placed by Kafka's rule or as named."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import TopicPlan, creation_problem, unplaceable
from lethe.controller.core.replica_assignment import BrokerRack, ReplicaAssignmentError, place_replicas
from lethe.protocol.vocabulary import Broker, TopicId, is_usable_topic_id


@dataclass(frozen=True, slots=True)
class TopicCreationRequest:
    """A topic as the options request it. Without an assignment, both numbers are given."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: tuple[tuple[int, ...], ...] = ()
    config: dict[str, str] = field(default_factory=dict)
    disable_rack_aware: bool = False
    start_index: int | None = None


def new_topic_id(random_bytes: Callable[[int], bytes]) -> TopicId:
    """Return a random id (version 4), without those that Kafka reserves."""
    while True:
        candidate = uuid.UUID(bytes=random_bytes(16), version=4)
        if is_usable_topic_id(candidate):
            return TopicId(candidate)


async def plan_topics(
    session: ZooKeeperSession,
    wanted: Sequence[TopicCreationRequest],
    there: topic_znodes.ListedTopics,
    draw: random.Random,
    warn: Callable[[str], None],
) -> list[TopicPlan]:
    """Return what is to be written for each topic; `there` are the existing topics. `draw` supplies ids and the start
    of the replica assignment. Raises Refusal where one cannot be created."""
    if not wanted:
        return []
    brokers, malformed = await topic_znodes.live_brokers(session)
    for problem in malformed:
        warn(f"WARNING: {problem}; no replica is placed on that broker")
    plans: list[TopicPlan] = []
    for each in wanted:
        plan = TopicPlan(each.name, new_topic_id(draw.randbytes), _placement(each, brokers, draw), each.config)
        known = (*there.names, *(planned.name for planned in plans))
        if (reason := creation_problem(plan, topics=known, marked=there.marked)) is not None:
            raise Refusal(reason)
        plans.append(plan)
    return plans


def _placement(
    wanted: TopicCreationRequest, brokers: Sequence[Broker], draw: random.Random
) -> tuple[tuple[int, ...], ...]:
    if wanted.assignment:
        absent = {replica for replicas in wanted.assignment for replica in replicas} - {int(b.id) for b in brokers}
        if absent:
            raise Refusal(f"--replica-assignment names brokers that are not registered: {sorted(absent)}")
        return wanted.assignment
    if wanted.partitions is None or wanted.replication_factor is None:
        raise ValueError("--partitions and --replication-factor are needed, or else --replica-assignment")
    racks = [BrokerRack(b.id, None if wanted.disable_rack_aware else b.rack) for b in brokers]
    start, shift = (draw.randrange(max(len(racks), 1)) for _ in range(2))
    if wanted.start_index is not None:
        start = shift = wanted.start_index
    try:
        return place_replicas(racks, wanted.partitions, wanted.replication_factor, start_index=start, shift=shift)
    except ReplicaAssignmentError as error:
        raise Refusal(unplaceable(wanted.name, error)) from error
