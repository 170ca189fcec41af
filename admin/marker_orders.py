"""Writes orders into deletion markers, keeping those that are there.

A marker that exists is changed in place: the controller watches the data of those that wait for an absent broker. Only
Lethe's controller obeys; Kafka's ignores a marker's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.refusal import Refusal
from lethe.admin.topic_plans import deletion_problem
from lethe.admin.topic_znodes import demand_zookeeper_controller, list_topics
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    OfflineReplicas,
    decode_deletion_marker,
    encode_deletion_marker,
)
from lethe.survey.znodes import read_data

OWE = DeletionOrders(offline_replicas=OfflineReplicas.OWE)


async def order_owing(session: ZooKeeperSession, names: Sequence[str]) -> list[Outcome]:
    """Mark each topic with the order not to wait for absent brokers; return the outcomes in the order of the names.

    Raises NoCluster under a KRaft controller, Refusal where the active controller is Kafka's.
    """
    await demand_zookeeper_controller(session)
    await demand_obedience(session)
    await ensure_roots(session, (paths.DELETE_TOPICS,))
    there = (await list_topics(session)).names
    problems = {name: deletion_problem(name, topics=there) for name in names}
    return [
        Outcome(name, problem) if (problem := problems[name]) is not None else await _order_owing(session, name)
        for name in names
    ]


async def demand_obedience(session: ZooKeeperSession) -> None:
    """Raise Refusal where the active controller is Kafka's, which does not obey the order."""
    acting = await acting_controller(session)
    if acting.is_kafka:
        raise Refusal(
            f"--owe is an order to Lethe's controller, and {acting.text}: it would wait for absent brokers. "
            "`lethe rescue --owe` takes control for it"
        )


async def _order_owing(session: ZooKeeperSession, name: str) -> Outcome:
    path = paths.delete_topic(name)
    for _ in range(MAX_ATTEMPTS):
        marker = await read_data(session, path)
        operation: Operation = Create(path, encode_deletion_marker(OWE))
        if marker is not None:
            orders = decode_deletion_marker(marker.data)
            if orders.problem is not None:
                return Outcome(name, f"topic {name} is marked with orders that are not understood: {orders.problem}")
            if orders.offline_replicas is OfflineReplicas.OWE:
                return Outcome(name, was_done=True)
            added = replace(orders, offline_replicas=OfflineReplicas.OWE)
            operation = SetData(path, encode_deletion_marker(added), marker.stat.version)
        outcome = await session.multi([operation])
        if is_conflict(outcome):
            continue
        act, done = f"mark topic {name} for deletion", f"topic {name} is marked for deletion"
        return outcome_of(name, outcome, act=act, done=done, was_done=marker is not None)
    return given_up(name, f"the marker of topic {name}")
