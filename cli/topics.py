"""`lethe topics`: the commands of kafka-topics.sh, with its flags, through ZooKeeper."""

from __future__ import annotations

import typer

from lethe.cli import (
    topics_alter,
    topics_create,
    topics_delete,
    topics_describe,
    topics_list,
    topics_pause_deletions,
    topics_resume_deletions,
)
from lethe.cli.commands import Command

app = typer.Typer(
    no_args_is_help=True, help="Create, list, describe, alter and delete topics, as kafka-topics.sh does."
)
app.command("create", cls=Command)(topics_create.create)
app.command("list", cls=Command)(topics_list.list_topics)
app.command("describe", cls=Command)(topics_describe.describe)
app.command("alter", cls=Command)(topics_alter.alter)
app.command("delete", cls=Command)(topics_delete.delete)
app.command("pause-deletions", cls=Command)(topics_pause_deletions.pause)
app.command("resume-deletions", cls=Command)(topics_resume_deletions.resume)
