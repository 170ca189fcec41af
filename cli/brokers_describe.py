"""`lethe brokers describe ID`: all data about one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.broker_loads import BrokerLoad, ClusterLoad, look_at_brokers
from lethe.admin.broker_replacement import LOOK_AGAIN, empty_broker_verdict
from lethe.admin.controller_identity import ControllerIdentity
from lethe.admin.refusal import Exit, Refusal
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
from lethe.protocol.counting import counted, listed

if TYPE_CHECKING:
    from lethe.admin.marked_topics import AskController
    from lethe.survey.brokers import AskBroker

Id = Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker's id.", show_default=False)]


def describe(
    zookeeper: ZooKeeper,
    broker: Id,
    offline: Offline = False,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Describe one broker: registration, partitions, log directories.

    Exit code 1 where it is not registered, 3 where it did not answer.
    """

    async def command() -> Answer:
        ask = asker(command_config, offline=offline)
        told = controller_asker(offline=offline)
        return await with_session(zookeeper, lambda session: broker_description(session, broker, ask, told))

    finish(command, as_json=as_json)


async def broker_description(
    session: ZooKeeperSession, number: int, ask: AskBroker | None, ask_controller: AskController | None = None
) -> Answer:
    """Return all data about one broker. Raises Refusal where nothing names it."""
    seen = await look_at_brokers(session, ask=ask, only=(number,), ask_controller=ask_controller)
    load = seen.loads.get(number)
    is_named = number in seen.unreadable or any(each.broker == number for each in seen.missing)
    if load is None and not is_named:
        ids = ", ".join(map(str, sorted({*seen.views.brokers, *seen.unreadable}))) or "none"
        raise Refusal(
            f"broker {number} is not registered, and neither assignments, debts nor the trash name it (registered: "
            f"{ids})"
        )
    code = Exit.OK
    lines = _registration(seen, number)
    if number not in seen.views.brokers:
        code = Exit.NO
        if number not in seen.unreadable:
            lines = [missing_line(load or BrokerLoad(number))]
    lines += [line for line in (debts_line(seen, number),) if line is not None] + unseen_debts_lines(seen)
    lines += _partitions(load or BrokerLoad(number))
    lines += _replaceable(seen, number)
    answers = seen.answers.get(number)
    tables: tuple[Table, ...] = ()
    if answers is not None:
        lines += [f"It did not answer all: {problem.what}" for problem in answers.problems]
        if answers.controller is not None and _differs(answers.controller, seen.acting):
            takes = "no broker" if answers.controller < 0 else str(answers.controller)
            lines.append(f"It takes {takes} for the controller, but {seen.acting.text}.")
        rows = tuple(
            (
                log_dir.path,
                str(len(log_dir.directories)),
                f"{size_of(log_dir):,}",
                "FAILED" if log_dir.has_failed else log_dir.problem or "",
            )
            for log_dir in answers.log_dirs or ()
        )
        tables = (Table(("log directory", "replicas", "bytes", "problem"), rows),) if rows else ()
        code = Exit.UNREACHABLE if answers.failure is not None else code
    code = Exit.UNREACHABLE if seen.debts_unseen else code
    return Answer(broker_json(seen, number), tuple(lines), tables, code)


def _differs(reported: int, acting: ControllerIdentity) -> bool:
    """Return True if the controller that a broker reports (-1: none) is not seen to be the active one."""
    return acting.problem is not None or (None if reported < 0 else reported) != acting.broker_id


def _registration(seen: ClusterLoad, number: int) -> list[str]:
    broker = seen.views.brokers.get(number)
    if broker is None:
        return [f"Broker {number}: its registration cannot be understood: {seen.unreadable.get(number, '')}"]
    role = ", the active controller" if seen.acting.broker_id == number else ""
    since = utc(seen.since_ms.get(number))
    lines = [f"Broker {number}, epoch {broker.epoch}" + (f", since {since} UTC" if since else "") + role]
    lines += [f"\tEndpoint: {e.text} ({e.protocol.name})" for e in broker.endpoints]
    if seen.acting.problem is not None:
        lines.append(f"\tWhether it is the active controller is not known: {seen.acting.problem}")
    lines += [f"\tRack: {broker.rack}"] if broker.rack is not None else []
    lines += [f"\tFeature: {name} {low} to {high}" for name, low, high in broker.features]
    return lines


def _partitions(load: BrokerLoad) -> list[str]:
    lines = [f"\tPartitions: {counted(load.replicas, 'replica')}, leads {load.leads}, follows {load.follows}"]
    if load.lagging:
        lines.append(f"\tNot in sync: {listed(load.lagging)}")
    if load.unseen:
        lines.append(f"\tState unseen: {listed(load.unseen)}")
    if load.displaced:
        lines.append(
            f"\tPreferred, but led by others: {listed(load.displaced)}, {load.imbalance:.0%} of {load.preferred}"
            " (lethe partitions elect --preferred)"
        )
    if load.deletions:
        lines.append(f"\tMarked for deletion, with replicas here: {', '.join(load.deletions)}")
    return lines


def _replaceable(seen: ClusterLoad, number: int) -> list[str]:
    """Say whether an empty broker may replace it."""
    found = empty_broker_verdict(seen, number)
    lines = [f"\t{each[:1].upper()}{each[1:]}" for each in found.depends]
    if found.is_allowed:
        return [*lines, f"\tAn empty broker may take the id {number}: no living partition depends on its disks."]
    if found.is_allowed is False:
        lead = "it may lead them with nothing, and cut others to that"
        return [*lines, f"\tNO EMPTY BROKER may take the id {number}: {lead}."]
    if found.unknown == LOOK_AGAIN:
        return [*lines, f"\t{LOOK_AGAIN[:1].upper()}{LOOK_AGAIN[1:]}."]
    return [*lines, f"\tWhether an empty broker may take the id {number} is not known: {found.unknown}"]
