"""Breadth-first search of every state, and of the states from which the end cannot be reached any more.

Breadth first, so that the first problem is met on a shortest path. A state is kept as a few bytes, compared as a whole:
no two states are taken for one because their hashes are equal. Transitions are kept as pairs of numbers, because the
second question needs them backwards: which states lead to an ended one?

    state           what the search says of it
    --------------  -----------------------------------------------------------------------------
    a problem       a check has failed on the transition that leads to it
    stuck           no path from it ends
    open            not followed because of `max_states`, or it leads only to such states
    anything else   a path from it ends
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.explore.actions import Bounds, Scene
from tests.explore.start import first_state
from tests.explore.world import State, Transition, World

_LOOK_EVERY: Final = 2_000


class Progress(NamedTuple):
    """How far the search is."""

    states: int
    waiting: int
    transitions: int
    depth: int


class Found(NamedTuple):
    """The result of a search."""

    bounds: Bounds
    scene: Scene
    states: int
    transitions: int
    depth: int
    """Transitions of the longest shortest path."""
    ended: int
    """States in which the deletion has ended and nothing is left to do."""
    stuck: int
    open: int
    seconds: float
    """Of the processor."""
    problem: str | None
    path: tuple[Transition, ...]
    """A shortest path to the problem; empty where there is none."""

    @property
    def is_clean(self) -> bool:
        return self.problem is None


STUCK: Final = "from here no path leads to the end of the deletion"


class Search:
    """One search."""

    def __init__(
        self,
        bounds: Bounds,
        scene: Scene,
        *,
        max_states: int = 5_000_000,
        look: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.world = World(scene)
        self.scene = scene
        self.bounds = bounds
        self._max_states = max_states
        self._look = look
        self.first = first_state(self.world, bounds)
        self._packed = struct.Struct(f"<{len(self.first)}I")
        self._numbers: dict[bytes, int] = {}
        self._states: list[bytes] = []
        self._parents = array("I")
        self._depths: list[int] = []
        """The number of the first state of each depth."""
        self._ends = array("I")
        """Up to where the transitions of each state that was followed go in `_targets`."""
        self._targets = array("I")
        self._ended = array("I")

    def run(self) -> Found:
        """Follow every state; stop at the first problem."""
        started_s = time.process_time()
        problem = self._follow_all()
        path: tuple[Transition, ...] = ()
        stuck, unfollowed = (0, 0)
        if problem is not None:
            path = (*self._path_to(problem[0]), problem[1])
        else:
            numbers, unfollowed = self._judge()
            stuck = len(numbers)
            path = tuple(self._path_to(numbers[0])) if numbers else ()
        return Found(
            self.bounds,
            self.scene,
            len(self._states),
            len(self._targets),
            len(self._depths) - 1,
            len(self._ended),
            stuck,
            unfollowed,
            time.process_time() - started_s,
            problem[1].problem if problem else STUCK if stuck else None,
            path,
        )

    # --- forwards --------------------------------------------------------------------------------------------------

    def _follow_all(self) -> tuple[int, Transition] | None:
        """Follow the states in the order in which they were found; return the first problem and the state before it."""
        self._number(self.first, 0)
        end_of_depth = 0
        at = 0
        while at < len(self._states):
            if at == end_of_depth:
                self._depths.append(at)
                end_of_depth = len(self._states)
            if len(self._states) >= self._max_states:
                break
            for transition in self.world.transitions(self._state(at)):
                if transition.problem is not None:
                    return at, transition
                self._targets.append(self._number(transition.state, at))
            self._ends.append(len(self._targets))
            at += 1
            if at % _LOOK_EVERY == 0:
                self._look(Progress(len(self._states), len(self._states) - at, len(self._targets), len(self._depths)))
        return None

    def _number(self, state: State, parent: int) -> int:
        packed = self._packed.pack(*state)
        number = self._numbers.get(packed)
        if number is None:
            number = self._numbers[packed] = len(self._states)
            self._states.append(packed)
            self._parents.append(parent)
            if self.world.is_ended(state):
                self._ended.append(number)
        return number

    def _state(self, number: int) -> State:
        return self._packed.unpack(self._states[number])

    # --- backwards -------------------------------------------------------------------------------------------------

    def _judge(self) -> tuple[list[int], int]:
        """Return the stuck states, the first found first, and how many are open."""
        before = self._reversed()
        ends = _reached(self._ended, before, len(self._states))
        unfollowed = _reached(range(len(self._ends), len(self._states)), before, len(self._states))
        stuck = [n for n in range(len(self._states)) if not ends[n] and not unfollowed[n]]
        return stuck, sum(1 for n in range(len(self._states)) if unfollowed[n] and not ends[n])

    def _reversed(self) -> tuple[array[int], array[int]]:
        """Return the sources of all transitions by target, and where those of each target begin."""
        begins = array("I", bytes(4 * (len(self._states) + 1)))
        for target in self._targets:
            begins[target + 1] += 1
        for n in range(len(self._states)):
            begins[n + 1] += begins[n]
        sources, at = array("I", bytes(4 * len(self._targets))), begins[:]
        begin = 0
        for source, end in enumerate(self._ends):
            for target in self._targets[begin:end]:
                sources[at[target]] = source
                at[target] += 1
            begin = end
        return sources, begins

    # --- paths -----------------------------------------------------------------------------------------------------

    def _path_to(self, number: int) -> list[Transition]:
        """Return a shortest path from the first state."""
        path: list[Transition] = []
        while number:
            parent = self._parents[number]
            wanted = self._state(number)
            path.append(next(each for each in self.world.transitions(self._state(parent)) if each.state == wanted))
            number = parent
        return path[::-1]


def _reached(first: Iterator[int] | array[int] | range, before: tuple[array[int], array[int]], count: int) -> bytearray:
    """Return for each state whether one of these can be reached from it."""
    sources, begins = before
    reached = bytearray(count)
    waiting = list(first)
    for number in waiting:
        reached[number] = 1
    while waiting:
        number = waiting.pop()
        for source in sources[begins[number] : begins[number + 1]]:
            if not reached[source]:
                reached[source] = 1
                waiting.append(source)
    return reached
