"""The simulator in small: a handful of seeds, one digest whatever the hash seed, and planted bugs that it has to find.

`python -m tests.simulation` runs as many seeds as one likes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.controller.core import deletion
from tests.simulation.big import Big
from tests.simulation.known_seeds import broken_rule, first_found, known_seeds
from tests.simulation.planted import BUGS
from tests.simulation.planting import method
from tests.simulation.runner import simulate
from tests.simulation.world import Violation, is_controller

ROOT = Path(__file__).parents[2]
SEEDS = range(25)
ENOUGH_SEEDS = 200


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_holds_every_invariant(seed: int) -> None:
    result = simulate(seed)
    shown = "\n".join(result.lines[-20:])
    command = f"python -m tests.simulation --seed {seed} --trace"
    assert result.violation is None, f"{result.violation}\n{shown}\nto see it again: {command}"


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    here = [(seed, simulate(seed).digest) for seed in range(5)]
    for hash_seed in ("0", "4242"):
        assert _digests_elsewhere(hash_seed) == here


def _digests_elsewhere(hash_seed: str) -> list[tuple[int, str]]:
    found = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seeds", "5", "--json"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return [(row["seed"], row["digest"]) for row in map(json.loads, found.stdout.splitlines())]


def test_different_seeds_are_different_runs() -> None:
    assert len({simulate(seed).digest for seed in range(10)}) == 10


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_breaks_its_rule_and_the_sound_run_of_the_seed_breaks_none(bug: str) -> None:
    known = known_seeds().get(bug)
    found = first_found(bug, known, range(ENOUGH_SEEDS))
    assert found is not None, f"{bug} was not found in {ENOUGH_SEEDS} seeds: the simulator is too kind"
    assert known is None or found.rule == known.rule, f"{bug} broke {known.rule}, now {found.rule}: `make known-seeds`"


def test_a_planted_bug_that_fails_by_itself_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outdated = method(deletion, "tombstone_is_settled", lambda step: True)
    monkeypatch.setattr("tests.simulation.known_seeds.BUGS", {"outdated": lambda: outdated})
    assert first_found("outdated", None, [1]) is None


@pytest.mark.parametrize(
    "violation, rule",
    [("S4: the marker of t0: it goes", "S4"), ("fault: KeyError: 't0'", "fault: KeyError")],
)
def test_the_rule_is_the_first_word_and_of_a_fault_its_error(violation: str, rule: str) -> None:
    assert broken_rule(violation) == rule


def test_a_planted_bug_is_gone_after_the_run() -> None:
    found = first_found("marker_first", known_seeds().get("marker_first"), range(ENOUGH_SEEDS))
    assert found is not None
    sound = simulate(found.seed)
    assert simulate(found.seed, planted=BUGS["marker_first"]()).violation is not None
    assert simulate(found.seed).digest == sound.digest


def big() -> Big:
    return Big(8, 12, 10, lambda act, events: None)


def test_a_large_cluster_keeps_every_promise() -> None:
    run = big()
    run.play()
    assert [act.name for act in run.acts][-1] == "deletion"
    assert not run.cluster.ledger.living


def test_a_thousand_agents_and_the_controllers_have_ids_of_their_own() -> None:
    run = Big(1_000, 200, 5, lambda act, events: None)
    agents, controllers = run.cluster.agents.keys(), {each.id for each in run.cluster.controllers}
    assert len(agents) == 1_000
    assert agents.isdisjoint(controllers)
    assert {broker for plan in run.plans for replicas in plan.assignment for broker in replicas} == agents
    assert [*map(is_controller, (999, 1_000, 1_009, 1_010))] == [False, True, True, False]


def test_a_promise_that_is_broken_in_a_large_cluster_is_found() -> None:
    run = big()
    with BUGS["marker_first"](), pytest.raises(Violation, match="removes the marker of topic-"):
        run.play()
