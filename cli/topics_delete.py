"""`lethe topics delete`: marks topics for deletion and, with --wait, waits until nothing is left.

All names are checked before any topic is marked: if one topic does not exist, none is deleted.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.candidates_plan import AT_ONCE, MAX_AGE_DAYS, CandidateDeletionRequest
from lethe.admin.candidates_read import candidates_table
from lethe.admin.controller_identity import acting_controller
from lethe.admin.debt_forecast import forecast
from lethe.admin.deletion_look import look, targets
from lethe.admin.deletion_plan import TopicDeletionPlan
from lethe.admin.deletion_plan_look import NO_ORDERS, mark_as_planned
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.deletion_wait import wait_until_gone
from lethe.admin.hold_causes import held_back
from lethe.admin.marker_orders import OWE, demand_obedience, order_owing
from lethe.admin.outcomes import Outcome
from lethe.admin.paced_marking import Pace
from lethe.admin.trash import mark_for_trash
from lethe.cli.answer import Answer
from lethe.cli.asking import ask_user
from lethe.cli.broker_access import reach_from
from lethe.cli.deletion_display import progress_display
from lethe.cli.deletion_show import Detail, marking_answer, marking_lines, waiting_answer
from lethe.cli.explain import why_waiting
from lethe.cli.options import (
    AsJson,
    BootstrapServer,
    CommandConfig,
    DryRun,
    Expressions,
    IfExists,
    TimeoutMs,
    TopicNames,
    ZooKeeperOrBrokers,
    given,
)
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.topics_delete_candidates import candidates_deletion
from lethe.cli.topics_delete_grace import deletion_with_grace, demand_grace
from lethe.cli.topics_delete_selection import selected
from lethe.cli.topics_delete_unreadable import unreadable_deletion
from lethe.cli.topics_plan_delete import PlanOptions, demand_as_planned, plan_options, read_plan
from lethe.cli.ways import Way, through
from lethe.protocol.durations import parse_duration_ms
from lethe.protocol.topic_names import demand_expression
from lethe.survey.brokers import AskAbout, reused_connections

if TYPE_CHECKING:
    from lethe.admin.client_cluster import ClientCluster

ASK_TIMEOUT_MS: Final = 5_000
"""Per answer of a broker."""

Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print only what was not done, and why; nothing where everything was.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print a line for each topic, not for each cause.")]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Delete without asking the matches of a regular expression, what is --unreadable, or what is planned "
        "--from-candidates.",
    ),
]
Unreadable = Annotated[
    bool,
    typer.Option(
        "--unreadable",
        help="Delete topics whose znode cannot be understood, by their exact names. Asks first.",
    ),
]
Owe = Annotated[
    bool,
    typer.Option(
        "--owe",
        help="Do not wait for brokers that are not registered: they owe what they have of the topics, and delete it "
        "when they return. Needs Lethe's controller.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until nothing of the topics is left, and show how far it is.")]
FromCandidates = Annotated[
    Path | None,
    typer.Option(
        "--from-candidates",
        metavar="PATH",
        help="Delete the topics that `lethe pipeline` found unused. PATH is its lake, the table stale_topic_candidates "
        "in it, or an export of that (.jsonl, .csv). Every topic is looked at again, and the plan is asked about.",
        show_default=False,
    ),
]
Protect = Annotated[
    list[str] | None,
    typer.Option(
        "--protect",
        metavar="PATTERN",
        help="With --from-candidates: topics that are never deleted, with * and ?; may be repeated. What the lake "
        "protects is left out anyway.",
        show_default=False,
    ),
]
MaxAge = Annotated[
    float,
    typer.Option("--max-age", metavar="DAYS", min=0, help="With --from-candidates: how old its survey may be."),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", min=1, help="With --from-candidates: deletions under way at the same time.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        metavar="PER_SECOND",
        min=0.001,
        help="With --from-candidates: deletions begun in a second at most.",
        show_default=False,
    ),
]
AllowUnasked = Annotated[
    bool,
    typer.Option(
        "--allow-unasked",
        help="With --from-candidates: delete also topics whose readers or last write could not be seen.",
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Delete what `lethe topics plan-delete` has planned in this file, all or nothing: not if anything has "
        "changed since.",
        show_default=False,
    ),
]
AllowWrites = Annotated[
    bool, typer.Option("--allow-writes", help="With --plan: delete also topics that were written to since.")
]
AcceptUnseen = Annotated[
    bool, typer.Option("--accept-unseen", help="With --plan: delete although something could not be seen, then or now.")
]


Grace = Annotated[
    str | None,
    typer.Option(
        "--grace",
        metavar="DURATION",
        help="Keep the topics in the trash for so long (90s, 30m, 24h, 7d; 0: delete them at once), whatever "
        "lethe.deletion.grace says: `lethe topics undelete` brings them back. With --wait: until they are there.",
        show_default=False,
    ),
]


def delete(
    zookeeper: ZooKeeperOrBrokers = None,
    bootstrap_server: BootstrapServer = None,
    names: Expressions = None,
    topic: TopicNames = None,
    if_exists: IfExists = False,
    yes: Yes = False,
    unreadable: Unreadable = False,
    owe: Owe = False,
    plan: PlanFile = None,
    allow_writes: AllowWrites = False,
    accept_unseen: AcceptUnseen = False,
    grace: Grace = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    from_candidates: FromCandidates = None,
    protect: Protect = None,
    max_age: MaxAge = MAX_AGE_DAYS,
    at_once: AtOnce = AT_ONCE,
    rate: Rate = None,
    allow_unasked: AllowUnasked = False,
    timeout_ms: TimeoutMs = 300_000,
    quiet: Quiet = False,
    verbose: Verbose = False,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics. Exit code 1 where one does not exist or is protected.

    With --bootstrap-server the controller is asked, and --wait looks at brokers alone; 4 where it took longer.

    With --plan: 1 where anything has changed since the plan, or could not be seen; each change is named.
    With --wait: 4 where something was left when the time was over; 3 where nothing is left as far as could be seen, and
    the metadata cache or the log directories of some broker could not be seen.
    With --from-candidates deletions are always waited for: 4 says that none ended within --timeout-ms.
    """

    for_candidates = {
        "--protect": bool(protect),
        "--max-age": max_age != MAX_AGE_DAYS,
        "--at-once": at_once != AT_ONCE,
        "--rate": rate is not None,
        "--allow-unasked": allow_unasked,
    }
    expressions = given(names, topic)

    planned = plan_options(
        plan,
        allow_writes=allow_writes,
        accept_unseen=accept_unseen,
        owe=owe,
        confirm=None if yes or dry_run else ask_user,
        dry_run=dry_run,
        wait=wait,
        timeout_ms=timeout_ms,
        show_progress=not as_json,
    )

    async def command() -> Answer:
        detail = Detail.of(quiet=quiet, verbose=verbose)
        way = Way(zookeeper, bootstrap_server, command_config, timeout_ms, quiet)
        if grace is not None:
            no_trash = unreadable or owe or from_candidates is not None or plan is not None
            demand_grace(grace, no_trash=no_trash)
        reach = reach_from(command_config)
        _check_credentials(way)
        run = functools.partial(through, way, brokers=by_brokers)
        if from_candidates is not None:
            if expressions or unreadable or owe or plan is not None:
                raise ValueError(
                    "--from-candidates says which topics: give neither topics nor --plan, --unreadable or --owe with it"
                )
            protected, pace = tuple(protect or ()), Pace(at_once, rate)
            wanted = CandidateDeletionRequest(
                from_candidates, reach, protected, max_age, pace, dry_run, timeout_ms, as_json, allow_unasked
            )
            table = await candidates_table(from_candidates, max_age_days=max_age)
            confirm = None if yes else ask_user
            return await run(lambda session: candidates_deletion(session, wanted, table, confirm=confirm))
        if planned is not None:
            planned.demand_alone(named=bool(expressions) or unreadable or if_exists)
            agreed = await read_plan(planned.path)
            return await run(lambda session: planned_deletion(session, reach, planned, agreed, detail))
        if allow_writes or accept_unseen:
            raise ValueError("--allow-writes and --accept-unseen go with --plan, and have no effect without it")
        demand_sense(expressions, unreadable=unreadable, owe=owe, wait=wait, for_candidates=for_candidates)
        return await run(lambda session: by_name(session, reach))

    async def by_brokers(cluster: ClientCluster) -> Answer:
        from lethe.cli.topics_delete_brokers import BrokersDeletion, brokers_deletion

        detail, confirm = Detail.of(quiet=quiet, verbose=verbose), None if yes or dry_run else ask_user
        return await brokers_deletion(
            cluster,
            BrokersDeletion(expressions, if_exists, confirm, dry_run, wait, detail, timeout_ms, not as_json),
        )

    async def by_name(session: ZooKeeperSession, reach: BrokerReach) -> Answer:
        detail = Detail.of(quiet=quiet, verbose=verbose)
        if unreadable:
            return await unreadable_deletion(
                session, expressions, confirm=None if yes else ask_user, if_exists=if_exists, dry_run=dry_run
            )
        agreed = yes or dry_run
        names = await selected(session, expressions, if_exists=if_exists, confirm=None if agreed else ask_user)
        if not names:
            return Answer([], ("Nothing to delete.",))
        if grace is not None and parse_duration_ms(grace) and not dry_run:
            return await deletion_with_grace(session, names, grace, wait=wait, timeout_ms=timeout_ms)
        async with reused_connections(reach, timeout_ms=min(ASK_TIMEOUT_MS, timeout_ms)) as ask:
            expected = (await forecast(session, names, ask)).lines() if owe else ()
            if dry_run:
                return Answer([*names], (*(f"Would delete topic {name}." for name in names), *expected))
            for line in expected:
                note(f"note: {line}")
            return await deletion(
                session,
                names,
                ask=ask if wait else None,
                owe=owe,
                mark=None if grace is None else lambda: mark_for_trash(session, names, 0),
                timeout_ms=timeout_ms,
                show_progress=not as_json,
                detail=detail,
            )

    finish(command, as_json=as_json)


