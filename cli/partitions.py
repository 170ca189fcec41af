"""`lethe partitions`: moving replicas and electing leaders, through ZooKeeper."""

from __future__ import annotations

import typer

from cli import partitions_elect, partitions_reassign

app = typer.Typer(no_args_is_help=True, help="Move replicas to other brokers, and elect leaders.")
app.command("reassign")(partitions_reassign.reassign)
app.command("elect")(partitions_elect.elect)
