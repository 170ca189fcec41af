"""The classes of every group and of every command.

A group imports the module of a command when the command is run or listed: `lethe broker` does not import what only
`lethe topics delete` needs. A command refuses a repeated option that takes one value.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_group

from lethe.cli.ways import choose_way, demand_zookeeper_only
from lethe.protocol.counting import counted

if TYPE_CHECKING:
    from typer._click.core import Command as AnyCommand
    from typer._click.core import Context


class Command(TyperCommand):
    """Refuses a second value of an option that takes one, which Click would replace silently, and all but one way to
    the cluster."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        demand_zookeeper_only(ctx, args)
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for param, times in Counter(order).items():
            if times > 1 and isinstance(param, TyperOption) and not (param.multiple or param.is_flag or param.count):
                name = max(param.opts, key=len)
                raise typer.BadParameter(
                    f"{name} takes one value and is given {counted(times, 'time')}: give it once", ctx=ctx
                )
        rest = super().parse_args(ctx, args)
        choose_way(ctx)
        return rest


def group(sources: Mapping[str, str]) -> type[TyperGroup]:
    """Return the class of a group. `sources` maps each command to `MODULE:NAME` in this package, in the order of the
    help. NAME is a function, or the `typer.Typer` of a group."""

    class Group(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = cast("MutableMapping[str, AnyCommand]", _Commands(sources))

    return Group


class _Commands(Mapping[str, "AnyCommand"]):
    """The commands of a group by name. A lookup imports the command."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def __getitem__(self, name: str) -> AnyCommand:
        module, _, attribute = self._sources[name].partition(":")
        found = getattr(importlib.import_module(f"lethe.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command = get_group(found)
            command.name = name
            return command
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=Command)(found)
        return get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
