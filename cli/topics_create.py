"""`lethe topics create`: checks a topic as Kafka does, places its replicas by Kafka's rule, writes it to ZooKeeper."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Refusal
from lethe.admin.topic_config import parse_topic_config, topic_config_problem
from lethe.admin.topic_creation import TopicCreationRequest, plan_topics
from lethe.admin.topic_plans import TopicPlan, partition_count_problem
from lethe.cli.answer import Answer
from lethe.cli.options import (
    AbsentNames,
    AbsentTopicNames,
    AsJson,
    BootstrapServer,
    BrokersTimeoutMs,
    CommandConfig,
    Config,
    DisableRackAware,
    DryRun,
    ZooKeeperOrBrokers,
    given,
)
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.ways import Way, through
from lethe.protocol.journal import JsonValue
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.topic_names import parse_replica_assignment
from lethe.protocol.vocabulary import topic_id_to_text, topic_name_problem

if TYPE_CHECKING:
    from lethe.admin.client_cluster import ClientCluster
    from lethe.protocol.kafka.admin import CreatedTopic

KNOWN_MS: Final = 5_000
"""How long a broker may take to show a topic that exists."""
MARKED: Final = "is marked for deletion"
"""In Kafka's refusal of a name that is being deleted."""

Partitions = Annotated[int | None, typer.Option("--partitions", help="Number of partitions.", show_default=False)]
ReplicationFactor = Annotated[
    int | None, typer.Option("--replication-factor", help="Replicas of each partition.", show_default=False)
]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="1:2,2:3,...",
        help="Brokers by partition, the preferred replica first; instead of the two numbers.",
        show_default=False,
    ),
]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Do not complain where the topic exists.")]
StartIndex = Annotated[
    int | None,
    typer.Option(
        "--start-index",
        min=0,
        help="Where in the list of brokers the placement begins, instead of a random place: makes it repeatable.",
        show_default=False,
    ),
]


