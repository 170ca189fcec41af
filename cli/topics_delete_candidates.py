"""`lethe topics delete --from-candidates`: deletes topics that the pipeline found unused, after its own checks.

The table becomes a plan: which topics are deleted, which are not and why, and which consumer groups use them. The user
has to agree to it. Then topics are marked at a limited pace, and each batch is checked again right before.

    refused                                    left out
    a table that is too old                    topics that the lake protects
    a table of another cluster                 topics with an unanswered question (unless allowed)
    a table that is older than its rules       topics that have changed since the survey

`admin.candidates_read` reads the table and checks what it can without the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.candidates import Candidate
from lethe.admin.candidates_judge import SelectedCandidate, SkippedCandidate
from lethe.admin.candidates_plan import (
    CandidateDeletionRequest,
    DeletionPlan,
    demand_this_cluster,
    judge_all,
    make_plan,
)
from lethe.admin.candidates_read import CandidatesTable
from lethe.admin.controller_identity import acting_controller
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.paced_marking import PacedMarking
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer, Table
from lethe.cli.asking import Confirm, demand_agreement
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.protocol.counting import counted, listed, plural
from lethe.protocol.journal import JsonValue, time_to_text

SHOWN_PROBLEMS: Final = 10


async def candidates_deletion(
    session: ZooKeeperSession, wanted: CandidateDeletionRequest, table: CandidatesTable, *, confirm: Confirm | None
) -> Answer:
    """Check, ask and delete. `table` was read from `wanted.path`. Raises Refusal where nothing may be deleted."""
    candidates = table.candidates
    wanted = replace(wanted, protected=(*wanted.protected, *table.protected))
    await demand_this_cluster(session, wanted.path, table.cluster_id)
    plan = await make_plan(session, candidates, wanted)
    data = plan_to_json(plan, candidates)
    if wanted.dry_run or not plan.chosen:
        return Answer(data, tuple(_summary(plan)), tuple(plan_tables(plan)))
    if (paused := await deletions_paused(session)) is not None:
        reason = f" ({paused.reason})" if paused.reason else ""
        raise Refusal(f"deletions are paused{reason}: end that first, with `lethe topics resume-deletions`", data=data)
    _show(plan)
    for line in _summary(plan):
        note(line)
    await demand_agreement(
        (),
        f"Delete {plural(len(plan.chosen), 'this', 'these')} {counted(len(plan.chosen), 'topic')} for good?",
        confirm,
        data,
    )
    if waiting := (await acting_controller(session)).note("deletions begin"):
        note(waiting)
    marking = await _mark(session, plan, wanted)
    return _answer(plan, data, *marking)


async def _mark(
    session: ZooKeeperSession, plan: DeletionPlan, wanted: CandidateDeletionRequest
) -> tuple[PacedMarking, bool]:
    by_name = {each.candidate.topic: each.candidate for each in plan.chosen}

    async def recheck(names: Sequence[str]) -> dict[str, str]:
        judged, _ = await judge_all(session, [by_name[name] for name in names], wanted)
        return {each.topic: each.why for each in judged if isinstance(each, SkippedCandidate)}

    czxids = {each.candidate.topic: each.czxid for each in plan.chosen}
    marking = PacedMarking(session, czxids, wanted.pace, recheck)
    try:
        is_settled = await wait_for_all(
            marking.step, len(czxids), "deleted", timeout_ms=wanted.timeout_ms, quiet=wanted.quiet, from_last=True
        )
    except asyncio.CancelledError:
        note(_interruption_report(marking))
        raise
    return marking, is_settled


def _interruption_report(marking: PacedMarking) -> str:
    """Return what was done before an interruption; the answer is not printed then."""
    begun = [name for name in marking.czxids if name not in marking.settled and name not in marking.pending]
    words = f"{counted(len(marking.deleted), 'topic')} deleted, {len(marking.pending)} not begun: those stay"
    if not begun:
        return words
    return f"{words}; marked, or about to be: {listed(begun, SHOWN_PROBLEMS)}"


# --- words --------------------------------------------------------------------------------------------------------


def _summary(plan: DeletionPlan) -> list[str]:
    size = sum(each.candidate.size_bytes for each in plan.chosen)
    partitions = sum(each.candidate.partitions for each in plan.chosen)
    chosen = f"{counted(len(plan.chosen), 'topic')} with {counted(partitions, 'partition')} and {counted(size, 'byte')}"
    lines = [f"{chosen}, {len(plan.left_out)} left out"]
    lines += _warnings(plan)
    if not plan.chosen:
        lines.append("Nothing to delete.")
    return lines


def _warnings(plan: DeletionPlan) -> list[str]:
    lines = [f"WARNING: could not be asked: {problem}" for problem in plan.problems[:SHOWN_PROBLEMS]]
    if len(plan.problems) > SHOWN_PROBLEMS:
        lines.append(f"WARNING: and {len(plan.problems) - SHOWN_PROBLEMS} more of the kind; --json names all")
    if plan.problems:
        lines.append(
            "Topics concerned are left out; --allow-unasked deletes them none the less."
            if plan.is_strict
            else "WARNING: topics concerned go none the less, as --allow-unasked says."
        )
    return lines


def plan_tables(plan: DeletionPlan) -> list[Table]:
    """Return the tables of topics to delete and of topics left out."""
    tables = []
    if plan.chosen:
        columns = ("topic", "partitions", "bytes", "last write", "unwritten", "by", "affected groups")
        tables.append(Table(columns, tuple(_cells(each) for each in plan.chosen), "To be deleted"))
    if plan.left_out:
        rows = tuple((out.topic, out.why) for out in plan.left_out)
        tables.append(Table(("topic", "why"), rows, "Left out"))
    return tables


def _cells(each: SelectedCandidate) -> tuple[str, ...]:
    found = each.candidate
    last = "" if found.last_write_ms is None else time_to_text(found.last_write_ms)[:10]
    notice = [f"group {group.name} has offsets ({group.state or 'no state'})" for group in each.groups or ()]
    if not notice:
        notice = ["could not be asked" if each.groups is None else "nobody"]
    return (
        found.topic,
        str(found.partitions),
        f"{found.size_bytes:,}",
        last,
        counted(found.unwritten_days, "day"),
        found.evidence,
        "; ".join((*notice, *each.notes)),
    )


def _show(plan: DeletionPlan) -> None:
    """Print the plan on standard error, like the question; the answer comes later."""
    from rich.console import Console

    from lethe.cli.render import WIDTH_IN_FILES, renderable

    width = None if sys.stderr.isatty() else WIDTH_IN_FILES
    Console(stderr=True, width=width, highlight=False).print(renderable(Answer(None, (), tuple(plan_tables(plan)))))


def plan_to_json(plan: DeletionPlan, candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    """Return the whole plan; `state` of a topic is `planned` until something was done."""
    return {
        "survey_ids": [*sorted({candidate.survey_id for candidate in candidates})],
        "topics": [_topic_to_json(each) for each in plan.chosen],
        "left_out": [{"topic": out.topic, "why": out.why} for out in plan.left_out],
        "could_not_be_asked": [*plan.problems],
    }


def _topic_to_json(each: SelectedCandidate) -> dict[str, JsonValue]:
    found = each.candidate
    return {
        "topic": found.topic,
        "state": "planned",
        "partitions": found.partitions,
        "size_bytes": found.size_bytes,
        "is_empty": found.is_empty,
        "last_write": None if found.last_write_ms is None else time_to_text(found.last_write_ms),
        "unwritten_days": found.unwritten_days,
        "evidence": found.evidence,
        "groups": None
        if each.groups is None
        else [{"group": group.name, "state": group.state} for group in each.groups],
        "notes": [*each.notes],
    }


def _answer(plan: DeletionPlan, data: dict[str, JsonValue], marking: PacedMarking, is_settled: bool) -> Answer:
    """Return what became of each topic."""
    states = {
        **dict.fromkeys(marking.pending, ("not begun", "")),
        **dict.fromkeys(marking.under_way, ("marked", "not deleted yet; `lethe explain` says why")),
        **dict.fromkeys(marking.deleted, ("deleted", "")),
        **{name: ("left out", why) for name, why in marking.left_out.items()},
        **{name: ("failed", why) for name, why in marking.failed.items()},
        **{name: ("unseen", why) for name, why in marking.unseen.items()},
    }
    topics: list[JsonValue] = []
    for each in plan.chosen:
        state, why = states[each.candidate.topic]
        topics.append({**_topic_to_json(each), "state": state, "why": why or None})
    rows = tuple((each.candidate.topic, *states[each.candidate.topic]) for each in plan.chosen)
    later = [SkippedCandidate(name, why) for name, why in marking.left_out.items()]
    left_out = replace(plan, left_out=(*plan.left_out, *later), chosen=())
    code = Exit.NO if marking.failed else Exit.TIMED_OUT
    if is_settled and not marking.failed:
        code = Exit.UNREACHABLE if marking.unseen else Exit.OK
    line = f"{len(marking.deleted)} of {counted(len(plan.chosen), 'topic')} deleted"
    tables = (Table(("topic", "state", "why"), rows), *plan_tables(left_out))
    return Answer({**data, "topics": topics}, (line, *_warnings(plan)), tables, code)
