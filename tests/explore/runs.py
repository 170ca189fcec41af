"""The searches of `make explore`, and their short form, which `make test` takes."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.explore.actions import Bounds, Scene


class Run(NamedTuple):
    """One search."""

    bounds: Bounds
    scene: Scene


_BOTH: Final = Bounds(crashes=1, absences=1)
_CRASH: Final = Bounds(crashes=1, absences=0)
_ABSENCE: Final = Bounds(crashes=0, absences=1)
_NONE: Final = Bounds(crashes=0, absences=0)

SHORT: Final = (
    Run(_CRASH, Scene()),
    Run(_ABSENCE, Scene()),
    Run(_ABSENCE, Scene(owe=True)),
    Run(_ABSENCE, Scene(owe=True, gone=True)),
    Run(_CRASH, Scene(owe=True, away=True)),
    Run(_NONE, Scene(undelete=True)),
    Run(_NONE, Scene(undelete=True, again=True)),
    Run(_NONE, Scene(trash=True, again=True)),
    Run(_NONE, Scene(purge=True)),
)
"""One fault each; where broker 2 is away at the start, that is one more. With a trash, none."""

TRASH: Final = (
    Run(_CRASH, Scene(trash=True)),
    Run(_CRASH, Scene(purge=True)),
    Run(_ABSENCE, Scene(trash=True)),
    Run(_ABSENCE, Scene(owe=True, gone=True, trash=True)),
    Run(_ABSENCE, Scene(owe=True, gone=True, purge=True)),
    Run(_ABSENCE, Scene(owe=True, trash=True)),
    Run(_ABSENCE, Scene(owe=True, purge=True)),
    Run(_CRASH, Scene(owe=True, away=True, trash=True)),
)
"""The trash with one fault; where broker 2 is away at the end of the stay, its deletion is owed."""

LONG: Final = (
    *SHORT,
    *TRASH,
    Run(_NONE._replace(losses=2, haste=2), Scene()),
    Run(_CRASH, Scene(undelete=True)),
    Run(_BOTH, Scene(owe=True, gone=True)),
    Run(_BOTH, Scene()),
    Run(_BOTH, Scene(owe=True)),
    Run(_BOTH, Scene(owe=True, kafka=True)),
)
"""These, and two faults in any order."""
