"""The command `lethe`."""

from __future__ import annotations

import typer

app = typer.Typer(name="lethe", no_args_is_help=True, help="A Kafka controller whose topic deletions finish.")


@app.callback()
def _root() -> None:
    """A Kafka controller (ZooKeeper mode) whose topic deletions finish, or say what they wait for."""


def main() -> None:
    """Entry point of the installed command."""
    app()
