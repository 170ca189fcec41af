"""The drawn state machines have every state, every arrow and words for each, and nothing else."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from lethe.controller.core.transitions import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS
from tools.flow_picture import STEPS, flow
from tools.state_drawing import (
    PARTITION_PLACES,
    PARTITION_WORDS,
    REPLICA_PLACES,
    REPLICA_WORDS,
    name,
    partitions,
    replicas,
)
from tools.state_machines_page import page

SVG = "{http://www.w3.org/2000/svg}"
Transitions = Mapping[Any, frozenset[Any]]


def edges(transitions: Transitions) -> set[tuple[enum.IntEnum, enum.IntEnum]]:
    return {(source, target) for target, sources in transitions.items() for source in sources}


@pytest.mark.parametrize(
    "draw,transitions,places",
    [(replicas, REPLICA_TRANSITIONS, REPLICA_PLACES), (partitions, PARTITION_TRANSITIONS, PARTITION_PLACES)],
    ids=["replicas", "partitions"],
)
def test_a_picture_has_a_box_for_each_state_and_an_arrow_for_each_transition(
    draw: Callable[[], str], transitions: Transitions, places: Iterable[enum.IntEnum]
) -> None:
    root = ElementTree.fromstring(draw())
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert [word for word in words if word in [name(state) for state in transitions]] == [name(each) for each in places]
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == len(edges(transitions))
    width, height = (float(root.get(side) or 0) for side in ("width", "height"))
    for path in arrows:
        numbers = re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d") or "")
        assert len(numbers) > 1
        assert all(0 < float(x) < width and 0 < float(y) < height for x, y in numbers)


def test_every_transition_has_its_words_and_no_other() -> None:
    assert set(REPLICA_WORDS) == edges(REPLICA_TRANSITIONS)
    assert set(PARTITION_WORDS) == edges(PARTITION_TRANSITIONS)
    words = [*REPLICA_WORDS.values(), *PARTITION_WORDS.values()]
    assert [each for each in words if f" | {each} |\n" not in page()] == []
    assert page().count("\n| ") == len(words) + 2


def test_the_picture_of_the_flow_explains_each_of_its_numbers_where_it_stands() -> None:
    words = [element.text for element in ElementTree.fromstring(flow()).iter(f"{SVG}text")]
    for number, step in enumerate(STEPS, 1):
        assert words.count(str(number)) == 2
        assert words.count(step) == 1
