"""`lethe brokers`: registered brokers, their load, and missing brokers."""

from __future__ import annotations

import typer

from lethe.cli.commands import group

app = typer.Typer(
    cls=group(
        {
            "list": "brokers_list:list_brokers",
            "describe": "brokers_describe:describe",
            "settle": "brokers_settle:settle",
            "forget": "brokers_forget:forget_broker",
        }
    ),
    no_args_is_help=True,
    help="Show brokers: registered ones, and those that assignments still name.",
)
