"""The cores hold as much after many topics as after a few: what is kept for a deleted topic is a leak."""

from __future__ import annotations

import enum
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from random import Random
from types import FunctionType, MethodType
from typing import Any

import pytest

from lethe.admin.topic_plans import TopicPlan, creation_operations, deletion_operation
from lethe.broker.core import state as agent_state
from lethe.protocol.vocabulary import TopicId
from tests.simulation import convergence
from tests.simulation.cluster import Cluster
from tests.simulation.mix import draw, without_faults
from tests.simulation.switches import Switches
from tests.simulation.world import World

AGENTS, TOPICS = 4, 5
LIMIT_MS, MAX_EVENTS = 3_600_000, 1_000_000
ROUNDS = 12
_HAS_NO_PARTS = (int, str, bytes, float, type(None), type, enum.Enum, uuid.UUID, FunctionType, MethodType)


def held(root: object) -> Counter[str]:
    """Return the number of values below the object, by the first two attributes on the way to each."""
    counts: Counter[str] = Counter()
    pending: list[tuple[str, ...]] = [()]
    values: list[Any] = [root]
    seen: set[int] = set()
    while values:
        value, path = values.pop(), pending.pop()
        counts[".".join(path)] += 1
        if isinstance(value, _HAS_NO_PARTS) or id(value) in seen:
            continue
        seen.add(id(value))
        for name, part in _parts(value):
            values.append(part)
            pending.append(path if name is None else (*path, name)[:2])
    return counts


def _parts(value: Any) -> Iterable[tuple[str | None, object]]:
    if isinstance(value, Mapping):
        return ((None, part) for item in value.items() for part in item)
    if isinstance(value, tuple | list | set | frozenset | deque):
        return ((None, part) for part in value)
    if is_dataclass(value):
        return ((each.name, getattr(value, each.name)) for each in fields(value))
    names = [*getattr(value, "__dict__", ())]
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return ((name, getattr(value, name)) for name in names if hasattr(value, name))


def quiet_cluster() -> Cluster:
    """A cluster without faults whose processes have started."""
    mix = replace(without_faults(draw(Random(1))), agents=AGENTS, controllers=2, delete_delay_ms=0)
    cluster = Cluster(World(1), mix)
    for agent in cluster.agents.values():
        agent.start()
    for controller in cluster.controllers:
        controller.start()
    settle(cluster)
    return cluster


def settle(cluster: Cluster) -> None:
    cluster.world.run_until_quiet(LIMIT_MS, MAX_EVENTS)


def no_trouble(cluster: Cluster) -> None:
    """Deletions begin at once."""


def fail_over(cluster: Cluster) -> None:
    cluster.restart_later(convergence.active_controller(cluster))
    settle(cluster)


def lose_broker(cluster: Cluster) -> None:
    """Deletions begin while a broker is away; it returns afterwards."""
    last = list(cluster.agents.values())[-1]
    last.crash(session_expires_after_ms=0)
    cluster.world.after(1_000, last.start)


def pause(cluster: Cluster) -> None:
    """Topics are marked while deletions are paused; deletions resume afterwards."""
    switches = Switches(cluster)
    switches.pause()
    settle(cluster)
    cluster.world.after(1_000, switches.resume)


def create_and_delete(cluster: Cluster, number: int, trouble: Callable[[Cluster], None]) -> None:
    """Let topics of new names come and go."""
    names = [f"topic-{number}-{each}" for each in range(TOPICS)]
    for each, name in enumerate(names):
        topic_id = TopicId(uuid.UUID(int=(number << 32) + each + 1))
        # Broker 4 hosts every other topic; of the others it has only metadata.
        assignment = ((1, 2, 3), (4 - each % 2, 1, 2))
        operations = creation_operations(TopicPlan(name, topic_id, assignment), config_exists=False)
        assert cluster.ensemble.operate(*operations)
    settle(cluster)
    trouble(cluster)
    for name in names:
        assert cluster.ensemble.operate(deletion_operation(name))
    settle(cluster)
    convergence.everything(cluster, ())


@pytest.mark.parametrize("trouble", [no_trouble, fail_over, lose_broker, pause])
def test_deleted_topics_leave_nothing_in_memory(
    trouble: Callable[[Cluster], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_state, "MAX_TOMBSTONES", TOPICS)
    cluster = quiet_cluster()

    def look() -> dict[str, Counter[str]]:
        found = {str(agent.id): held(agent.state) for agent in cluster.agents.values()}
        return found | {"controller": held(convergence.active_controller(cluster).context)}

    create_and_delete(cluster, 0, trouble)
    create_and_delete(cluster, 1, trouble)
    early = look()
    for number in range(2, ROUNDS):
        create_and_delete(cluster, number, trouble)
    late = look()
    grown = {
        (holder, path): (early[holder][path], count)
        for holder, counts in late.items()
        for path, count in counts.items()
        if count > early[holder][path]
    }
    assert grown == {}
