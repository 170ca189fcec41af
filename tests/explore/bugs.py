"""Bugs that the search must find, with the shortest path: those of the simulator that show in so small a world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.explore.actions import Bounds
from tests.simulation import bugs_control, bugs_deletion
from tests.simulation.planted import Bug


class Planted(NamedTuple):
    """A bug, bounds within which it shows, and how its problem begins."""

    bug: Bug
    bounds: Bounds
    problem: str


_QUIET: Final = Bounds(crashes=0, absences=0)
_STUCK: Final = "from here no path"

BUGS: Final[Mapping[str, Planted]] = {
    each.bug.__name__: each
    for each in (
        Planted(bugs_deletion.marker_first, _QUIET, "S4"),
        Planted(bugs_deletion.any_stop_answer_counts, _QUIET, "S1"),
        Planted(bugs_deletion.never_retried, _QUIET._replace(absences=1), _STUCK),
        Planted(bugs_control.bounce_unnoticed, _QUIET._replace(absences=1), _STUCK),
    )
}
