"""The class of every command. It refuses a repeated option that takes one value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand, TyperOption

from lethe.protocol.counting import counted

if TYPE_CHECKING:
    from typer._click.core import Context


class Command(TyperCommand):
    """Refuses a second value of an option that takes one. Click would keep the last one silently."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for param, times in Counter(order).items():
            if times > 1 and isinstance(param, TyperOption) and not (param.multiple or param.is_flag or param.count):
                name = max(param.opts, key=len)
                raise typer.BadParameter(
                    f"{name} takes one value and is given {counted(times, 'time')}: give it once", ctx=ctx
                )
        return super().parse_args(ctx, args)
