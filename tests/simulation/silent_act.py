"""The first act of healing, in some runs: one broker is there, keeps its session, and answers nothing or errors.

What has no replica on it has to be done all the same (L3). Then names are used again while it owes their tombstones,
and it wakes: at once, with errors for a while, or while its controller is asked to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lethe.admin.topic_plans import deletion_operation
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from tests.simulation import convergence, silences

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.operators import Operators

MAX_EVENTS = 60_000
SETTLING_MS = 8_000
"""In this time the cluster comes to rest, but for what waits for the silent broker, and for a backlog."""
WORK_MS = 20_000
"""Beside the limit: in this time a deletion is done, unless a backlog is in its way. The time of a topic that goes
through the trash first begins with its return."""
BACKLOG_MS = 120_000
"""In this time every broker that answers has answered all it was sent. A channel sends one request after another, so on
a slow network, with one partition in each request, the backlog of the trouble takes longer than a deletion."""
LOOK_EVERY_MS = 1_000
PATIENCE_MS = 5_000
P_REFUSES_MOSTLY = 0.95


def play(cluster: Cluster, operators: Operators, away: BrokerId | None) -> None:
    """The whole act."""
    world = cluster.world
    others = [agent for agent in cluster.agents.values() if agent.id != away]
    all_up = [agent.id for agent in others]
    world.run_until(world.now_ms + SETTLING_MS, MAX_EVENTS)
    _until_answered(cluster, all_up)
    silent = others.pop(world.between(0, len(others) - 1))
    for _ in range(2):
        operators.create_on([agent.id for agent in others])
    world.run_until(world.now_ms + SETTLING_MS, MAX_EVENTS)
    _until_answered(cluster, all_up)
    if world.chance(0.6):
        world.note(silent.name, "answers nothing")
        silent.is_silent = True
    else:
        world.note(silent.name, "answers with errors")
        silent.p_refuses = P_REFUSES_MOSTLY
    _delete_elsewhere(cluster, silent, away)
    work_ms = WORK_MS + 3 * cluster.mix.tombstone_timeout_ms
    world.run_until(world.now_ms + work_ms, MAX_EVENTS)
    if _until_answered(cluster, [agent.id for agent in others]):
        world.run_until(world.now_ms + SETTLING_MS + cluster.mix.tombstone_timeout_ms, MAX_EVENTS)
    until_all_have_had(cluster, work_ms)
    convergence.all_but_those_of_silent(cluster, silent.id, away)
    for _ in range(2):
        operators.create()
    if silent.is_silent and world.chance(0.5):
        silences.ask_to_stop(cluster, PATIENCE_MS)
        world.after(world.between(0, PATIENCE_MS // 3), lambda: _wake(cluster, silent))
        world.run_until(world.now_ms + 2 * PATIENCE_MS, MAX_EVENTS)
    elif silent.is_silent:
        silent.p_refuses, silent.is_silent = 0.5, False
        world.run_until(world.now_ms + world.between(500, 4_000), MAX_EVENTS)
    _wake(cluster, silent)


def _until_answered(cluster: Cluster, brokers: Sequence[BrokerId]) -> bool:
    """Let time pass while a request waits for an answer of one of these brokers, and no longer than the limit. Return
    True if one did."""
    world = cluster.world
    begun_ms = world.now_ms
    while world.now_ms < begun_ms + BACKLOG_MS and any(_is_behind(cluster, broker) for broker in brokers):
        world.run_until(world.now_ms + LOOK_EVERY_MS, MAX_EVENTS)
    return world.now_ms > begun_ms


def until_all_have_had(cluster: Cluster, work_ms: int) -> None:
    """Let time pass until the znode of every marked topic is this old: a return from the trash creates it again.

    This ends: a topic that is back to be deleted does not go into the trash again."""
    world = cluster.world
    while (due_ms := _youngest_created_at_ms(cluster) + work_ms) > world.now_ms:
        world.run_until(due_ms, MAX_EVENTS)


def _youngest_created_at_ms(cluster: Cluster) -> int:
    nodes = (cluster.ensemble.model.node(paths.topic(name)) for name in cluster.ledger.marked)
    return max((node.created_at_ms for node in nodes if node is not None), default=0)


def _is_behind(cluster: Cluster, broker: BrokerId) -> bool:
    channels = (controller.channels.get(broker) for controller in cluster.controllers)
    return any(channel is not None and not channel.is_idle for channel in channels)


def _delete_elsewhere(cluster: Cluster, silent: AgentProcess, away: BrokerId | None) -> None:
    """Have every topic deleted that has no replica where nobody answers."""
    for name, incarnation in list(cluster.ledger.living.items()):
        if name not in cluster.ledger.marked and not {silent.id, away} & {*incarnation.brokers}:
            cluster.ensemble.operate(deletion_operation(name))


def _wake(cluster: Cluster, agent: AgentProcess) -> None:
    if agent.is_silent or agent.p_refuses:
        cluster.world.note(agent.name, "answers again")
        agent.is_silent, agent.p_refuses = False, 0.0
