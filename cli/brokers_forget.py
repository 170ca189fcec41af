"""`lethe brokers forget`: gives up a broker that never returns, with what it owes."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.forgetting import SHOWN, ForgetPlan, forget, forget_plan, not_begun
from lethe.admin.marked_topics import AskController
from lethe.admin.outcomes import exit_of
from lethe.admin.refusal import Exit
from lethe.admin.standing_requests import until_interrupted
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.brokers_look import controller_asker
from lethe.cli.options import AsJson, DryRun, TimeoutMs, Yes, ZooKeeper
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import listed
from lethe.protocol.journal import JsonValue
from lethe.protocol.shell_words import operand
from lethe.protocol.zookeeper import paths
from lethe.survey.debts import debt_json

Id = Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker's id.", show_default=False)]


def forget_broker(
    zookeeper: ZooKeeper,
    broker: Id,
    yes: Yes = False,
    dry_run: DryRun = False,
    timeout_ms: TimeoutMs = 30_000,
    as_json: AsJson = False,
) -> None:
    """Give up a broker that never returns: what it owes is written off, and deletions that have begun end without it.

    Shows what that means and asks first. Living partitions are not touched. Exit code 1 where it is registered, where
    nothing names it, or where a marked topic's deletion has not begun; 3 where the controller has not answered in time,
    or where it was not seen whether a deletion has ended.
    """
    confirm = None if yes or dry_run else ask_user

    async def command() -> Answer:
        ask = controller_asker(offline=False)
        doing = functools.partial(
            forgetting, broker=broker, confirm=confirm, dry_run=dry_run, timeout_ms=timeout_ms, ask_controller=ask
        )
        return await with_session(zookeeper, doing)

    finish(command, as_json=as_json)


async def forgetting(
    session: ZooKeeperSession,
    broker: int,
    *,
    confirm: Confirm | None,
    dry_run: bool = False,
    timeout_ms: int = 30_000,
    ask_controller: AskController | None = None,
) -> Answer:
    """Show the plan, ask, request it, and return the controller's answer."""
    plan = await forget_plan(session, broker, ask_controller)
    data: dict[str, JsonValue] = {"plan": plan_json(plan), "forgotten": False, "problem": None}
    data |= {"not_ended": [], "not_ended_unseen": []}
    if dry_run:
        return Answer(data, (f"Broker {broker} would be forgotten.", *plan.lines()))
    await demand_agreement(plan.lines(), f"Forget broker {broker} for good?", confirm, data)
    interrupted = asyncio.Event()
    asked = forget(session, broker, timeout_ms=timeout_ms, stopping=interrupted)
    outcome = await until_interrupted(asked, interrupted, [paths.forget(broker)], note)
    data |= {"forgotten": outcome.problem is None, "problem": outcome.problem}
    lines = [*(() if confirm is not None else plan.lines()), outcome.problem or f"Broker {broker} is forgotten."]
    code = exit_of([outcome], interrupted=interrupted.is_set())
    if outcome.problem is None:
        waiting = await not_begun(session, plan.marked, plan.in_trash)
        data |= {"not_ended": [*waiting.topics], "not_ended_unseen": waiting.unseen_json()}
        if waiting.unseen:
            lines += waiting.unseen_lines()
            code = Exit.UNREACHABLE
        if held := waiting.topics:
            lines.append(
                f"Not ended: {listed(held, SHOWN)}. These deletions have not begun, and will wait for broker {broker}, "
                f"or owe it: see lethe explain {operand(held[0])}, and forget it again once they do."
            )
            code = Exit.NO
    return Answer(data, tuple(lines), exit=code)


def plan_json(plan: ForgetPlan) -> dict[str, JsonValue]:
    """Return the plan as data."""
    return {
        "broker": plan.broker,
        "debts": [] if plan.debts is None else [debt_json(debt) for debt in plan.debts.debts],
        "debts_unseen": [{"path": each.path, "why": each.reason} for each in plan.unseen],
        "marked_topics": [*plan.marked],
        "held_topics": [*plan.held],
        "also_elsewhere": {name: [*brokers] for name, brokers in plan.also_elsewhere},
        "in_trash": [*plan.in_trash],
        "only_here": [str(partition) for partition in plan.only_here],
        "only_here_in_trash": [*plan.only_here_in_trash],
        "one_replica_short": [str(partition) for partition in plan.short],
        "unknown": [*plan.unknown],
    }
