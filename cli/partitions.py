"""`lethe partitions`: moving replicas and electing leaders, through ZooKeeper."""

from __future__ import annotations

import typer

from lethe.cli.commands import group

app = typer.Typer(
    cls=group(
        {
            "reassign": "partitions_reassign:reassign",
            "elect": "partitions_elect:elect",
        }
    ),
    no_args_is_help=True,
    help="Move replicas to other brokers, and elect leaders.",
)
