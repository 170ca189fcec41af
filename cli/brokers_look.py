"""Data for `lethe brokers`, from ZooKeeper and, without --offline, from the brokers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.http_client import HttpCredentials
from lethe.admin.broker_loads import (
    BrokerLoad,
    ClusterLoad,
)
from lethe.admin.broker_replacement import empty_broker_verdict
from lethe.admin.forgetting import forget_command
from lethe.cli.broker_access import reach_from
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.survey.debts import debt_json, settling_text

if TYPE_CHECKING:
    from lethe.admin.marked_topics import AskController
    from lethe.survey.brokers import AskBroker
    from lethe.survey.views import LogDirView

Offline = Annotated[
    bool, typer.Option("--offline", help="Look at ZooKeeper only, and ask neither brokers nor the controller.")
]


def asker(command_config: Path | None, *, offline: bool) -> AskBroker | None:
    """Return how brokers are asked; None with `--offline`. Raises Refusal for a `--command-config` that is wrong."""
    if offline:
        return None
    from lethe.survey.brokers import broker_asker

    return broker_asker(reach_from(command_config))


def controller_asker(*, offline: bool) -> AskController | None:
    """Return how Lethe's controller is asked what it holds back; None with `--offline`. Raises ValueError for a file of
    its token or CA that cannot be used."""
    if offline:
        return None
    HttpCredentials.from_environment().check()
    from lethe.admin.controllers import ask_active_controller

    return lambda session: ask_active_controller(session, None)


def size_of(log_dir: LogDirView) -> int:
    """Return the bytes of the replicas in a log directory."""
    return sum(directory.size_bytes for directory in log_dir.directories)


def debts_line(seen: ClusterLoad, number: int) -> str | None:
    """Return a line about what the broker owes; None where that is nothing."""
    owing = seen.debts.get(number)
    if owing is None:
        return None
    is_registered = number in seen.views.brokers or number in seen.unreadable
    is_lethe = seen.acting.may_be_lethe
    then = settling_text(number, is_registered=is_registered, is_lethe=is_lethe)
    never = "" if is_registered else f". If it never returns: {forget_command(number, is_lethe=is_lethe)}"
    return f"Broker {number} owes {owing.text}: {then}{never}"


def unseen_debts_lines(seen: ClusterLoad) -> list[str]:
    """Return a line about each debt that could not be seen."""
    return [f"What {each.path} says is unseen: {each.reason}" for each in seen.debts_unseen]


def missing_line(load: BrokerLoad) -> str:
    """Return a line about a broker that is not registered."""
    deletions = len(load.deletions)
    waiting = f"; {counted(deletions, 'deletion waits', 'deletions wait')} for it"
    return (
        f"Broker {load.broker} is not registered: dead or decommissioned. "
        f"{counted(load.replicas, 'replica is', 'replicas are')} assigned to it{waiting if deletions else ''}."
    )


def utc(at_ms: int | None) -> str:
    """Return the time as text; empty for None."""
    return "" if at_ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))


def broker_json(seen: ClusterLoad, number: int) -> dict[str, JsonValue]:
    """Return all data about one broker, registered or not."""
    broker, load, answers = seen.views.brokers.get(number), seen.loads.get(number), seen.answers.get(number)
    load = load or BrokerLoad(number)
    empty = empty_broker_verdict(seen, number)
    data: dict[str, JsonValue] = {
        "id": number,
        "registered": broker is not None or number in seen.unreadable,
        "problem": seen.unreadable.get(number),
        "is_controller": None if seen.acting.problem is not None else seen.acting.broker_id == number,
        "replicas": load.replicas,
        "leads": load.leads,
        "follows": load.follows,
        "not_in_sync": len(load.lagging),
        "may_be_replaced_by_empty": empty.is_allowed,
        "why_not_replaced_by_empty": [*empty.reasons],
        "only_here": len(load.only_here),
        "perhaps_only_here": len(load.perhaps_only_here),
        "only_here_in_trash": [*seen.only_here_in_trash(number)],
        "states_unseen": len(load.unseen),
        "preferred": load.preferred,
        "imbalance": round(load.imbalance, 4),
        "marked_topics": [*load.deletions],
        "debts": [debt_json(debt) for debt in seen.debts[number].debts] if number in seen.debts else [],
    }
    if broker is not None:
        data |= {
            "epoch": broker.epoch,
            "rack": broker.rack,
            "endpoints": [
                {"listener": e.listener, "host": e.host, "port": e.port, "protocol": e.protocol.name}
                for e in broker.endpoints
            ],
            "features": {name: [low, high] for name, low, high in broker.features},
            "since_ms": seen.since_ms.get(number),
        }
    if answers is not None:
        data["answered"] = answers.failure is None
        data["problems"] = [problem.what for problem in answers.problems]
        data["controller_as_it_knows"] = answers.controller
        data["log_dirs"] = [
            {
                "path": log_dir.path,
                "size_bytes": size_of(log_dir),
                "replicas": len(log_dir.directories),
                "failed": log_dir.has_failed,
                "problem": log_dir.problem,
            }
            for log_dir in answers.log_dirs or ()
        ]
    return data
