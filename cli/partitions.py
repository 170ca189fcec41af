"""`lethe partitions`: moving replicas and electing leaders, through ZooKeeper."""

from __future__ import annotations

import typer

from lethe.cli import partitions_elect, partitions_reassign
from lethe.cli.commands import Command

app = typer.Typer(no_args_is_help=True, help="Move replicas to other brokers, and elect leaders.")
app.command("reassign", cls=Command)(partitions_reassign.reassign)
app.command("elect", cls=Command)(partitions_elect.elect)
