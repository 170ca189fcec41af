"""`lethe partitions reassign`: moves replicas, as kafka-reassign-partitions.sh does through ZooKeeper.

One command, five things: move (after showing the plan and asking), `--generate` a proposal, `--cancel`, `--list`,
`--verify`. The first and the third write `/admin/reassign_partitions`; the rest only looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.assignment_proposal import proposal
from lethe.admin.controller_identity import acting_controller
from lethe.admin.given_file import read_given
from lethe.admin.outcomes import demand_done
from lethe.admin.partition_names import Selector, parse_brokers, parse_move, parse_selector, parse_topics
from lethe.admin.partition_requests import RequestPending, request_reassignment
from lethe.admin.partition_views import PartitionViews, selection, view_partitions
from lethe.admin.reassignment_plans import Move, parse_reassignment_file, planned_moves, reassignment_text
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, ask_user, demand_agreement
from lethe.cli.broker_access import reach_from
from lethe.cli.options import AsJson, CommandConfig, DisableRackAware, DryRun, TimeoutMs, Yes, ZooKeeper
from lethe.cli.partitions_progress import list_reassignments, verification, wait_until_moved
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted, plural
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper.znodes import MalformedZnode

if TYPE_CHECKING:
    from lethe.survey.brokers import AskBroker

Moves = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC:PARTITION=BROKERS",
        help="Partitions and the brokers that they shall have, the preferred one first, as in orders:0=1,2,3. "
        "With --cancel, --list: TOPIC or TOPIC:PARTITION.",
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option("--file", help="Moves in the JSON of kafka-reassign-partitions.sh.", show_default=False),
]
Topics = Annotated[
    str | None, typer.Option("--topics", metavar="TOPIC,...", help="Topics to spread anew.", show_default=False)
]
Brokers = Annotated[
    str | None,
    typer.Option("--brokers", metavar="ID,...", help="The brokers to spread --topics over.", show_default=False),
]
Generate = Annotated[
    bool, typer.Option("--generate", help="Only print how --topics would be spread over --brokers, as JSON of Kafka.")
]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="Go back to the replicas from before; all reassignments, or those named.")
]
ListThem = Annotated[bool, typer.Option("--list", help="Show the reassignments in progress and how far they are.")]
Verify = Annotated[
    Path | None,
    typer.Option("--verify", metavar="FILE", help="Say what has become of the moves in a file.", show_default=False),
]
Merge = Annotated[
    bool,
    typer.Option(
        "--merge", help="Add to the request that there is, although its controller is not seen to be Lethe's."
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the replicas are moved, and show how far it is.")]

Command = Callable[[ZooKeeperSession], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class ReassignmentOptions:
    """How a change is carried out. `confirm` None agrees; `ask` None: brokers are not asked for sizes."""

    confirm: Confirm | None = None
    ask: AskBroker | None = None
    dry_run: bool = False
    may_merge: bool = False
    wait_ms: int | None = None
    quiet: bool = True


def reassign(
    zookeeper: ZooKeeper,
    moves: Moves = None,
    file: File = None,
    topics: Topics = None,
    brokers: Brokers = None,
    generate: Generate = False,
    disable_rack_aware: DisableRackAware = False,
    cancel: Cancel = False,
    list_them: ListThem = False,
    verify: Verify = None,
    merge: Merge = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout_ms: TimeoutMs = 3_600_000,
    dry_run: DryRun = False,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move replicas of partitions to other brokers: shows the plan, asks, and requests it from the controller.

    Exit code 1 where it cannot be done, or --verify found a partition otherwise; 3 where a znode could not be read; 4
    where it is not done yet.
    """

    doing = ReassignmentOptions(None if yes else ask_user, None, dry_run, merge, timeout_ms if wait else None, as_json)

    async def run() -> Answer:
        actions = [list_them, verify is not None, cancel, topics is not None, file is not None]
        if sum(actions) > 1 or (moves and (verify or topics or file)):
            raise ValueError("give one of: moves, --file, --topics with --brokers, --cancel, --list, --verify")
        if not (any(actions) or moves):
            raise ValueError("say what to move: TOPIC:PARTITION=1,2,3, or --file, or --topics with --brokers")
        if (topics is None) != (brokers is None) or (generate and topics is None):
            raise ValueError("--topics and --brokers belong together, and --generate needs both")
        return await with_session(zookeeper, command(reach_from(command_config)))

    def command(reach: BrokerReach) -> Command:
        """Choose what to do, after checking the command line and its files."""
        if list_them or cancel:
            selectors = [parse_selector(text) for text in moves or ()]
            if list_them:
                return lambda session: list_reassignments(session, selectors)
            return lambda session: cancellation(session, selectors, doing)
        if verify is not None:
            expected = _read("--verify", verify)
            return lambda session: verification(session, expected)
        if topics is not None:
            names = parse_topics(topics, "--topics")
            ids = parse_brokers(brokers or "", "--brokers")
            return lambda session: spread(session, reach, names, ids)
        targets = _read("--file", file) if file is not None else _parsed(moves or ())
        return lambda session: reassignment(session, targets, _with_ask(doing, reach, targets))

    async def spread(session: ZooKeeperSession, reach: BrokerReach, names: Sequence[str], ids: Sequence[int]) -> Answer:
        current, targets = await proposal(session, names, ids, disable_rack_aware=disable_rack_aware)
        return (
            _generated(current, targets)
            if generate
            else await reassignment(session, targets, _with_ask(doing, reach, targets))
        )

    finish(run, as_json=as_json)


