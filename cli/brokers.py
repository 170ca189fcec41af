"""`lethe brokers`: registered brokers, their load, and missing brokers."""

from __future__ import annotations

import typer

from lethe.cli import brokers_describe, brokers_list
from lethe.cli.commands import Command

app = typer.Typer(no_args_is_help=True, help="Show brokers: registered ones, and those that assignments still name.")
app.command("list", cls=Command)(brokers_list.list_brokers)
app.command("describe", cls=Command)(brokers_describe.describe)
