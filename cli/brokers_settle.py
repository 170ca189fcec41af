"""`lethe brokers settle`: has a broker that is back delete what it owes of deleted topics."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.broker_access import reach_from
from lethe.cli.options import AsJson, CommandConfig, TimeoutMs, Yes, ZooKeeper
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import access_variables, with_session
from lethe.protocol.journal import JsonValue
from lethe.survey.debts import by_broker, debt_json

if TYPE_CHECKING:
    from lethe.admin.rescue_run import RescueOptions

QUESTION: Final = "Take control of the cluster for that? No other deletion is carried out, and control goes back."
Id = Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker's id.", show_default=False)]
Script = Annotated[
    bool,
    typer.Option(
        "--script", help="Only print a shell script that removes it on the broker's host while the broker is stopped."
    ),
]


def settle(
    zookeeper: ZooKeeper,
    broker: Id,
    script: Script = False,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 120_000,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have a broker that is back delete what it owes of deleted topics.

    Lethe's controller does that by itself, and is waited for. Under Kafka's controller, which does not, control is
    taken for it, as by lethe rescue. Exit code 1 where the broker is not registered; 3 where it has gone meanwhile, so
    that it is not known what it has deleted; 4 where something is left when the time is over.
    """
    import logging

    from lethe.admin.rescue_run import RescueOptions

    logging.basicConfig(level=logging.ERROR, format="%(message)s")

    async def checked() -> Answer:
        reach, access = reach_from(command_config), access_variables(os.environ)
        options = RescueOptions(zookeeper, reach, timeout_ms=timeout_ms, access=access)

        async def command(session: ZooKeeperSession) -> Answer:
            if script:
                return await printed(session, broker)
            return await settled(session, broker, options, confirm=None if yes else ask_user, say=note)

        return await with_session(zookeeper, command)

    finish(checked, as_json=as_json)


async def printed(session: ZooKeeperSession, broker: int) -> Answer:
    """Return the script."""
    from lethe.admin import settling

    debts = await settling.own_debts(session, broker)
    kept = await settling.kept_because(session, debts)
    lines = settling.script(broker, debts, kept)
    data: dict[str, JsonValue] = {
        "broker": broker,
        "debts": [debt_json(debt) for debt in debts],
        "kept": [{"path": path, "why": why} for path, why in kept.items()],
        "script": "".join(f"{line}\n" for line in lines),
    }
    return Answer(data, lines)


async def settled(
    session: ZooKeeperSession,
    broker: int,
    options: RescueOptions,
    *,
    confirm: Confirm | None,
    say: Callable[[str], None],
) -> Answer:
    """Ask where control has to be taken, have the debts settled, and return what is left."""
    from lethe.admin import settling

    plan = await settling.settle_plan(session, broker)
    if not plan.debts:
        return Answer({"broker": broker, "settled": [], "unseen": [], "left": []}, (f"Broker {broker} owes nothing.",))
    (owing,) = by_broker(plan.debts)
    if plan.takes_control:
        await demand_agreement([f"Broker {broker} owes {owing.text}."], QUESTION, confirm)
    left = await settling.settle(session, plan, options, say)
    open_paths = {debt.path for debt in left}
    gone = [debt for debt in plan.debts if debt.path not in open_paths]
    # Whoever has forgotten it meanwhile has written its debts off.
    is_there = not gone or await settling.is_registered(session, broker)
    lines = [f"{owed.text[:1].upper()}{owed.text[1:]}: {_ended(broker, is_there=is_there)}" for owed in by_broker(gone)]
    lines += [f"Left: {owed.text}. lethe explain TOPIC and the broker's log say more." for owed in by_broker(left)]
    data: dict[str, JsonValue] = {
        "broker": broker,
        "settled": [debt_json(debt) for debt in gone if is_there],
        "unseen": [debt_json(debt) for debt in gone if not is_there],
        "left": [debt_json(debt) for debt in left],
    }
    code = Exit.OK if is_there else Exit.UNREACHABLE
    return Answer(data, tuple(lines), exit=Exit.TIMED_OUT if left else code)


def _ended(broker: int, *, is_there: bool) -> str:
    if is_there:
        return "settled."
    unseen = f"Broker {broker} is not registered any more, so whether it has deleted them is not known."
    return f"not owed any more. {unseen}"
