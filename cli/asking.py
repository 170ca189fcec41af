"""Asking before something is done: at a terminal a question, everywhere else the option `--yes`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.render import note
from lethe.protocol.journal import JsonValue

Confirm = Callable[[str], bool]
"""Puts the question to whoever decides."""


def ask_user(question: str) -> bool:
    """Asks at the terminal. Raises Refusal where nobody sits at one."""
    if not sys.stdin.isatty():
        raise Refusal(f"{question} Nobody can be asked here: give --yes to agree", Exit.USAGE)
    return typer.confirm(question, err=True)


def demand_agreement(
    plan: Sequence[str], question: str, confirm: Confirm | None, data: dict[str, JsonValue] | None = None
) -> None:
    """Shows the plan and asks; without `confirm` it is agreed to. Raises Refusal, with the data, where it is not."""
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
