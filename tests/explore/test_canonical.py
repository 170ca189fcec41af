"""Equal forms for memories that behave alike, and for no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import Deletion, TombstoneRound
from lethe.controller.core.mutation import set_ineligible
from tests.explore.actions import Action, Bounds, Kind, Scene
from tests.explore.canonical import DUE_MS, FIRST_REQUEST_ID, START_MS, frozen, thawed
from tests.explore.start import first_state
from tests.explore.world import CONTROLLER, TOPIC, State, World

BOUNDS = Bounds(crashes=0, absences=0)
TO_DELETION = (
    Action(Kind.OPERATE, 0),
    Action(Kind.WATCH, 0),
    Action(Kind.SERVE, 0),
    Action(Kind.SERVE, 0),
)
"""The marker is written, seen and read; then the tombstones and the first StopReplicas are queued."""


@pytest.fixture
def world() -> World:
    return World(Scene())


def after(world: World, state: State, actions: Sequence[Action]) -> State:
    for action in actions:
        state = next(each.state for each in world.transitions(state) if each.action == action)
    return state


def in_deletion(world: World) -> State:
    return after(world, first_state(world, BOUNDS), TO_DELETION)


def memory(world: World, state: State) -> Context:
    """An independent copy of the active controller's memory."""
    return world.processes.contexts.memory(world.processes.numbers[state[CONTROLLER]].context)


def of_broker(broker: int) -> tuple[Action, Action]:
    return Action(Kind.DELIVER, 0, broker), Action(Kind.ANSWER, 0, broker)


def test_brokers_may_answer_in_either_order(world: World) -> None:
    begun = in_deletion(world)
    first, second = of_broker(0), of_broker(1)
    one = after(world, begun, [first[0], second[0], first[1], second[1]])
    other = after(world, begun, [second[0], first[0], first[1], second[1]])
    assert one == other != begun


def test_only_the_order_of_ids_matters() -> None:
    def form(*ids: int) -> object:
        return frozen([FIRST_REQUEST_ID + each for each in ids], START_MS)[0]

    assert form(0, 1, 1) == form(3, 70, 70)
    assert form(0, 1, 1) != form(1, 0, 0)
    assert form(0, 1, 1) != form(0, 1, 2)


def test_a_form_gives_back_the_memory(world: World) -> None:
    state = in_deletion(world)
    context = memory(world, state)
    form, _ = frozen(context, START_MS)
    again = thawed(form)
    again.last_request_id, again.last_effect_id = context.last_request_id, context.last_effect_id
    assert again == context
    again.cluster.deletions[TOPIC].problems.clear()
    again.cluster.deletions.clear()
    assert TOPIC in context.cluster.deletions
    assert frozen(memory(world, state), START_MS)[0] == form


def test_whatever_decides_is_in_the_form(world: World) -> None:
    """Each of these differences alone makes another form."""
    state = in_deletion(world)
    form, _ = frozen(memory(world, state), START_MS)
    others = [memory(world, state) for _ in range(6)]
    set_ineligible(others[0].cluster, others[0].cluster.deletions[TOPIC], True)
    others[1].cluster.topics[TOPIC].version += 1
    others[2].cluster.outstanding.popitem()
    others[3].cluster.deletions[TOPIC].retry_at_ms = DUE_MS
    others[4].cluster.shutting_down[next(iter(others[4].cluster.brokers))] = None
    others[5].cluster.outstanding = dict(reversed(others[5].cluster.outstanding.items()))
    forms = [frozen(each, START_MS)[0] for each in others]
    assert all(each != form for each in forms)
    assert len(set(forms)) == len(forms)


def test_counts_for_metrics_are_not_in_the_form(world: World) -> None:
    state = in_deletion(world)
    counted = memory(world, state)
    counted.elections += 1
    counted.cluster.deletions[TOPIC].attempts += 1
    assert frozen(counted, START_MS)[0] == frozen(memory(world, state), START_MS)[0]


def test_times_are_past_or_to_come() -> None:
    def form(at_ms: int, now_ms: int) -> object:
        return frozen({"at": at_ms}, now_ms)[0]

    assert form(START_MS, START_MS) == form(START_MS + 500, START_MS + 500) == form(DUE_MS, DUE_MS)
    assert form(START_MS + 500, START_MS) == form(DUE_MS, START_MS) != form(START_MS, START_MS)


def test_a_shared_mutable_value_has_no_form() -> None:
    shared = TombstoneRound({TOPIC: None})
    deletions = {name: Deletion(START_MS, START_MS, tombstones=shared) for name in ("one", "two")}
    with pytest.raises(ValueError, match="two places share one TombstoneRound"):
        frozen(deletions, START_MS)
