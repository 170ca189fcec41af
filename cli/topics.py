"""`lethe topics`: the commands of kafka-topics.sh, with its flags, through ZooKeeper."""

from __future__ import annotations

import typer

from cli import (
    topics_alter,
    topics_create,
    topics_delete,
    topics_describe,
    topics_list,
    topics_pause_deletions,
    topics_resume_deletions,
)

app = typer.Typer(
    no_args_is_help=True, help="Create, list, describe, alter and delete topics, as kafka-topics.sh does."
)
app.command("create")(topics_create.create)
app.command("list")(topics_list.list_topics)
app.command("describe")(topics_describe.describe)
app.command("alter")(topics_alter.alter)
app.command("delete")(topics_delete.delete)
app.command("pause-deletions")(topics_pause_deletions.pause)
app.command("resume-deletions")(topics_resume_deletions.resume)