def create(
    zookeeper: ZooKeeperOrBrokers = None,
    bootstrap_server: BootstrapServer = None,
    names: AbsentNames = None,
    topic: AbsentTopicNames = None,
    partitions: Partitions = None,
    replication_factor: ReplicationFactor = None,
    replica_assignment: Assignment = None,
    config: Config = None,
    if_not_exists: IfNotExists = False,
    disable_rack_aware: DisableRackAware = False,
    start_index: StartIndex = None,
    dry_run: DryRun = False,
    brokers_timeout_ms: BrokersTimeoutMs = 30_000,
    client_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Create topics, all with the same partitions and settings. None is created where one cannot be.

    Exit code 1 where the cluster cannot have one: it exists already, its name is taken by one that is being deleted,
    or there are too few brokers; 2 where no cluster could.
    """

    async def command() -> Answer:
        distinct = given(names, topic)
        if not distinct:
            raise ValueError("which topics? Name them, as in: lethe topics create orders --partitions 12 …")
        wanted = [
            wanted_topic(
                name, partitions, replication_factor, replica_assignment, config, disable_rack_aware, start_index
            )
            for name in distinct
        ]
        return await through(
            Way(zookeeper, bootstrap_server, client_config, brokers_timeout_ms),
            lambda session: creations(session, wanted, if_not_exists=if_not_exists, dry_run=dry_run),
            lambda cluster: client_creations(cluster, wanted, if_not_exists=if_not_exists, dry_run=dry_run),
        )

    finish(command, as_json=as_json)


def wanted_topic(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    config: list[str] | None,
    disable_rack_aware: bool = False,
    start_index: int | None = None,
) -> TopicCreationRequest:
    """Return the options as a value. Raises ValueError for all errors that do not depend on the cluster."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise ValueError(problem)
    settings = parse_topic_config(config or ())
    if (problem := topic_config_problem(settings)) is not None:
        raise ValueError(problem)
    if partitions is not None and (problem := partition_count_problem(partitions)) is not None:
        raise ValueError(problem)
    if replication_factor is not None and replication_factor < 1:
        raise ValueError(f"--replication-factor must be larger than 0, not {replication_factor}")
    if replica_assignment is not None:
        if partitions is not None or replication_factor is not None:
            raise ValueError("--replica-assignment says it all: give it without --partitions and --replication-factor")
        return TopicCreationRequest(name, assignment=parse_replica_assignment(replica_assignment), config=settings)
    if partitions is None or replication_factor is None:
        raise ValueError("--partitions and --replication-factor are needed, or else --replica-assignment")
    return TopicCreationRequest(
        name,
        partitions,
        replication_factor,
        config=settings,
        disable_rack_aware=disable_rack_aware,
        start_index=start_index,
    )


async def creation(
    session: ZooKeeperSession,
    wanted: TopicCreationRequest,
    *,
    if_not_exists: bool = False,
    dry_run: bool = False,
    rng: random.Random | None = None,
) -> Answer:
    """`creations` of one topic."""
    return await creations(session, [wanted], if_not_exists=if_not_exists, dry_run=dry_run, rng=rng)


async def creations(
    session: ZooKeeperSession,
    wanted: Sequence[TopicCreationRequest],
    *,
    if_not_exists: bool = False,
    dry_run: bool = False,
    rng: random.Random | None = None,
) -> Answer:
    """Create the topics, or say what would be created. `rng` gives the topics' ids and the start of their replica
    assignment.

    The data of one topic is an object, that of several a list. Raises Refusal, before anything is created, where one is
    impossible.
    """
    there = await topic_znodes.list_topics(session)
    exist = {
        each.name for each in wanted if if_not_exists and each.name in there.names and each.name not in there.marked
    }
    missing = [each for each in wanted if each.name not in exist]
    plans = await plan_topics(session, missing, there, random.SystemRandom() if rng is None else rng, note)
    failed = {} if dry_run else await _created(session, plans)
    told = {plan.name: _told(plan, dry_run=dry_run) for plan in plans if plan.name not in failed}
    return _answer(wanted, told, exist, failed, dry_run=dry_run)


async def client_creations(
    cluster: ClientCluster,
    wanted: Sequence[TopicCreationRequest],
    *,
    if_not_exists: bool = False,
    dry_run: bool = False,
) -> Answer:
    """`creations` by the controller, which checks all topics before one is created, and places their replicas."""
    from lethe.admin.client_changes import create_topics, creation_outcome, replicas_of

    trial = await create_topics(cluster, wanted, validate_only=True)
    exist = await _existing(cluster, trial) if if_not_exists else frozenset()
    missing = [each for each in wanted if each.name not in exist]
    principal = cluster.reach.principal
    checked = [
        creation_outcome(each.name, trial.get(each.name), principal, is_trial=True, may_be_done=False)
        for each in missing
    ]
    if refused := [outcome for outcome in checked if outcome.problem is not None]:
        raise Refusal("\n".join(str(outcome.problem) for outcome in refused), exit_of(refused))
    made = {} if dry_run or not missing else await create_topics(cluster, missing, validate_only=False)
    outcomes = [
        creation_outcome(each.name, made.get(each.name), principal, is_trial=False, may_be_done=cluster.may_be_done)
        for each in ([] if dry_run else missing)
    ]
    failed = {outcome.name: outcome for outcome in outcomes if outcome.problem is not None}
    placed = {} if dry_run else await replicas_of(cluster, [name for name in made if name not in failed])
    told: dict[str, Told] = {}
    for each in missing:
        if each.name not in failed:
            topic_id = made[each.name].topic_id if each.name in made else None
            replicas = placed.get(each.name, each.assignment)
            plan = TopicPlan(each.name, topic_id, replicas, each.config)
            body, lines = _told(plan, dry_run=dry_run)
            if not replicas:
                body |= {"replicas": None, "not_shown": ["replicas"]}
                lines = (*lines, "\tReplicas: the controller places them") if dry_run else lines
            told[each.name] = body, lines
    return _answer(wanted, told, exist, failed, dry_run=dry_run)


async def _existing(cluster: ClientCluster, trial: Mapping[str, CreatedTopic]) -> frozenset[str]:
    """Return those topics whose names are taken by one that exists and stays: a name is taken also by a topic that is
    being deleted, or that waits in the trash."""
    taken = [row for row in trial.values() if row.error == ErrorCode.TOPIC_ALREADY_EXISTS]
    staying = [row.name for row in taken if MARKED not in (row.message or "")]
    found: set[str] = set()

    async def look() -> int:
        shown = (await cluster.metadata(staying)).topics
        found.update(str(topic.name) for topic in shown if topic.error == ErrorCode.NONE)
        return len(found)

    # A broker may not know yet what has just been created.
    limit_ms = min(cluster.left_ms, KNOWN_MS)
    if staying:
        await wait_for_all(look, len(staying), "topics of these names", timeout_ms=limit_ms, quiet=True)
    return frozenset(found)


Told = tuple[dict[str, JsonValue], tuple[str, ...]]
"""A topic as data and as lines."""


def _answer(
    wanted: Sequence[TopicCreationRequest],
    told: dict[str, Told],
    exist: Collection[str],
    failed: Mapping[str, Outcome],
    *,
    dry_run: bool,
) -> Answer:
    """Return the answer. Raises Refusal where a topic could not be created."""
    if any("." in name or "_" in name for name in told):
        note("WARNING: metric names cannot tell '.' from '_' in topic names: best use either, but not both.")
    for name in exist:
        body: dict[str, JsonValue] = {"topic": name, "created": False, "dry_run": dry_run}
        told[name] = body, (f"Topic {name} exists already.",)
    data: list[JsonValue] = [told[each.name][0] for each in wanted if each.name in told]
    lines = tuple(line for each in wanted if each.name in told for line in told[each.name][1])
    if failed:
        problems = "; ".join(str(outcome.problem) for outcome in failed.values())
        raise Refusal("\n".join((*lines, problems)), exit_of(failed.values()))
    return Answer(data[0] if len(wanted) == 1 else data, lines)


async def _created(session: ZooKeeperSession, plans: Sequence[TopicPlan]) -> dict[str, Outcome]:
    """Return those that could not be created, by name."""
    outcomes = await topic_znodes.create_topics(session, plans) if plans else ()
    return {outcome.name: outcome for outcome in outcomes if outcome.problem is not None}


def _told(plan: TopicPlan, *, dry_run: bool) -> Told:
    body: dict[str, JsonValue] = {
        "topic": plan.name,
        "topic_id": None if plan.topic_id is None else topic_id_to_text(plan.topic_id),
        "created": not dry_run,
        "dry_run": dry_run,
        "replicas": [[*replicas] for replicas in plan.assignment],
        "config": {**plan.config},
    }
    if not dry_run:
        return body, (f"Created topic {plan.name}.",)
    placed = (f"\tPartition: {p}\tReplicas: {','.join(map(str, ids))}" for p, ids in enumerate(plan.assignment))
    return body, (f"Would create topic {plan.name}:", *placed)
