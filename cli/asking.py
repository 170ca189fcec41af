"""Asks for confirmation: at a terminal by a question, elsewhere by the option `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.render import note
from lethe.protocol.journal import JsonValue

Confirm = Callable[[str], bool]
"""Asks the question; returns True if the user agrees."""


def ask_user(question: str) -> bool:
    """Ask at the terminal. Raises Refusal without one."""
    if not sys.stdin.isatty():
        raise Refusal(f"{question} There is no terminal to answer on: give --yes to confirm", Exit.USAGE)
    return typer.confirm(question, err=True)


def demand_agreement(
    plan: Sequence[str], question: str, confirm: Confirm | None, data: dict[str, JsonValue] | None = None
) -> None:
    """Show the plan and ask; without `confirm` it is agreed to. Raises Refusal with the data if the user disagrees."""
    if confirm is None:
        return
    for line in plan:
        note(line)
    try:
        agreed = confirm(question)
    except Refusal as refusal:
        raise Refusal(str(refusal), refusal.exit, data) from None
    if not agreed:
        raise Refusal("nothing was done", data=data)