async def reassignment(
    session: ZooKeeperSession, targets: dict[TopicPartition, tuple[int, ...]], doing: ReassignmentOptions
) -> Answer:
    """Request the moves. Raises Refusal where one is impossible or the user disagrees; then none is requested."""
    views = await view_partitions(session, {tp.topic for tp in targets})
    moves = planned_moves(views, targets)
    wanted = [move for move in moves if not move.is_done]
    if not wanted:
        return Answer(_as_json(moves, {}, requested=False), ("All of these partitions have these replicas already.",))
    return await _carry_out(session, views, wanted, doing)


async def cancellation(session: ZooKeeperSession, selectors: Sequence[Selector], doing: ReassignmentOptions) -> Answer:
    """Request the earlier replicas for reassignments in progress: all, or the selected ones."""
    views = await view_partitions(session, {selector.topic for selector in selectors} or None)
    chosen = [
        tp for tp in selection(views, selectors) if views.assignments[tp].is_being_reassigned or (tp in views.requested)
    ]
    if not chosen:
        if views.requests_unseen is not None:
            raise Refusal(
                f"no reassignment is seen, and others may be requested: {views.requests_unseen}", Exit.UNREACHABLE
            )
        raise Refusal(
            "no reassignment of these partitions is in progress" if selectors else "no reassignment in progress"
        )
    moves = [Move(tp, views.assignments[tp], views.assignments[tp].origin) for tp in chosen]
    return await _carry_out(session, views, moves, doing)


