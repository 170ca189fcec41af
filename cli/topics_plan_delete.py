"""`lethe topics plan-delete`, and what `lethe topics delete --plan` does before it marks topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from lethe.adapters.atomic_files import demand_replaceable, replace_file
from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.deletion_plan import (
    MAX_TOPICS,
    PlannedTopic,
    TopicDeletionPlan,
    decode_plan,
    demand_unchanged,
    encode_plan,
    summary,
)
from lethe.admin.deletion_plan_look import look
from lethe.admin.given_file import read_given
from lethe.admin.protection import demand_unprotected
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer, Table
from lethe.cli.asking import Confirm, demand_agreement
from lethe.cli.broker_access import reach_from
from lethe.cli.options import AsJson, CommandConfig, Expressions, TimeoutMs, TopicNames, ZooKeeper, given
from lethe.cli.running import finish
from lethe.cli.topics_delete_selection import selected
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted, plural
from lethe.protocol.journal import time_to_text
from lethe.protocol.shell_words import option
from lethe.survey.brokers import AskAbout, reused_connections

Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the plan to this file.", show_default=False)
]


def plan(
    zookeeper: ZooKeeper,
    names: Expressions = None,
    topic: TopicNames = None,
    out: Out = None,
    timeout_ms: TimeoutMs = 5_000,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Plan a deletion: what would go, who uses it, what it would wait for. Changes nothing.

    `lethe topics delete --plan FILE` carries the plan out, if nothing has changed since. Exit code 3 where something
    could not be seen; the plan says what.
    """

    async def command() -> Answer:
        expressions = given(names, topic)
        if not expressions:
            raise ValueError("which topics? Name them, or give a regular expression")
        if out is not None:
            demand_replaceable(out)
        reach = reach_from(command_config)
        HttpCredentials.from_environment().check()
        return await with_session(zookeeper, lambda session: planned(session, reach, expressions))

    async def planned(session: ZooKeeperSession, reach: BrokerReach, expressions: Sequence[str]) -> Answer:
        chosen = await selected(session, expressions, if_exists=False, confirm=None)
        if len(chosen) > MAX_TOPICS:
            raise Refusal(f"a plan has at most {MAX_TOPICS} topics, and these are {len(chosen)}: plan them in parts")
        async with reused_connections(reach, timeout_ms=timeout_ms) as ask:
            made = await look(session, reach, chosen, ask)
        if out is not None:
            replace_file(out, encode_plan(made).decode())
        return plan_answer(made, out)

    finish(command, as_json=as_json)


def plan_answer(made: TopicDeletionPlan, out: Path | None) -> Answer:
    """Return the plan as tables and as JSON."""
    import orjson

    lines = list(summary(made))
    lines += [f"every deletion {text}" for text in made.blockers]
    lines += [f"unseen: {text}" for text in made.all_unseen]
    if out is not None:
        lines.append(f"To carry it out: lethe topics delete {option('--plan', str(out))}")
    code = Exit.UNREACHABLE if made.all_unseen else Exit.OK
    return Answer(orjson.loads(encode_plan(made)), tuple(lines), plan_tables(made), code)


def plan_tables(made: TopicDeletionPlan) -> tuple[Table, ...]:
    """Return the topics, and the debts."""
    columns = ("topic", "partitions", "bytes", "records", "last write", "groups", "waits for")
    tables = [Table(columns, tuple(_row(topic) for topic in made.topics), "To be deleted")]
    if made.debts:
        rows = tuple(
            (str(debt.broker), str(debt.partitions), "unknown" if debt.size_bytes is None else f"{debt.size_bytes:,}")
            for debt in made.debts
        )
        title = "Owed with --owe, by brokers that are not registered"
        tables.append(Table(("broker", "partitions", "bytes"), rows, title))
    return tuple(tables)


def _row(topic: PlannedTopic) -> tuple[str, ...]:
    counts = [each.end - each.first for each in topic.partitions if each.end is not None and each.first is not None]
    is_counted = len(counts) == len(topic.partitions)
    no_write = "no records" if is_counted and not any(counts) else "unseen"
    groups = [f"{group.group}{' reads it' if group.is_reading else ''}" for group in topic.groups or ()]
    return (
        topic.topic,
        str(len(topic.partitions)),
        "unseen" if topic.size_bytes is None else f"{topic.size_bytes:,}",
        f"{sum(counts):,}" if is_counted else "unseen",
        no_write if topic.last_write_ms is None else time_to_text(topic.last_write_ms)[:19],
        "unseen" if topic.groups is None else "; ".join(groups) or "none",
        "; ".join(text.removeprefix("waits for ") for text in topic.blockers),
    )


# --- carrying out -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of `lethe topics delete --plan`."""

    path: Path
    allow_writes: bool
    accept_unseen: bool
    owe: bool
    confirm: Confirm | None
    dry_run: bool
    wait: bool
    timeout_ms: int
    show_progress: bool

    def demand_alone(self, *, named: bool) -> None:
        """Raise ValueError if the command line says too what is to be deleted."""
        if named:
            raise ValueError("--plan says which topics: give neither topics nor --unreadable nor --if-exists with it")


def plan_options(path: Path | None, *, allow_writes: bool, accept_unseen: bool, **others: Any) -> PlanOptions | None:
    """Return the options; None without --plan."""
    if path is None:
        return None
    return PlanOptions(path, allow_writes, accept_unseen, **others)


async def read_plan(path: Path) -> TopicDeletionPlan:
    """Read the plan in the file. Raises Refusal."""
    return decode_plan(await asyncio.to_thread(read_given, "--plan", path), str(path))


async def demand_as_planned(
    session: ZooKeeperSession, reach: BrokerReach, wanted: PlanOptions, agreed: TopicDeletionPlan, ask: AskAbout
) -> None:
    """Check that the cluster is as it was, and that the user agrees. Raises Refusal that names each change."""
    names = [each.topic for each in agreed.topics]
    await demand_unprotected(session, names)
    now = await look(session, reach, names, ask)
    demand_unchanged(agreed, now, allow_writes=wanted.allow_writes, accept_unseen=wanted.accept_unseen)
    question = f"Delete {plural(len(names), 'this', 'these')} {counted(len(names), 'topic')}, as planned?"
    await demand_agreement((*(f"  {name}" for name in names), *summary(agreed)), question, wanted.confirm)