def _check_credentials(way: Way) -> None:
    """Read the files for asking Lethe's controller, which is asked through ZooKeeper. Raises ValueError."""
    if way.brokers is None:
        HttpCredentials.from_environment().check()


def demand_sense(
    expressions: Sequence[str], *, unreadable: bool, owe: bool = False, wait: bool, for_candidates: Mapping[str, bool]
) -> None:
    """Check a command line without --from-candidates, apart from the cluster. `for_candidates` tells which options of
    that one were given. Raises ValueError."""
    if not expressions:
        raise ValueError("which topics? Name them, or give --from-candidates")
    for option, is_given in for_candidates.items():
        if is_given:
            raise ValueError(f"{option} goes with --from-candidates, and has no effect on named topics: leave it out")
    if unreadable:
        if owe:
            raise ValueError("--owe cannot follow what is --unreadable, because its partitions and brokers are unknown")
        if wait:
            raise ValueError(
                "--wait cannot follow what is --unreadable, because its partitions and brokers are unknown: leave it "
                "out, and see with `lethe survey` what is left"
            )
        return
    for expression in expressions:
        demand_expression(expression)


async def planned_deletion(
    session: ZooKeeperSession, reach: BrokerReach, wanted: PlanOptions, agreed: TopicDeletionPlan, detail: Detail
) -> Answer:
    """Carry out the plan if nothing has changed. Raises Refusal that names each change."""
    if wanted.owe:
        await demand_obedience(session)
    async with reused_connections(reach, timeout_ms=min(ASK_TIMEOUT_MS, wanted.timeout_ms)) as ask:
        await demand_as_planned(session, reach, wanted, agreed, ask)
        names = [each.topic for each in agreed.topics]
        if wanted.dry_run:
            return Answer([*names], tuple(f"Would delete topic {name}." for name in names))
        return await deletion(
            session,
            names,
            ask=ask if wanted.wait else None,
            mark=lambda: mark_as_planned(session, agreed, OWE if wanted.owe else NO_ORDERS),
            timeout_ms=wanted.timeout_ms,
            show_progress=wanted.show_progress,
            detail=detail,
        )


