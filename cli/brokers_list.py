"""`lethe brokers list`: one line per broker, missing ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.broker_loads import ClusterLoad, look_at_brokers
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.cli.brokers_look import (
    Offline,
    asker,
    broker_json,
    controller_asker,
    debts_line,
    missing_line,
    size_of,
    unseen_debts_lines,
    utc,
)
from lethe.cli.options import AsJson, CommandConfig, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue

if TYPE_CHECKING:
    from lethe.admin.marked_topics import AskController
    from lethe.survey.brokers import AskBroker

COLUMNS = ("id", "endpoints", "rack", "since (UTC)", "leads", "follows", "not in sync", "imbalance", "bytes", "remarks")


def list_brokers(
    zookeeper: ZooKeeper, offline: Offline = False, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """List brokers: what they lead, follow and store, and ids that assignments name although nobody is registered.

    Exit code 3 where a broker did not answer, or debts or the trash could not be read.
    """

    async def command() -> Answer:
        ask = asker(command_config, offline=offline)
        told = controller_asker(offline=offline)
        return await with_session(zookeeper, lambda session: broker_list(session, ask, told))

    finish(command, as_json=as_json)


async def broker_list(
    session: ZooKeeperSession, ask: AskBroker | None, ask_controller: AskController | None = None
) -> Answer:
    """Return all brokers. Without `ask`, brokers are not asked and sizes are left out."""
    seen = await look_at_brokers(session, ask=ask, ask_controller=ask_controller)
    numbers = sorted({*seen.views.brokers, *seen.unreadable})
    lines = [
        f"{counted(len(numbers), 'broker is', 'brokers are')} registered; {seen.acting.text}.",
        *(missing_line(load) for load in seen.missing),
        *(line for number in seen.debts if (line := debts_line(seen, number)) is not None),
        *unseen_debts_lines(seen),
        *(f"{where}: {problem}" for where, problem in (*seen.views.problems.items(), *seen.trash_problems)),
    ]
    problems = (*seen.views.problems.items(), *seen.debts_unseen, *seen.trash_problems)
    table = Table(COLUMNS, tuple(_row(seen, number) for number in numbers))
    body: dict[str, JsonValue] = {
        "controller": seen.acting.broker_id,
        "controller_is_lethe": seen.acting.may_be_lethe,
        "controller_problem": seen.acting.problem,
        "brokers": [broker_json(seen, number) for number in numbers],
        "missing": [broker_json(seen, load.broker) for load in seen.missing],
        "problems": [{"where": where, "what": problem} for where, problem in problems],
    }
    is_unseen = seen.silent or seen.debts_unseen or seen.trash_problems or seen.acting.problem is not None
    code = Exit.UNREACHABLE if is_unseen else Exit.OK
    return Answer(body, tuple(lines), (table,) if numbers else (), code)


def _row(seen: ClusterLoad, number: int) -> tuple[str, ...]:
    broker, load, answers = seen.views.brokers.get(number), seen.loads.get(number), seen.answers.get(number)
    remarks = ["controller"] if seen.acting.broker_id == number else []
    remarks += ["its registration cannot be understood"] if number in seen.unreadable else []
    if load is not None and load.unseen:
        remarks.append(f"the state of {counted(len(load.unseen), 'partition')} is unseen")
    size = ""
    if answers is not None:
        remarks += [problem.what for problem in answers.problems]
        remarks += [f"log directory {d.path} has failed" for d in answers.log_dirs or () if d.has_failed]
        size = "" if answers.log_dirs is None else f"{sum(map(size_of, answers.log_dirs)):,}"
    counts = ("0", "0", "0", "0 %")
    if load is not None:
        counts = (
            str(load.leads),
            str(load.follows),
            str(len(load.lagging)),
            f"{load.imbalance:.0%}".replace("%", " %"),
        )
    endpoints = [] if broker is None else [endpoint.text for endpoint in broker.endpoints]
    rack = "" if broker is None or broker.rack is None else broker.rack
    return (str(number), " ".join(endpoints), rack, utc(seen.since_ms.get(number)), *counts, size, "; ".join(remarks))