async def _carry_out(
    session: ZooKeeperSession, views: PartitionViews, moves: list[Move], doing: ReassignmentOptions
) -> Answer:
    from lethe.admin.replica_sizes import leader_sizes

    sizes = {} if doing.ask is None else await leader_sizes(views, [move.partition for move in moves], doing.ask)
    plan = [_line(move, sizes) for move in moves]
    copied = sum(sizes.get(move.partition, 0) * len(move.adding) for move in moves)
    unknown = sum(bool(move.adding) and move.partition not in sizes for move in moves)
    if any(move.adding for move in moves):
        plan.append(
            f"Bytes to copy: {copied:,}" + (f", and {counted(unknown, 'partition')} of unknown size" if unknown else "")
        )
    if doing.dry_run:
        return Answer(_as_json(moves, sizes, requested=False), ("Would move:", *plan))
    acting = await acting_controller(session)
    await demand_agreement(
        plan,
        f"Move the replicas of {plural(len(moves), 'this', 'these')} {counted(len(moves), 'partition')}?",
        doing.confirm,
    )
    targets = {move.partition: move.target for move in moves}
    try:
        outcome = await request_reassignment(session, targets, may_merge=doing.may_merge or acting.is_lethe)
    except RequestPending as pending:
        raise Refusal(
            f"{pending}, and {acting.text}: Kafka's controller takes up what is there when the request is created, and "
            "not what is added to it. Wait until it is done (--list); or give --merge, and let the controller change "
            "afterwards (lethe controller-resign)"
        ) from pending
    except MalformedZnode as malformed:
        raise Refusal(f"{malformed}; nothing was added to it") from malformed
    demand_done(outcome)
    if waiting := acting.note("replicas move"):
        note(waiting)
    if outcome.was_done and not acting.is_lethe:
        note("WARNING: it was added to the request that was there: Kafka's controller acts on it after the next change")
    lines = (
        *plan,
        f"Requested for {counted(len(moves), 'partition')}. For a way back, keep the assignment from before:",
    )
    rollback = reassignment_text({move.partition: move.now.origin for move in moves})
    if doing.wait_ms is None:
        return Answer(_as_json(moves, sizes, requested=True), (*lines, rollback))
    moved = await wait_until_moved(session, moves, timeout_ms=doing.wait_ms, quiet=doing.quiet)
    data = {**_as_json(moves, sizes, requested=True), "result": moved.data}
    return Answer(data, (*lines, rollback, *moved.lines), moved.tables, moved.exit)


def _line(move: Move, sizes: dict[TopicPartition, int]) -> str:
    parts = [f"{move.partition}: {_ids(move.now.replicas)} -> {_ids(move.target)}"]
    if move.adding:
        parts.append(f"adding {_ids(move.adding)}")
    if move.removing:
        parts.append(f"removing {_ids(move.removing)}")
    if move.now.is_being_reassigned:
        parts.append(f"instead of the reassignment to {_ids(move.now.target)} in progress")
    if move.adding and move.partition in sizes:
        parts.append(f"{counted(sizes[move.partition], 'byte')} each")
    return ", ".join(parts)


def _ids(brokers: Sequence[int]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"


def _as_json(moves: Sequence[Move], sizes: dict[TopicPartition, int], *, requested: bool) -> dict[str, JsonValue]:
    return {
        "requested": requested,
        "moves": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "replicas": [*move.now.replicas],
                "target": [*move.target],
                "adding": [*move.adding],
                "removing": [*move.removing],
                "size_bytes": sizes.get(move.partition),
            }
            for move in moves
        ],
        "rollback": _kafka_json({move.partition: move.now.origin for move in moves}),
    }


def _kafka_json(targets: dict[TopicPartition, tuple[int, ...]]) -> JsonValue:
    listed: list[JsonValue] = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": [*replicas]} for tp, replicas in targets.items()
    ]
    return {"version": 1, "partitions": listed}


def _generated(
    current: dict[TopicPartition, tuple[int, ...]], targets: dict[TopicPartition, tuple[int, ...]]
) -> Answer:
    lines = (
        "Current partition replica assignment",
        reassignment_text(current),
        "",
        "Proposed partition reassignment configuration",
        reassignment_text(targets),
    )
    return Answer({"current": _kafka_json(current), "proposed": _kafka_json(targets)}, lines)


def _parsed(texts: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, replicas in map(parse_move, texts):
        if partition in found:
            raise ValueError(f"{partition} is named twice")
        found[partition] = replicas
    return found


def _read(option: str, path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    return parse_reassignment_file(read_given(option, path), str(path))


def _with_ask(
    doing: ReassignmentOptions, reach: BrokerReach, targets: dict[TopicPartition, tuple[int, ...]]
) -> ReassignmentOptions:
    """Add an AskBroker for sizes. Its import is slow, so it is deferred."""
    from lethe.survey.brokers import broker_asker

    topics = {tp.topic for tp in targets}
    ask = broker_asker(reach, connect_timeout_ms=2_000, request_timeout_ms=10_000, topics=topics)
    return ReassignmentOptions(doing.confirm, ask, doing.dry_run, doing.may_merge, doing.wait_ms, doing.quiet)
