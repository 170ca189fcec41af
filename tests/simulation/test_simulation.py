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

from tests.simulation.planted import BUGS
from tests.simulation.runner import simulate

ROOT = Path(__file__).parents[2]
SEEDS = range(25)
ENOUGH_SEEDS = 200

FOUND_BY = {
    "fence_off": 13,
    "bounce_unnoticed": 3,
    "unknown_taken_for_done": 4,
    "memory_before_outcome": 0,
    "last_in_sync_dropped": 0,
    "always_unclean": 1,
    "verdict_after_tenure": 22,
    "done_after_tenure": 25,
    "let_go_at_once": 9,
    "given_to_who_leaves": 37,
    "notification_deleted_unread": 3,
    "configuration_not_followed": 0,
    "unreadable_taken_for_unset": 22,
    "znode_written_over": 9,
    "move_ended_unmarked": 49,
    "removed_replicas_forgotten": 9,
    "any_stop_answer_counts": 0,
    "answers_unmatched": 0,
    "tombstone_unanswered": 17,
    "no_evidence": 98,
    "failed_directory_overlooked": 0,
    "doomed_announced_again": 0,
    "marker_first": 0,
    "never_retried": 0,
    "missed_round_forgotten": 5,
    "confirmed_broker_awaited": 28,
    "expanded_while_deleted": 66,
    "pause_ignored": 0,
    "pause_unknown_after_failover": 8,
    "zero_id_taken_for_an_id": 0,
    "young_after_failover": 0,
    "epoch_never_raised": 28,
    "control_taken_unseen": 22,
    "powerless_for_ever": 22,
    "silence_awaited_for_ever": 1,
    "gone_before_it_is_sent": 1,
    "owed_settled_by_errors": 1,
    "told_while_it_owes": 20,
    "left_at_once": 48,
    "agent_ignores_broker_epoch": 2,
    "agent_ignores_controller_epoch": 11,
    "agent_adopts_any_controller_epoch": 63,
    "agent_ignores_topic_ids": 14,
    "agent_remembers_too_long": 61,
    "agent_knows_one_directory": 103,
    "replicas_left_on_controllers": 3,
    "ghosts_left": 0,
}
"""Where the search for each bug begins: a seed that found it once. Where the simulator has changed since, others do."""


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
def test_a_planted_bug_is_found(bug: str) -> None:
    first = FOUND_BY[bug]
    seeds = [first, *(seed for seed in range(ENOUGH_SEEDS) if seed != first)]
    found = next((seed for seed in seeds if simulate(seed, planted=BUGS[bug]()).violation is not None), None)
    assert found is not None, f"{bug} was not found in {ENOUGH_SEEDS} seeds: the simulator is too kind"


def test_a_planted_bug_is_gone_after_the_run() -> None:
    seed = FOUND_BY["marker_first"]
    sound = simulate(seed)
    assert simulate(seed, planted=BUGS["marker_first"]()).violation is not None
    assert simulate(seed).digest == sound.digest
