"""The first state: a cluster at rest. The topic is served by both brokers, controller 1000 leads, 1001 stands by.

In the scene `away`, broker 2 then dies, topic A is marked, and the cluster is at rest again: A waits, or is owed.
"""

from __future__ import annotations

from typing import Final

from lethe.protocol.vocabulary import BrokerEpoch
from tests.explore.actions import Bounds, Kind
from tests.explore.kafka_broker import KafkaBroker
from tests.explore.world import BROKERS, CONTROLLER, CONTROLLERS, FAULT, ZOOKEEPER, State, World
from tests.explore.zookeeper import FIRST, OPERATOR

_GOING_ON: Final = (Kind.SERVE, Kind.WATCH, Kind.WRITTEN, Kind.DELIVER, Kind.ANSWER)
_AWAY: Final = (Kind.LEAVE, Kind.BROKER_SESSION_ENDS, Kind.OPERATE)


def first_state(world: World, bounds: Bounds) -> State:
    """Return the first state of the search."""
    zookeeper = world.zookeeper.empty()
    brokers = [KafkaBroker(broker, True, BrokerEpoch(10 * broker)) for broker in BROKERS]
    for broker in brokers:
        zookeeper, _ = world.register(zookeeper, broker)
    for operations in filter(None, (world.operator.roots(), world.operator.creation(0))):
        zookeeper = world.zookeeper.multi(zookeeper, OPERATOR, operations, FIRST).state
    down = tuple(world.processes.down() for _ in CONTROLLERS)
    state: State = (zookeeper, *down, *map(world.brokers.of, brokers), 0, 0, 0, 0, *Bounds(crashes=0, absences=1))
    for at in range(len(CONTROLLERS)):
        state = _at_rest(world, _started(world, state, at))
    for kind in _AWAY if world.scene.away else ():
        state = _at_rest(world, _next(world, state, (kind,)))
    return (*state[:FAULT], *bounds)


def _at_rest(world: World, state: State) -> State:
    while True:
        before, state = state, _next(world, state, _GOING_ON)
        if state == before:
            return state


def _next(world: World, state: State, kinds: tuple[Kind, ...]) -> State:
    """Return the state after the first of these kinds that can happen; the same state if none can."""
    found = next((each for each in world.transitions(state) if each.action.kind in kinds), None)
    if found is None:
        return state
    assert found.problem is None, found.problem
    return found.state


def _started(world: World, state: State, at: int) -> State:
    process = world.processes.started(state[CONTROLLER + at], at)
    moved = world.processes.connect(state[ZOOKEEPER], process, CONTROLLERS[at])
    assert not moved.fired
    return (moved.zookeeper, *state[1 : CONTROLLER + at], moved.process, *state[CONTROLLER + at + 1 :])
