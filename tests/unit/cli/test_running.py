"""From exceptions to exit codes, and that only one place prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer, Table
from lethe.cli.running import finish, finish_sync


def ended(error: BaseException, *, as_json: bool = False) -> int:
    async def command() -> Answer:
        raise error

    with pytest.raises(typer.Exit) as end:
        finish(command, as_json=as_json)
    return end.value.exit_code


@pytest.mark.parametrize(
    "error,code",
    [
        (Refusal("no"), Exit.NO),
        (Refusal("late", Exit.TIMED_OUT), Exit.TIMED_OUT),
        (ValueError("bad"), Exit.USAGE),
        (ConnectionRefusedError("nobody there"), Exit.UNREACHABLE),
        (TimeoutError(), Exit.TIMED_OUT),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (ZeroDivisionError("oops"), Exit.FAULT),
    ],
)
def test_exit_codes(error: BaseException, code: Exit, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(error) == code
    assert capsys.readouterr().out == ""


def test_only_faults_show_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    ended(Refusal("topic x does not exist"))
    assert capsys.readouterr().err == "lethe: topic x does not exist\n"
    ended(ZeroDivisionError("oops"))
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "fault of Lethe" in shown


def test_a_refusal_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(Refusal("no", Exit.NO, {"matched": ["a"]}), as_json=True) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "no", "exit": 1, "matched": ["a"]}


def test_an_answer_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("topic", "state"), (("orders[x]", "deleted"),), title="Topics")
    answer = Answer({"a": [1]}, ("first",), (table,), Exit.NO)
    with pytest.raises(typer.Exit) as end:
        finish_sync(lambda: answer)
    assert end.value.exit_code == 1
    shown = capsys.readouterr().out
    assert shown.startswith("first\nTopics")
    assert "orders[x]" in shown
    with pytest.raises(typer.Exit):
        finish_sync(lambda: answer, as_json=True)
    assert capsys.readouterr().out == '{"a":[1]}\n'


PRINTS_A_LOT = """
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.cli.running import finish_sync
import typer
LINES = Answer(None, ("line",) * 100_000, exit=Exit.TIMED_OUT)
TABLE = Answer(None, (), (Table(("column",), (("cell",),) * 10_000),), Exit.TIMED_OUT)
try:
    finish_sync(lambda: %s)
except typer.Exit as end:
    raise SystemExit(end.exit_code)
"""


@pytest.mark.parametrize("what", ["LINES", "TABLE"])
def test_a_reader_that_stops_early_changes_nothing_in_the_exit_code(what: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        program = [sys.executable, "-c", PRINTS_A_LOT % what]
        ran = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (Exit.TIMED_OUT, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that takes nothing")
def test_an_answer_that_cannot_be_written_is_said_to_be_lost() -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-c", PRINTS_A_LOT % "LINES"]
        ran = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == Exit.FAULT
    assert ran.stderr == b"lethe: the answer could not be written: No space left on device\n"
