"""Topic names quoted for a POSIX shell, in commands that users copy.

A topic's name may start with `-`, and a marker in ZooKeeper may have any name: neither may be parsed as an option.
"""

from __future__ import annotations

import shlex
from typing import Final

PLAIN: Final = "[A-Za-z0-9@%+=:,./_-]+"
"""Pattern of words that need no quotes; match it against the whole word."""


def operand(name: str) -> str:
    """Quote an operand that follows all options: `orders`, `-- -orders`."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def option(option_name: str, value: str) -> str:
    """Quote an option's value: `--topic orders`, `--topic=-orders`."""
    return f"{option_name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"


def for_shell(template: str) -> str:
    """Replace `{topic}` by `{operand}` or `{option}`, to be filled with the results of the functions of these names."""
    return template.replace("--topic {topic}", "{option}").replace("{topic}", "{operand}")
