"""`lethe topics alter`: adds partitions to topics, and sets and deletes their settings.

New partitions are placed by Kafka's rule, which starts at the first broker of partition 0: so the same cluster gives
the same replica assignment, and a dry run shows what will be. All topics are checked before one is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_alteration import TopicChange, TopicChangeRequest, change_planner, change_topics, read_topics
from lethe.admin.topic_config import parse_topic_config, topic_config_problem
from lethe.admin.topic_plans import partition_count_problem
from lethe.cli.answer import Answer
from lethe.cli.options import (
    AsJson,
    BootstrapServer,
    CommandConfig,
    Config,
    DisableRackAware,
    DryRun,
    Names,
    TimeoutMs,
    TopicNames,
    ZooKeeperOrBrokers,
    given,
)
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.ways import Way, through
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.topic_names import parse_replica_assignment, unknown_topic
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition, topic_name_problem
from lethe.protocol.zookeeper.znodes import MalformedZnode

if TYPE_CHECKING:
    from lethe.admin.client_cluster import ClientCluster

Partitions = Annotated[
    int | None,
    typer.Option("--partitions", help="How many partitions each topic is to have, more than now.", show_default=False),
]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="1:2,2:3,...",
        help="Brokers by partition, of all partitions: those of today as they are, then the new ones. One topic only.",
        show_default=False,
    ),
]
DeleteConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--delete-config",
        metavar="NAME",
        help="A setting to delete, so that the brokers' default holds again; may be repeated.",
        show_default=False,
    ),
]
KEYS_MOVE: Final = "note: where keys decide the partition, the same key may go to another partition from now on"
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until the new partitions have leaders.")]


def alter(
    zookeeper: ZooKeeperOrBrokers = None,
    bootstrap_server: BootstrapServer = None,
    names: Names = None,
    topic: TopicNames = None,
    partitions: Partitions = None,
    replica_assignment: Assignment = None,
    new_config: Config = None,
    delete_config: DeleteConfig = None,
    disable_rack_aware: DisableRackAware = False,
    no_wait: NoWait = False,
    timeout_ms: TimeoutMs = 60_000,
    dry_run: DryRun = False,
    client_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to topics, and change their settings. Waits until the new partitions have leaders.

    Exit code 1 where the cluster cannot do it: a topic is not there, marked for deletion or being reassigned, or has
    as many partitions already; 4 where a new partition had no leader in time.
    """

    async def command() -> Answer:
        wanted = wanted_change(
            given(names, topic), partitions, replica_assignment, new_config, delete_config, disable_rack_aware
        )
        limit_ms = None if no_wait else timeout_ms
        return await through(
            Way(zookeeper, bootstrap_server, client_config, timeout_ms),
            lambda session: alteration(session, wanted, dry_run=dry_run, timeout_ms=limit_ms, quiet=as_json),
            lambda cluster: _by_brokers(cluster, wanted, dry_run=dry_run, waits=not no_wait, quiet=as_json),
        )

    finish(command, as_json=as_json)


async def _by_brokers(
    cluster: ClientCluster, wanted: TopicChangeRequest, *, dry_run: bool, waits: bool, quiet: bool
) -> Answer:
    from lethe.cli.topics_alter_brokers import client_alteration

    return await client_alteration(cluster, wanted, dry_run=dry_run, waits=waits, quiet=quiet)


def wanted_change(
    names: Sequence[str],
    partitions: int | None,
    replica_assignment: str | None,
    config: Sequence[str] | None,
    delete_config: Sequence[str] | None,
    disable_rack_aware: bool = False,
) -> TopicChangeRequest:
    """Return the options as a value. Raises ValueError for all errors that do not depend on the cluster."""
    distinct = tuple(dict.fromkeys(names))
    if not distinct:
        raise ValueError("which topics? Name them, as in: lethe topics alter orders --partitions 12")
    for name in distinct:
        if (problem := topic_name_problem(name)) is not None:
            raise ValueError(problem)
    settings = parse_topic_config(config or ())
    deleted = tuple(dict.fromkeys(name.strip() for name in delete_config or ()))
    both = [name for name in deleted if name in settings]
    if both:
        raise ValueError(f"--config sets {both[0]}, and --delete-config deletes it")
    if (problem := topic_config_problem(settings)) is not None:
        raise ValueError(problem)
    if partitions is not None and (problem := partition_count_problem(partitions)) is not None:
        raise ValueError(problem)
    assignment = () if replica_assignment is None else parse_replica_assignment(replica_assignment)
    if assignment and len(distinct) > 1:
        raise ValueError(f"--replica-assignment is for one topic, not for {len(distinct)}")
    if assignment and partitions not in (None, len(assignment)):
        raise ValueError(
            f"--replica-assignment lists {counted(len(assignment), 'partition')}, but --partitions is {partitions}"
        )
    if not (settings or deleted or assignment or partitions is not None):
        raise ValueError("nothing to change: give --partitions, --replica-assignment, --config or --delete-config")
    return TopicChangeRequest(
        distinct, len(assignment) if assignment else partitions, assignment, settings, deleted, disable_rack_aware
    )


