"""`lethe partitions elect`: elects preferred leaders, or unclean ones where a partition has no leader.

Only elections that can succeed are asked for; of the others it is said why they cannot. A request is one znode for the
whole cluster, taken by the controller: one that is there already is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.outcomes import demand_done
from lethe.admin.partition_names import Selector, parse_selector
from lethe.admin.partition_requests import Election, election_is_pending, election_of, portions, request_election
from lethe.admin.partition_views import PartitionViews, selection, view_partitions
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.cli.asking import ask_user
from lethe.cli.completing import complete_topics
from lethe.cli.options import AsJson, DryRun, TimeoutMs, TopicNames, Yes, ZooKeeper, given
from lethe.cli.partitions_elect_unclean import unclean_election
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import TopicPartition

Partitions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC[:PARTITION]",
        help="Topics, or single partitions; also by --topic.",
        autocompletion=complete_topics,
        show_default=False,
    ),
]
Preferred = Annotated[bool, typer.Option("--preferred", help="Let the preferred (first) replicas lead.")]
Unclean = Annotated[
    bool,
    typer.Option(
        "--unclean",
        help="Give partitions without a leader one that was not in sync. LOSES RECORDS. Asks first. Switches "
        "unclean.leader.election.enable on for the topic, and back when it is done.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="All partitions of the cluster; with --preferred only.")]


def elect(
    zookeeper: ZooKeeper,
    partitions: Partitions = None,
    topic: TopicNames = None,
    preferred: Preferred = False,
    unclean: Unclean = False,
    every: All = False,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 60_000,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: the preferred ones, or unclean ones where a partition has none.

    Exit code 1 where an election cannot be, or did not come out so; 3 where the result is unseen; 4 where no
    controller took it up in time.
    """

    named = given(partitions, topic)

    async def command() -> Answer:
        if preferred == unclean:
            raise ValueError("give either --preferred or --unclean")
        if every and unclean:
            raise ValueError("--all is for --preferred only: unclean elections lose records, so name the partitions")
        if every == bool(named):
            raise ValueError("name partitions as TOPIC or TOPIC:PARTITION" + ("" if unclean else ", or give --all"))
        selectors = [parse_selector(text) for text in named]
        if unclean:
            confirm = None if yes else ask_user
            return await with_session(
                zookeeper,
                lambda session: unclean_election(
                    session, selectors, confirm=confirm, dry_run=dry_run, timeout_ms=timeout_ms, quiet=as_json
                ),
            )
        return await with_session(
            zookeeper,
            lambda session: preferred_election(
                session, selectors, dry_run=dry_run, timeout_ms=timeout_ms, quiet=as_json
            ),
        )

    finish(command, as_json=as_json)


async def preferred_election(
    session: ZooKeeperSession,
    selectors: Sequence[Selector],
    *,
    dry_run: bool = False,
    timeout_ms: int = 60_000,
    quiet: bool = True,
) -> Answer:
    """Elect the preferred replicas of the selected partitions (none: of all); return the leaders before and after."""
    views = await view_partitions(session, {selector.topic for selector in selectors} or None)
    elections = [election_of(views, tp) for tp in selection(views, selectors)]
    wanted = [election.partition for election in elections if election.is_needed]
    if dry_run or not wanted:
        return _answer(elections, views, dry_run=dry_run)
    if waiting := (await acting_controller(session)).note("the election takes place"):
        note(waiting)
    is_taken = await _ask_for(session, wanted, timeout_ms=timeout_ms, quiet=quiet)
    after = await view_partitions(session, {tp.topic for tp in wanted})
    return _answer(elections, after, is_taken=is_taken)


async def _ask_for(
    session: ZooKeeperSession, partitions: Sequence[TopicPartition], *, timeout_ms: int, quiet: bool
) -> bool:
    """Request the elections, portion by portion; return True where all requests were taken in time."""
    waiting = list(portions(partitions))
    taken = 0
    asked: list[TopicPartition] = []

    async def look() -> int:
        nonlocal asked, taken
        if await election_is_pending(session):
            return taken
        taken += len(asked)
        asked = []
        if waiting:
            outcome = await request_election(session, waiting[0])
            demand_done(outcome)
            if not outcome.was_done:
                asked = waiting.pop(0)
        return taken

    return await wait_for_all(look, len(partitions), "elections taken up", timeout_ms=timeout_ms, quiet=quiet)


def _answer(
    elections: Sequence[Election], after: PartitionViews, *, is_taken: bool = True, dry_run: bool = False
) -> Answer:
    rows: list[tuple[str, ...]] = []
    data: list[JsonValue] = []
    failed = late = unseen = 0
    for election in elections:
        was_asked = election.is_needed and not dry_run
        now = after.leader(election.partition) if was_asked else election.before
        unread = after.unseen(election.partition) if was_asked else None
        if election.problem is not None:
            result = f"no: {election.problem}"
        elif not election.is_needed:
            result = "the preferred replica leads already"
        elif dry_run:
            result = "would be elected"
        elif now == election.preferred:
            result = "elected"
        elif unread is not None:
            result = f"unseen: {unread}"
        elif is_taken:
            result = "no: the controller did not elect it; has its broker gone, or left the ISR?"
        else:
            result = "not taken up yet"
        late += was_asked and not is_taken and now != election.preferred
        unseen += unread is not None
        failed += result.startswith("no:")
        shown = (
            _shown(election.before, is_unseen=election.is_unseen),
            _shown(now, is_unseen=unread is not None if was_asked else election.is_unseen),
        )
        if result != "the preferred replica leads already":
            rows.append((election.partition.topic, str(election.partition.partition), *shown, result))
        data.append(
            {
                "topic": election.partition.topic,
                "partition": election.partition.partition,
                "preferred": election.preferred,
                "leader_before": election.before,
                "leader": now,
                "elected": election.is_needed and now == election.preferred,
                "problem": election.problem,
                "result": result,
            }
        )
    needed = sum(election.is_needed for election in elections)
    line = f"{counted(len(elections), 'partition')}; {needed} {'need' if dry_run else 'needed'} an election"
    tables = (Table(("topic", "partition", "before", "after", "result"), tuple(rows)),) if rows else ()
    code = Exit.TIMED_OUT if late else Exit.NO if failed else Exit.UNREACHABLE if unseen else Exit.OK
    return Answer(data, (line,), tables, code)


def _shown(leader: int | None, *, is_unseen: bool) -> str:
    return "unseen" if is_unseen else "none" if leader is None else str(leader)
