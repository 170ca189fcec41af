"""Kafka's answers that are kept for the next run."""

from __future__ import annotations

from pathlib import Path

from tests.judge.kept import keep, kept
from tests.judge.step import Answer, Client, NotRun, Outcome, Step

LIST, KCAT, CREATE = (
    Step(Client.TOOLS, ("TopicCommand", "--list")),
    Step(Client.KCAT, ("-L",)),
    Step(Client.ADMIN, ("create", "a:1:1")),
)
SAID: list[Outcome] = [Answer(0, ("orders", "größe"), 0.2), NotRun("kcat is not installed"), Answer(None, (), 20.0)]


def test_answers_are_read_as_they_were_given(tmp_path: Path) -> None:
    keep(tmp_path / "build" / "kafka.json", [LIST, KCAT, CREATE], SAID)
    assert kept(tmp_path / "build" / "kafka.json", [LIST, KCAT, CREATE]) == SAID


def test_after_a_step_that_is_new_nothing_is_used(tmp_path: Path) -> None:
    keep(tmp_path / "kafka.json", [LIST, KCAT, CREATE], SAID)
    assert kept(tmp_path / "kafka.json", [LIST, CREATE, KCAT]) == SAID[:1]
    assert kept(tmp_path / "kafka.json", [CREATE, LIST, KCAT]) == []


def test_a_run_that_was_interrupted_keeps_what_was_asked(tmp_path: Path) -> None:
    keep(tmp_path / "kafka.json", [LIST, KCAT, CREATE], SAID[:2])
    assert kept(tmp_path / "kafka.json", [LIST, KCAT, CREATE]) == SAID[:2]


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    assert kept(tmp_path / "kafka.json", [LIST]) == []
