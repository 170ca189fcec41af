"""What `lethe brokers` looks at: ZooKeeper, and (unless told not to) the brokers' word on their log directories."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.acting_controller import Acting, acting_controller
from lethe.admin.broker_loads import BrokerLoad, broker_loads, registered_since, unreadable_registrations
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.partition_views import PartitionViews, view_partitions
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import Broker

if TYPE_CHECKING:
    from lethe.survey.brokers import AskBroker
    from lethe.survey.views import BrokerAnswers, LogDirView

Offline = Annotated[bool, typer.Option("--offline", help="Look at ZooKeeper only, and ask no broker.")]


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything about the brokers. `answers` has those that were asked."""

    views: PartitionViews
    acting: Acting
    loads: Mapping[int, BrokerLoad]
    since_ms: Mapping[int, int]
    unreadable: Mapping[int, str]
    answers: Mapping[int, BrokerAnswers] = field(default_factory=dict)

    @property
    def missing(self) -> list[BrokerLoad]:
        """Those that assignments name and that are not registered."""
        known = {*self.views.brokers, *self.unreadable}
        return [load for broker, load in self.loads.items() if broker not in known]

    @property
    def silent(self) -> list[int]:
        """Brokers that did not answer all that they were asked."""
        return [broker for broker, answers in self.answers.items() if answers.failure is not None]


async def look_at_brokers(
    session: ZooKeeperSession, *, ask: AskBroker | None, only: Collection[int] | None = None
) -> Seen:
    """Looks at all brokers, and asks them, or only some. Raises NoCluster where there is no cluster."""
    views = await view_partitions(session)
    acting = await acting_controller(session)
    since_ms = await registered_since(session, views)
    asked = [broker for number, broker in views.brokers.items() if only is None or number in only]
    answers = {} if ask is None else await _ask_all(asked, ask)
    is_paused = await deletions_paused(session) is not None
    loads = broker_loads(views, are_marked_kept=is_paused)
    return Seen(views, acting, loads, since_ms, unreadable_registrations(views), answers)


async def _ask_all(brokers: Collection[Broker], ask: AskBroker) -> dict[int, BrokerAnswers]:
    from lethe.survey.brokers import ask_all

    return {int(answer.broker): answer for answer in await ask_all(brokers, ask)}


def asker(*, offline: bool) -> AskBroker | None:
    """How brokers are asked; None where they are not to be."""
    if offline:
        return None
    from lethe.survey.brokers import broker_asker

    return broker_asker()


def size_of(log_dir: LogDirView) -> int:
    """Bytes of the replicas in a log directory."""
    return sum(directory.size_bytes for directory in log_dir.directories)


def missing_line(load: BrokerLoad) -> str:
    """What is known of a broker that is not registered."""
    deletions = len(load.deletions)
    waiting = f"; {counted(deletions, 'deletion waits', 'deletions wait')} for it"
    return (
        f"Broker {load.broker} is not registered: dead or decommissioned. "
        f"{counted(load.replicas, 'replica is', 'replicas are')} assigned to it{waiting if deletions else ''}."
    )


def utc(at_ms: int | None) -> str:
    """A time that can be shown; empty where there is none."""
    return "" if at_ms is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))


def broker_json(seen: Seen, number: int) -> dict[str, JsonValue]:
    """All about one broker, registered or not."""
    broker, load, answers = seen.views.brokers.get(number), seen.loads.get(number), seen.answers.get(number)
    load = load or BrokerLoad(number)
    data: dict[str, JsonValue] = {
        "id": number,
        "registered": broker is not None or number in seen.unreadable,
        "problem": seen.unreadable.get(number),
        "is_controller": seen.acting.broker_id == number,
        "replicas": load.replicas,
        "leads": load.leads,
        "follows": load.follows,
        "not_in_sync": len(load.lagging),
        "only_here": len(load.only_here),
        "preferred": load.preferred,
        "imbalance": round(load.imbalance, 4),
        "marked_topics": [*load.deletions],
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
