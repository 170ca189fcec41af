"""Every command of the command line: an option that takes one value is refused where it is given twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from lethe.cli.main import app

COMMAND = get_command(app)


def single_valued() -> Iterator[tuple[tuple[str, ...], TyperOption]]:
    """Each option with a value of each command, with the words that name the command."""

    def walk(command: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TyperOption]]:
        if isinstance(command, TyperGroup):
            for name, child in command.commands.items():
                yield from walk(child, (*path, name))
        else:
            for param in getattr(command, "params"):  # noqa: B009 -- typer's own click has no public types
                if isinstance(param, TyperOption) and not (param.multiple or param.is_flag or param.count):
                    yield path, param

    return walk(COMMAND, ())


CASES = [(path, max(option.opts, key=len)) for path, option in single_valued()]


def test_there_are_such_options() -> None:
    assert (("topics", "create"), "--partitions") in CASES
    assert len(CASES) > 50


@pytest.mark.parametrize("path, option", CASES, ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_a_second_value_is_refused(path: tuple[str, ...], option: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"{option} takes one value and is given 2 times") as refused:
        COMMAND.main([*path, option, "1", f"{option}=2"], standalone_mode=False)
    assert refused.value.exit_code == 2