async def alteration(
    session: ZooKeeperSession,
    wanted: TopicChangeRequest,
    *,
    dry_run: bool = False,
    timeout_ms: int | None = None,
    quiet: bool = True,
) -> Answer:
    """Change the topics, or say what would change. Wait for leaders for `timeout_ms`; None: do not wait."""
    there = await topic_znodes.list_topics(session)
    for name in wanted.names:
        if name not in there.names:
            raise Refusal(unknown_topic(name, there.names))
    plan = await change_planner(session, wanted, note)
    try:
        changes = [plan(now) for now in await read_topics(session, wanted.names)]
    except ValueError as problem:
        raise Refusal(str(problem)) from problem
    if wanted.partitions is not None:
        note(KEYS_MOVE)
    if dry_run:
        outcomes = [Outcome(change.name) for change in changes]
        return alteration_answer([*map(_altered, changes)], outcomes, dry_run=True)
    written, outcomes = await change_topics(session, changes, plan)
    final = [written.get(change.name, change) for change in changes]
    new = [TopicPartition(change.name, p) for change in written.values() for p in change.added]
    leaderless: dict[TopicPartition, str | None] = {}
    if new and timeout_ms is not None:
        if waiting := (await acting_controller(session)).note("the new partitions come into being"):
            note(waiting)
        leaderless = await _without_leader(session, new, timeout_ms=timeout_ms, quiet=quiet)
    return alteration_answer([*map(_altered, final)], outcomes, leaderless=leaderless)


async def _without_leader(
    session: ZooKeeperSession, partitions: Sequence[TopicPartition], *, timeout_ms: int, quiet: bool
) -> dict[TopicPartition, str | None]:
    """Return the partitions that have no leader when the time is over (None), or whose leader is unseen, and why."""
    missing: dict[TopicPartition, str | None] = dict.fromkeys(partitions)

    async def look() -> int:
        states = await topic_znodes.read_states(session, list(missing))
        for tp in list(missing):
            match states.get(tp):
                case LeaderAndIsr(leader=leader) if leader >= 0:
                    del missing[tp]
                case MalformedZnode() as malformed:
                    missing[tp] = str(malformed)
                case _:
                    missing[tp] = None
        return len(partitions) - len(missing)

    await wait_for_all(look, len(partitions), "new partitions with a leader", timeout_ms=timeout_ms, quiet=quiet)
    return missing


class Altered(NamedTuple):
    """A topic before and after. `replicas` of an added partition are None where the controller places them."""

    name: str
    before: int
    """Number of partitions."""
    added: Mapping[int, tuple[int, ...] | None]
    config_before: Mapping[str, str] | None
    config: Mapping[str, str] | None
    """None: unseen."""

    @property
    def is_changed(self) -> bool:
        return bool(self.added) or self.config != self.config_before


def _altered(change: TopicChange) -> Altered:
    before = change.now.config
    after = before if change.config is None else change.config
    return Altered(change.name, len(change.now.znode.assignments), change.added, before, after)


def alteration_answer(
    changes: Sequence[Altered],
    outcomes: Sequence[Outcome],
    *,
    leaderless: Mapping[TopicPartition, str | None] | None = None,
    dry_run: bool = False,
) -> Answer:
    """Return the answer about the topics; `leaderless` are new partitions without a leader, or whose leader is unseen
    for a reason."""
    lines: list[str] = []
    data: list[JsonValue] = []
    for change, outcome in zip(changes, outcomes, strict=True):
        waiting = {tp.partition: why for tp, why in (leaderless or {}).items() if tp.topic == change.name}
        lines += _lines(change, outcome, dry_run=dry_run)
        lines += [
            f"\tPartition {partition} has no leader yet."
            if why is None
            else f"\tThe leader of partition {partition} is unseen: {why}"
            for partition, why in waiting.items()
        ]
        data.append(
            {
                "topic": change.name,
                "altered": _is_altered(change, outcome, dry_run=dry_run),
                "dry_run": dry_run,
                "problem": outcome.problem,
                "partitions_before": change.before,
                "added": {str(p): None if replicas is None else [*replicas] for p, replicas in change.added.items()},
                "config": None if change.config is None or outcome.is_unknown else {**change.config},
                "without_leader": [*waiting],
            }
        )
    code = exit_of(outcomes)
    return Answer(data, tuple(lines), exit=Exit.TIMED_OUT if leaderless and code is Exit.OK else code)


def _is_altered(change: Altered, outcome: Outcome, *, dry_run: bool) -> bool | None:
    """Return None where it is unknown, or where a part was changed (`was_done`) and another one refused."""
    if outcome.problem is not None and (outcome.is_unknown or outcome.was_done):
        return None
    return outcome.problem is None and change.is_changed and not dry_run


def _lines(change: Altered, outcome: Outcome, *, dry_run: bool) -> list[str]:
    if outcome.problem is not None:
        return [outcome.problem]
    if not change.is_changed:
        return [f"Topic {change.name} is already as requested."]
    found = [f"{'Would change' if dry_run else 'Changed'} topic {change.name}:"]
    if change.added:
        found.append(f"\tPartitions: {change.before} -> {change.before + len(change.added)}")
    found += [
        f"\tPartition: {p}\tReplicas: {'the controller places them' if ids is None else ','.join(map(str, ids))}"
        for p, ids in change.added.items()
    ]
    before, after = change.config_before or {}, change.config or {}
    for name in sorted({**before, **after}):
        old, new = (config.get(name, "(default)") for config in (before, after))
        if old != new:
            found.append(f"\t{name}: {old} -> {new}")
    return found
