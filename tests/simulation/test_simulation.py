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

from tests.simulation.big import Big
from tests.simulation.planted import BUGS
from tests.simulation.runner import simulate
from tests.simulation.world import Violation

ROOT = Path(__file__).parents[2]
SEEDS = range(25)
ENOUGH_SEEDS = 200

FOUND_BY = {
    "removed_taken_for_vanished": 0,
    "changes_during_removal_missed": 1,
    "removed_twice": 1,
    "outcome_of_an_earlier_term": 12,
    "fence_in_background_ignored": 72,
    "any_task_between_slices": 0,
    "oldest_slice_gets_the_result": 4,
    "slice_announced_unwritten": 69,
    "slice_announces_the_doomed": 0,
    "fence_off": 4,
    "bounce_unnoticed": 1,
    "unknown_taken_for_done": 14,
    "memory_before_outcome": 0,
    "last_in_sync_dropped": 1,
    "always_unclean": 2,
    "verdict_after_term": 20,
    "done_after_term": 20,
    "let_go_at_once": 6,
    "given_to_who_leaves": 6,
    "notification_deleted_unread": 7,
    "configuration_not_followed": 27,
    "unreadable_taken_for_unset": 2,
    "znode_written_over": 10,
    "move_ended_unmarked": 176,
    "removed_replicas_forgotten": 7,
    "deleted_without_compare": 34,
    "zero_id_compared": 19,
    "znodes_go_before_the_debt": 19,
    "debt_of_the_living_paid": 34,
    "epoch_not_raised": 34,
    "earlier_incarnation_counts": 34,
    "never_asked_on_return": 19,
    "owed_though_registered": 28,
    "withheld_for_ever": 38,
    "any_stop_answer_counts": 0,
    "answers_unmatched": 0,
    "tombstone_unanswered": 30,
    "no_evidence": 13,
    "whole_column_acknowledged": 22,
    "failed_directory_overlooked": 56,
    "doomed_announced_again": 0,
    "marker_first": 0,
    "never_retried": 0,
    "missed_round_forgotten": 85,
    "confirmed_broker_awaited": 41,
    "expanded_while_deleted": 9,
    "pause_ignored": 9,
    "pause_unknown_after_failover": 2,
    "zero_id_taken_for_an_id": 31,
    "young_after_failover": 0,
    "last_part_counts": 38,
    "busy_taken_for_silent": 38,
    "protected_deleted": 20,
    "patterns_not_followed": 0,
    "pace_forgotten_at_the_timer": 14,
    "bucket_always_full": 77,
    "turn_not_noted": 14,
    "epoch_never_raised": 33,
    "control_taken_unseen": 30,
    "powerless_for_ever": 5,
    "silence_awaited_for_ever": 1,
    "gone_before_it_is_sent": 30,
    "owed_settled_by_errors": 1,
    "told_while_it_owes": 31,
    "left_at_once": 50,
    "agent_ignores_broker_epoch": 0,
    "agent_ignores_controller_epoch": 0,
    "agent_adopts_any_controller_epoch": 14,
    "agent_ignores_topic_ids": 11,
    "agent_remembers_too_long": 89,
    "agent_knows_one_directory": 2,
    "replicas_left_on_controllers": 3,
    "ghosts_left": 1,
}
"""Where the search for each bug begins: the first seed that found it. Where the simulator has changed, others do."""


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


def big() -> Big:
    return Big(8, 12, 10, lambda act, events: None)


def test_a_large_cluster_keeps_every_promise() -> None:
    run = big()
    run.play()
    assert [act.name for act in run.acts][-1] == "deletion"
    assert not run.cluster.ledger.living


def test_a_promise_that_is_broken_in_a_large_cluster_is_found() -> None:
    run = big()
    with BUGS["marker_first"](), pytest.raises(Violation, match="removes the marker of topic-"):
        run.play()
