"""The verdict on a step, and the list of differences that are meant."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.judge.__main__ import completed, summary
from tests.judge.compare import Difference, Verdict, compare, unfound
from tests.judge.differences import DIFFERENCES
from tests.judge.run import Row, rows_of
from tests.judge.script import STEPS
from tests.judge.step import Answer, Client, NotRun, Outcome, Side, Step
from tests.judge.table import as_json, failures, lines, merged, rows_from

STEP = Step(Client.TOOLS, ("TopicCommand", "--list"))
LISTED = Difference("more topics", ("3.9.1 TopicCommand *",), frozenset({Side.LETHE}), "because")
HANG = Answer(None, (), 40.0)


def said(*words: str, code: int = 0, took_s: float = 0.1) -> Answer:
    return Answer(code, words, took_s)


@pytest.mark.parametrize(
    "kafka, other, verdict",
    [
        (said("a"), said("a", took_s=9.0), Verdict.SAME),
        (said("a"), said("b"), Verdict.DIFFERS),
        (said("a"), said("a", code=1), Verdict.DIFFERS),
        (said("a"), said("a", "b"), Verdict.DIFFERS),
        (said(), said("b"), Verdict.DIFFERS),
        (said("a"), HANG, Verdict.HANGS),
        (HANG, said("a"), Verdict.DIFFERS),
        (HANG, HANG, Verdict.SAME),
        (said("a"), NotRun("no kcat"), Verdict.NOT_RUN),
        (NotRun("no kcat"), said("a"), Verdict.NOT_RUN),
    ],
)
def test_the_verdict_is_about_code_and_lines(kafka: Outcome, other: Outcome, verdict: Verdict) -> None:
    assert compare(STEP, Side.LETHE, kafka, other, ()).verdict is verdict


def test_a_listed_difference_is_no_failure_and_shows_what_differs() -> None:
    compared = compare(STEP, Side.LETHE, said("a"), said("b"), [LISTED])
    assert compared.verdict is Verdict.LISTED
    assert compared.reason == "more topics"
    assert compared.changes == ("- a", "+ b")


def test_no_listed_difference_excuses_a_hang() -> None:
    assert compare(STEP, Side.LETHE, said("a"), HANG, [LISTED]).verdict is Verdict.HANGS


def test_a_listed_difference_counts_on_its_sides_and_for_its_steps_only() -> None:
    assert compare(STEP, Side.AGENTS, said("a"), said("b"), [LISTED]).verdict is Verdict.DIFFERS
    other = Step(Client.OLD_TOOLS, STEP.words)
    assert compare(other, Side.LETHE, said("a"), said("b"), [LISTED]).verdict is Verdict.DIFFERS


def test_a_listed_difference_that_no_step_has_is_named() -> None:
    assert unfound([LISTED], [""], [(STEP, Side.LETHE)]) == ["more topics"]
    assert unfound([LISTED], ["more topics"], [(STEP, Side.LETHE)]) == []
    # A run of other steps or sides says nothing about it.
    assert unfound([LISTED], [], [(Step(Client.PYTHON, ("aiokafka", "list")), Side.LETHE)]) == []
    assert unfound([LISTED], [], [(STEP, Side.AGENTS)]) == []


@pytest.mark.parametrize(
    "answers, code, left",
    [
        ([said("a"), said("a")], 0, 0),
        ([said("a")], 3, 1),
        ([], 3, 2),
        ([said("a"), NotRun("no kcat")], 3, 1),
        ([said("b")], 1, 1),
        ([HANG, said("a")], 1, 0),
    ],
)
def test_a_run_passes_only_if_every_step_was_compared(
    answers: list[Outcome], code: int, left: int, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [STEP, Step(Client.KCAT, ("-C", "-t", "placed"))]
    rows = completed(steps, {Side.KAFKA: [said("a"), said("a")], Side.AGENTS: answers})
    assert summary(steps, [Side.AGENTS], rows) == code
    assert f"not compared: {left}\n" in capsys.readouterr().err


def rows() -> list[Row]:
    outcomes = {Side.KAFKA: [said("a"), said("b")], Side.LETHE: [said("a"), HANG]}
    return rows_of([STEP, Step(Client.KCAT, ("-L",))], outcomes, ())


def test_a_row_has_both_times_and_can_be_read_back() -> None:
    first, second = rows()
    assert (first.kafka_s, first.sides["lethe"].took_s) == (0.1, 0.1)
    assert second.kafka == ("exit code 0", "b")
    assert [Row.read(row.document()) for row in rows()] == rows()


def test_the_record_has_one_step_on_each_line() -> None:
    first, second = as_json(rows()).splitlines()[1:-1]
    assert '"step": "3.9.1 TopicCommand --list"' in first
    assert '"step": "kcat -L"' in second
    assert rows_from(as_json(rows())) == rows()
    assert rows_from(as_json([])) == []


def test_the_table_shows_what_fails() -> None:
    assert [(row.step, side) for row, side in failures(rows())] == [("kcat -L", "lethe")]
    text = "\n".join(lines(rows()))
    assert "| `3.9.1 TopicCommand --list` | 0.1 | same (0.1) |" in text
    assert "| `kcat -L` | 0.1 | **hangs** (40.0) |" in text
    assert "    + (no answer in time)" in text


def test_a_record_of_some_steps_and_sides_leaves_the_others() -> None:
    first, second = rows()
    agents = rows_of([STEP], {Side.KAFKA: [said("a")], Side.AGENTS: [said("b")]}, ())
    gone, both = merged([second, first], agents, [second.step, first.step, "new"])
    assert gone == second
    assert {side: cell.verdict for side, cell in both.sides.items()} == {"lethe": "same", "agents": "differs"}
    assert merged([first, second], [], [second.step]) == [second]
    assert "| `kcat -L` | 0.1 | **hangs** (40.0) | – |" in "\n".join(lines([gone, both]))


def test_every_step_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(step.name for step in STEPS).items() if count > 1] == []


def test_every_listed_difference_is_about_a_step_of_the_script_and_gives_a_reason() -> None:
    for each in DIFFERENCES:
        assert each.why
        assert any(each.covers(step, side) for step in STEPS for side in each.sides), each.title
        for name in each.steps:
            one = Difference(each.title, (name,), each.sides, each.why)
            assert any(one.covers(step, side) for step in STEPS for side in each.sides), name