async def deletion(
    session: ZooKeeperSession,
    names: Sequence[str],
    *,
    ask: AskAbout | None = None,
    owe: bool = False,
    mark: Callable[[], Awaitable[list[Outcome]]] | None = None,
    timeout_ms: int = 300_000,
    show_progress: bool = True,
    detail: Detail = Detail.CAUSES,
) -> Answer:
    """Mark the topics by `mark`, or with `owe` so that absent brokers are not waited for. With `ask`, wait up to
    `timeout_ms` until nothing is left, but for what is owed."""
    wanted = await targets(session, names)
    if mark is None:
        there = [target.name for target in wanted if target.czxid]
        outcomes = await (order_owing if owe else topic_znodes.mark_for_deletion)(session, there)
    else:
        outcomes = await mark()
    if outcomes and (paused := await deletions_paused(session)) is not None:
        reason = f" ({paused.reason})" if paused.reason else ""
        note(f"note: deletions are paused{reason}; this one begins after `lethe topics resume-deletions`")
    if outcomes:
        for line in (await held_back(session)).lines():
            note(f"note: {line}")
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    alone = [target.name for target in wanted if target.czxid is None]
    if ask is None or failed:
        return marking_answer(outcomes, detail, alone)
    for line in marking_lines(outcomes, detail, alone):
        note(line)
    quiet = not show_progress or detail is Detail.QUIET
    with progress_display(quiet=quiet, total=len(wanted)) as display:
        waited = await wait_until_gone(
            functools.partial(look, session, ask), wanted, timeout_ms=timeout_ms, display=display
        )
    waited.is_lethe = (await acting_controller(session)).may_be_lethe
    waited.why = await why_waiting(session, [each.name for each in waited.progress if each.is_marked], ask)
    return waiting_answer(waited, detail)
