"""Names as words of a command line that is shown to be copied: quoted for a POSIX shell, and taken for what they are
where they begin with a `-`. Names of topics may begin so, and a marker in ZooKeeper may have any name."""

from __future__ import annotations

import shlex
from typing import Final

PLAIN: Final = "[A-Za-z0-9@%+=:,./_-]+"
"""What needs no quotes, as a regular expression for whole words."""


def operand(name: str) -> str:
    """Of a command, behind all its options: `orders`, `-- -orders`."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def option(option_name: str, value: str) -> str:
    """`--topic orders`, `--topic=-orders`."""
    return f"{option_name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"


def for_shell(template: str) -> str:
    """A command with `{topic}` in it, in which `{operand}` or `{option}` stands instead: what the functions of these
    names make of a topic."""
    return template.replace("--topic {topic}", "{option}").replace("{topic}", "{operand}")
