"""The command `lethe`: its commands, which are in the modules of their names.

Exit codes: 0 done; 1 the answer is no; 2 bad usage or configuration; 3 ZooKeeper or a broker cannot be reached;
4 not done in the time allowed; 5 in use by another process; 6 a marked topic waits; 70 a fault of Lethe;
130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lethe.cli.commands import group
from lethe.cli.render import line

app = typer.Typer(
    name="lethe",
    cls=group(
        {
            "controller": "controller:controller",
            "broker": "broker:broker",
            "zookeeper": "zookeeper:zookeeper",
            "survey": "survey:survey",
            "explain": "explain:explain",
            "doctor": "doctor:doctor",
            "rescue": "rescue:rescue",
            "controller-resign": "controller_resign:controller_resign",
            "report": "report:report",
            "demo": "demo:demo",
            "topics": "topics:app",
            "brokers": "brokers:app",
            "partitions": "partitions:app",
            "pipeline": "pipeline:app",
        }
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="""A Kafka controller (ZooKeeper mode) whose topic deletions finish, or say what they wait for.

    Exit codes: 0 done; 1 the answer is no; 2 bad usage or configuration; 3 ZooKeeper or a broker cannot be reached;
    4 not done in the time allowed; 5 in use by another process; 6 a marked topic waits; 70 a fault of Lethe;
    130 interrupted. What is wrong with a command line, or with a file that it names, is said before the cluster is
    asked.
    """,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        line(f"lethe {version('lethe-kafka')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What all commands have in common; the help text is the application's."""


def main() -> None:
    """Entry point of the installed command."""
    app()
