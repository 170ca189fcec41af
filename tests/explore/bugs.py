"""Bugs that the search must find, with the shortest path: some of the simulator's, some about debts and requests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from lethe.controller.core import debts, debts_written, undeleting
from lethe.controller.core.context import Context
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.zookeeper.operations import ReadOutcome
from tests.explore.actions import Bounds, Scene
from tests.simulation import bugs_control, bugs_deletion
from tests.simulation.planted import Bug
from tests.simulation.planting import everywhere


def debts_unwritten() -> AbstractContextManager[object]:
    """The znodes go, and what an absent broker still has is written nowhere."""
    return everywhere(debts_written.missing, lambda context, name, now_ms: ())


def compare_unread() -> AbstractContextManager[object]:
    """A debt is deleted whatever the compare was answered, so a later topic of that name is deleted instead."""
    return everywhere(debts._confirming, lambda is_compared: tuple(ErrorCode))


def inherited_mark_trusted() -> AbstractContextManager[object]:
    """A topic is brought back whose deletion a controller that died may have begun."""
    problem = undeleting._problem

    def trusting(context: Context, name: str, marker: ReadOutcome) -> str | None:
        found = problem(context, name, marker)
        return None if found == undeleting.INHERITED else found

    return everywhere(problem, trusting)


class Planted(NamedTuple):
    """A bug, a world in which it shows, and how its problem begins."""

    bug: Bug
    bounds: Bounds
    problem: str
    scene: Scene = Scene()
    is_slow: bool = False
    """Its shortest path is long: the search takes minutes."""


_NONE: Final = Bounds(crashes=0, absences=0)
_ABSENCE: Final = Bounds(crashes=0, absences=1)
_STUCK: Final = "from here no path"

BUGS: Final[Mapping[str, Planted]] = {
    each.bug.__name__: each
    for each in (
        Planted(bugs_deletion.marker_first, _NONE, "S4"),
        Planted(bugs_deletion.any_stop_answer_counts, _NONE, "S1"),
        Planted(bugs_deletion.never_retried, _ABSENCE, _STUCK),
        Planted(bugs_control.bounce_unnoticed, _ABSENCE, _STUCK),
        Planted(debts_unwritten, _ABSENCE, "S1", Scene(owe=True)),
        Planted(inherited_mark_trusted, Bounds(crashes=1, absences=0), "back", Scene(undelete=True), is_slow=True),
        Planted(compare_unread, Bounds(crashes=1, absences=1), "S2", Scene(owe=True), is_slow=True),
    )
}
