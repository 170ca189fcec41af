"""`lethe topics`: the commands of kafka-topics.sh, with its flags, through ZooKeeper."""

from __future__ import annotations

import typer

from lethe.cli.commands import group

app = typer.Typer(
    cls=group(
        {
            "create": "topics_create:create",
            "list": "topics_list:list_topics",
            "describe": "topics_describe:describe",
            "alter": "topics_alter:alter",
            "delete": "topics_delete:delete",
            "plan-delete": "topics_plan_delete:plan",
            "undelete": "topics_undelete:bring_back",
            "trash": "topics_trash:app",
            "pause-deletions": "topics_pause_deletions:pause",
            "resume-deletions": "topics_resume_deletions:resume",
        }
    ),
    no_args_is_help=True,
    help="Create, list, describe, alter and delete topics, as kafka-topics.sh does.",
)
