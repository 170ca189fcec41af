"""The page of the state machines and the drawings beside it have every state and transition, and no other."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from lethe.controller.core.transitions import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS
from tools.state_machines_page import PARTITION_WORDS, REPLICA_WORDS, name, page

DOCS: Final = Path(__file__).parents[3] / "docs"
SVG: Final = "{http://www.w3.org/2000/svg}"
Transitions = Mapping[Any, frozenset[Any]]


def edges(transitions: Transitions) -> set[tuple[enum.IntEnum, enum.IntEnum]]:
    return {(source, target) for target, sources in transitions.items() for source in sources}


def boxes(root: ElementTree.Element) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each rectangle, by the text behind it."""
    drawn = [element for element in root if element.tag in (f"{SVG}rect", f"{SVG}text")]
    found = {}
    for box, words in itertools.pairwise(drawn):
        if box.tag == f"{SVG}rect" and words.tag == f"{SVG}text":
            x, y, width, height = (float(box.get(each) or 0) for each in ("x", "y", "width", "height"))
            found[words.text or ""] = (x, y, x + width, y + height)
    return found


def is_on_border(point: tuple[str, str], box: tuple[float, float, float, float]) -> bool:
    x, y = map(float, point)
    left, top, right, bottom = box
    is_inside = left - 0.1 <= x <= right + 0.1 and top - 0.1 <= y <= bottom + 0.1
    return is_inside and min(abs(x - left), abs(x - right), abs(y - top), abs(y - bottom)) < 0.1


@pytest.mark.parametrize(
    "file,transitions",
    [("states-of-replicas.svg", REPLICA_TRANSITIONS), ("states-of-partitions.svg", PARTITION_TRANSITIONS)],
)
def test_a_drawing_has_a_box_for_each_state_and_an_arrow_for_each_transition(
    file: str, transitions: Transitions
) -> None:
    root = ElementTree.parse(DOCS / file).getroot()
    box = boxes(root)
    assert {each for each in box if each[0].isupper()} == {name(state) for state in transitions}
    arrows = {path.get("id"): path.get("d") or "" for path in root.iter(f"{SVG}path") if path.get("marker-end")}
    assert set(arrows) == {f"{name(source)}-{name(target)}" for source, target in edges(transitions)}
    for source, target in edges(transitions):
        points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", arrows[f"{name(source)}-{name(target)}"])
        assert is_on_border(points[0], box[name(source)]), (source, target)
        assert is_on_border(points[-1], box[name(target)]), (source, target)


def test_every_transition_has_its_words_and_no_other() -> None:
    assert set(REPLICA_WORDS) == edges(REPLICA_TRANSITIONS)
    assert set(PARTITION_WORDS) == edges(PARTITION_TRANSITIONS)
    words = [*REPLICA_WORDS.values(), *PARTITION_WORDS.values()]
    assert [each for each in words if f" | {each} |\n" not in page()] == []
    assert page().count("\n| ") == len(words) + 2


def test_the_drawing_of_the_flow_has_each_number_twice_and_explains_it() -> None:
    words = [element.text for element in ElementTree.parse(DOCS / "flow.svg").iter(f"{SVG}text")]
    for number in range(1, 7):
        first, explained = (at for at, each in enumerate(words) if each == str(number))
        assert first < explained
        assert len(words[explained + 1] or "") > 2
