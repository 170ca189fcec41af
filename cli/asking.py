"""Asks for confirmation: at a terminal by a question, elsewhere by the option `--yes`.

The event loop runs on while the user reads: it keeps the ZooKeeper session alive. Ctrl-C cancels the command.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.render import note, prompt
from lethe.protocol.journal import JsonValue

Confirm = Callable[[str], Awaitable[bool]]
"""Asks the question; returns True if the user agrees."""

_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False, "": False}
_READ_BYTES: Final = 4096


async def agree(_: str) -> bool:
    """Agree without asking."""
    return True


async def ask_user(question: str) -> bool:
    """Ask at the terminal; the end of its input (Ctrl-D) is a no. Raises Refusal without a terminal."""
    if not sys.stdin.isatty():
        raise Refusal(f"{question} There is no terminal to answer on: give --yes to confirm", Exit.USAGE)
    while True:
        prompt(f"{question} [y/N]: ")
        answer = _ANSWERS.get((await _typed_line()).strip().lower())
        if answer is not None:
            return answer
        note("Error: invalid input")


async def demand_agreement(
    plan: Sequence[str], question: str, confirm: Confirm | None, data: dict[str, JsonValue] | None = None
) -> None:
    """Show the plan and ask; without `confirm` it is agreed to. Raises Refusal with the data if the user disagrees."""
    if confirm is None:
        return
    for line in plan:
        note(line)
    try:
        agreed = await confirm(question)
    except Refusal as refusal:
        raise Refusal(str(refusal), refusal.exit, data) from None
    if not agreed:
        raise Refusal("nothing was done", data=data)


async def _typed_line() -> str:
    """Return the next line of the terminal, without what follows it; what there is, perhaps nothing, where it ends."""
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    ended: asyncio.Future[None] = loop.create_future()
    typed = bytearray()

    def on_readable() -> None:
        # A terminal is readable when a line is complete, so one read returns at most that line.
        try:
            read = os.read(terminal, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        typed.extend(read)
        if (not read or read.endswith(b"\n")) and not ended.done():
            ended.set_result(None)

    loop.add_reader(terminal, on_readable)
    try:
        await ended
    finally:
        loop.remove_reader(terminal)
        if not typed.endswith(b"\n"):
            note("")
    return typed.decode(errors="replace")
