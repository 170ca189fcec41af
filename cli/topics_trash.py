"""`lethe topics trash`: topics that were deleted with a grace period, and can be brought back."""

from __future__ import annotations

import typer

from lethe.cli.commands import group

app = typer.Typer(
    cls=group({"list": "topics_trash_list:list_trash", "purge": "topics_trash_purge:purge_topics"}),
    no_args_is_help=True,
    help="List topics in the trash, or delete them for good. `lethe topics undelete` brings them back.",
)
