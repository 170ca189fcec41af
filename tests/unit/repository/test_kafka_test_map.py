"""The page that maps Kafka's tests to ours names tests that exist, and has a row for each of Kafka's."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from lethe.controller.core.transitions import PartitionState, ReplicaState

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "tests" / "kafka-test-map.md").read_text(encoding="utf-8")
BUGS = (ROOT / "tests" / "kafka-bugs.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE + BUGS)))
ROWS = {
    "TopicDeletionManagerTest": 4,
    "DeleteTopicTest": 13,
    "ReplicaStateMachineTest": 45,
    "PartitionStateMachineTest": 22,
    "PartitionLeaderElectionAlgorithmsTest": 13,
    "ControllerEventManagerTest": 6,
    "ControllerChannelManagerTest": 18,
    "ControllerContextTest": 10,
    "ControllerIntegrationTest": 54,
    "CreateTopicsRequestTest": 7,
    "DeleteTopicsRequestTest": 20,
    "PlaintextAdminIntegrationTest": 40,
    "ReassignPartitionsIntegrationTest": 11,
    "Related classes": 43,
}
"""How many tests each class has in Kafka 3.9; of the related classes, those that concern controllers and deletion."""
REASONS = ("Lethe leaves `/feature` alone", "About what brokers answer to clients")


@cache
def names_in(path: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


def rows_of(section: str) -> list[tuple[str, str]]:
    body = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in body.splitlines() if line.startswith("| ") and "Kafka’s test" not in line]
    return [(cells[1].strip(), cells[2].strip()) for cells in (line.split("|") for line in lines)]


@pytest.mark.parametrize("path, name", NAMED)
def test_named_test_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists(), f"the page names {path}, which is not there"
    assert name in names_in(path), f"the page names {name}, which {path} does not have"


@pytest.mark.parametrize("section", ROWS)
def test_every_test_of_kafkas_has_a_row_that_names_a_test_or_a_reason(section: str) -> None:
    rows = rows_of(section)
    assert len({kafka for kafka, _ in rows}) == len(rows) == ROWS[section]
    for kafka, answer in rows:
        assert "::test_" in answer or any(reason in answer for reason in REASONS), f"{kafka} has neither"


def test_the_cases_that_are_named_are_pairs_of_states() -> None:
    pairs = {f"{a.name} to {b.name}" for states in (PartitionState, ReplicaState) for a in states for b in states}
    assert set(re.findall(r"case \*(.+?)\*", PAGE)) <= pairs


def test_every_bug_has_a_test_or_cannot_arise() -> None:
    rows = [line.split("|") for line in BUGS.splitlines() if re.match(r"\| (KAFKA-\d+|\d+)", line)]
    assert len(rows) > 75
    for cells in rows:
        answer = cells[3]
        assert "::test_" in answer or "*Cannot arise*" in answer, f"{cells[1]} has neither"
