"""Questions at a terminal: what is typed, the event loop meanwhile, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from collections.abc import Iterator
from io import StringIO
from typing import NamedTuple

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.asking import ask_user, demand_agreement

PROMPT = "Really? [y/N]: "
COMMAND = """
import typer
from lethe.cli.answer import Answer
from lethe.cli.asking import ask_user, demand_agreement
from lethe.cli.running import finish
async def command():
    await demand_agreement(["the plan"], "Really?", ask_user)
    return Answer({}, ("done",))
typer.run(lambda: finish(command))
"""
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal(NamedTuple):
    """A terminal as standard input, and the descriptor of its keyboard."""

    keyboard: int

    def type(self, text: bytes) -> None:
        os.write(self.keyboard, text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    keyboard, line = pty.openpty()
    with os.fdopen(line) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield Terminal(keyboard)
    os.close(keyboard)


@pytest.mark.parametrize(
    "typed,agreed",
    [(b"y\n", True), (b"Yes \n", True), (b"n\n", False), (b"NO\n", False), (b"\n", False), (CTRL_D, False)],
)
async def test_what_is_typed(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], typed: bytes, agreed: bool
) -> None:
    terminal.type(typed)
    async with asyncio.timeout(10):
        assert await ask_user("Really?") is agreed
    assert capsys.readouterr().err == PROMPT + ("\n" if typed == CTRL_D else "")


async def test_garbage_is_asked_about_again_and_each_answer_is_one_line(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type(b"perhaps\ny\nn\n")
    async with asyncio.timeout(10):
        assert await ask_user("Really?")
        assert capsys.readouterr().err == f"{PROMPT}Error: invalid input\n{PROMPT}"
        assert not await ask_user("And this?")


async def test_the_end_of_input_behind_a_part_of_a_line_waits_for_the_rest(terminal: Terminal) -> None:
    terminal.type(b"ye" + CTRL_D + b"s\n")
    async with asyncio.timeout(10):
        assert await ask_user("Really?")


async def test_the_event_loop_runs_on_while_the_user_reads(terminal: Terminal) -> None:
    asked = asyncio.create_task(ask_user("Really?"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not asked.done()
    terminal.type(b"y\n")
    async with asyncio.timeout(10):
        assert await asked


async def test_a_question_that_is_cancelled_leaves_the_terminal(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = asyncio.create_task(ask_user("Really?"))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert capsys.readouterr().err == f"{PROMPT}\n"
    assert not asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


async def test_without_a_terminal_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    with pytest.raises(Refusal, match="no terminal to answer on: give --yes") as refused:
        await demand_agreement((), "Really?", ask_user, {"matched": ["orders"]})
    assert (refused.value.exit, refused.value.data) == (Exit.USAGE, {"matched": ["orders"]})


@pytest.mark.parametrize(
    "typed,code,said",
    [
        pytest.param(b"y\n", Exit.OK, "done", id="yes"),
        pytest.param(b"n\n", Exit.NO, "lethe: nothing was done", id="no"),
        pytest.param(CTRL_D, Exit.NO, "lethe: nothing was done", id="ctrl-d"),
        pytest.param(CTRL_C, Exit.INTERRUPTED, "interrupted", id="ctrl-c"),
    ],
)
def test_a_command_ends_at_its_question(typed: bytes, code: Exit, said: str) -> None:
    """In a terminal of its own, so that Ctrl-C is a signal."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", COMMAND])
    shown = b""
    try:
        while PROMPT.encode() not in shown:
            shown += os.read(terminal, 4096)
        os.write(terminal, typed)
        while more := _read(terminal):
            shown += more
        _, status = os.waitpid(process, 0)
    except BaseException:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == code
    assert shown.decode().rstrip().endswith(said)
    assert "Traceback" not in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # Linux reports a terminal without processes as EIO.
        return b""
