"""The search finds nothing in the core as it is, and each planted bug, with a shortest path in words."""

from __future__ import annotations

import json

import pytest

from tests.explore.__main__ import main
from tests.explore.actions import Bounds, Scene
from tests.explore.bugs import BUGS, Planted
from tests.explore.runs import SHORT, Run
from tests.explore.search import STUCK, Found, Search
from tests.explore.words import told

QUIET = Bounds(crashes=0, absences=0)
NOTHING_OWED = Scene()


def explore(bounds: Bounds, scene: Scene = NOTHING_OWED, max_states: int = 1_000_000) -> tuple[Found, list[str]]:
    search = Search(bounds, scene, max_states=max_states)
    found = search.run()
    return found, list(told(search.world, found.path, search.first))


RUNS = (Run(QUIET._replace(losses=1, haste=1), Scene()), *SHORT)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_every_state_is_good(run: Run) -> None:
    found, lines = explore(*run)
    assert found.problem is None, "\n".join(lines)
    assert found.ended > 0
    assert found.stuck == found.open == 0


def test_two_searches_are_the_same_search() -> None:
    (one, _), (other, _) = explore(QUIET._replace(losses=1)), explore(QUIET._replace(losses=1))
    assert one._replace(seconds=0) == other._replace(seconds=0)


def test_a_search_that_is_cut_off_says_what_is_open() -> None:
    found, _ = explore(QUIET, max_states=100)
    assert found.problem is None
    assert found.open == found.states == 100


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(each, id=name, marks=[pytest.mark.slow, pytest.mark.long] * each.is_slow)
        for name, each in BUGS.items()
    ],
)
def test_finds_planted_bug(planted: Planted) -> None:
    with planted.bug():
        found, lines = explore(planted.bounds, planted.scene)
    assert found.problem is not None
    assert found.problem.startswith(planted.problem)
    assert lines[0].startswith("  1  ")
    assert lines[-1].startswith("  =  ZooKeeper has ")
    assert (found.problem == STUCK) is (found.stuck > 0)


def test_tells_what_it_found_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--crashes", "0", "--absences", "0", "--bug", "marker_first", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert code == 1
    assert said["problem"] == "S4: the marker is removed while its topic's znode is there"
    assert said["bounds"] == QUIET._asdict()
    assert said["path"][0] == "  1  The operator marks topic A for deletion."


def test_says_that_there_is_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--crashes", "0", "--absences", "0"]) == 0
    assert "no problem; the deletion has ended in 1 state, to which every other leads" in capsys.readouterr().out
    assert main(["--crashes", "0", "--absences", "0", "--max-states", "100"]) == 2
    assert "but for 100 states that the search has not followed to the end" in capsys.readouterr().out
