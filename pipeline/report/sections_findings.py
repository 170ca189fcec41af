"""The sections that ask for somebody: stuck topics, what is left over, candidates for deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.pipeline.report.charts import share
from lethe.pipeline.report.html_table import CARDS, Cell, Column, Shown, left_out, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.parts import (
    Section,
    amount,
    bytes_cell,
    calm,
    code,
    command,
    labelled,
    sentences,
    stack,
    took,
    topic_cell,
    when,
)
from lethe.pipeline.report.remedies import remedy
from lethe.pipeline.report.values import Candidate, Disks, Finding, FindingCount, Report, Rows, Stuck, SurveyRow
from lethe.pipeline.report.verdict import asked, disks_read, findings_by_standing, read_everything, saw_everything
from lethe.pipeline.report.words import NONE, count, cut, minute, number, size
from lethe.protocol.findings import Reason, Standing
from lethe.protocol.shell_words import option

_STANDINGS: Final = {each.code: each for each in Standing}
_REASONS: Final = {each.code: each for each in Reason}
_CLASSES: Final = {
    Standing.LEFT_OVER: "attention",
    Standing.SET_ASIDE: "attention",
    Standing.MISSING: "attention",
    Standing.INCOMPLETE: "attention",
    Standing.PENDING: "quiet",
}
_ENVIRONMENT: Final = join(
    (
        "Commands find ZooKeeper by ",
        el("code", "--zookeeper"),
        " or the variable ",
        el("code", "LETHE_ZOOKEEPER_CONNECT"),
        ".",
    )
)


# --- stuck --------------------------------------------------------------------------------------------------------


def stuck(report: Report) -> Section:
    rows = report.stuck
    tally = number(rows.total)
    if not rows.total:
        going_on = report.deletions.open
        text = "No deletion is stuck." + (f" {count(going_on, 'deletion')} under way." if going_on else "")
        return Section("stuck", "Stuck", None, calm(text), tally)
    columns = [
        Column("Topic", "name"),
        Column("Waits for", "wide"),
        Column("What helps", "wide"),
        Column("Waiting", "number"),
        Column("Marked (UTC)", "time"),
        Column("Phase"),
        Column("Seen in"),
    ]
    body = table(
        "Topics whose deletion has not come to its end",
        columns,
        [_stuck_row(row) for row in rows.shown],
        left_out=left_out(len(rows.shown), rows.total, "topic", "those that wait longest"),
        class_=CARDS,
        is_long=True,
    )
    lead = join(("Deletions that wait, for what, and what helps. ", _ENVIRONMENT))
    return Section("stuck", "Stuck", lead, body, tally, is_loud=True)


def _stuck_row(row: Stuck) -> list[Shown]:
    return [
        topic_cell(row.topic),
        sentences(row.reasons or ()),
        remedy_cell(row.remedy or ""),
        took(row.waiting_ms),
        when(row.since),
        row.phase,
        row.seen_in,
    ]


def remedy_cell(text: str) -> Markup | None:
    """A remedy as the tables have it: a command of ours, or words."""
    if not text:
        return None
    return command(text) if text.startswith("lethe ") else el("p", cut(text))


# --- left over ----------------------------------------------------------------------------------------------------


def leftovers(report: Report) -> Section:
    newest = report.newest
    if newest is None:
        text = "No survey was taken: lethe survey --out keeps one for the pipeline."
        body = _ahead(report.ahead) or calm(text)
        return Section("leftovers", "Left over", None, body, NONE)
    found = findings_by_standing(report)
    asks = sum(many for standing, many in found.items() if standing is not Standing.PENDING)
    parts: list[Markup | None] = []
    if report.findings.total:
        parts.append(_findings(report.findings.shown, report.findings.total))
    elif read_everything(report):
        parts.append(calm("Nothing is left over in ZooKeeper, in any cache or on any disk."))
    elif saw_everything(report):
        told = "Nothing is left over in ZooKeeper, in any cache and, as far as brokers tell of the others, on any disk."
        parts.append(el("p", told))
    else:
        parts.append(el("p", "Nothing is left over as far as could be seen, and not everything could."))
    if report.earlier.findings.total:
        earlier = report.earlier.findings
        parts.append(el("p", "On disks that only earlier surveys have looked into:"))
        parts.append(_findings(earlier.shown, earlier.total, are_earlier=True))
    parts.append(_unseen(newest))
    parts.append(_only_told(report.disks))
    parts.append(_ahead(report.ahead))
    parts.append(_by_place(report.counts, newest, report.findings.total))
    parts.append(_surveys(report))
    which = ", the newest whichever days are asked for," if asked(report) else ""
    said = f"As the survey of {minute(newest.taken_at)} UTC{which} found the three places. "
    lead = join((said, None if report.stuck.total else _ENVIRONMENT))
    return Section("leftovers", "Left over", lead, stack(*parts), number(asks), is_loud=bool(asks))


def _findings(rows: Sequence[Finding], total: int, *, are_earlier: bool = False) -> Markup:
    columns = [
        Column("What", "name code"),
        Column("Standing"),
        Column("Why", "wide"),
        Column("What helps", "wide"),
        Column("Bytes", "number"),
        Column("Broker", "number"),
        Column("Place"),
    ]
    return table(
        "What should not have been there" if are_earlier else "What should not be there, or should be and is not",
        [column._replace(kind="name") if column.kind == "name code" else column for column in columns],
        [_finding_row(row, f"{minute(row.taken_at)} UTC" if are_earlier else None) for row in rows],
        left_out=left_out(len(rows), total, "finding", "what is left over before what is pending, the largest first"),
        class_=CARDS,
        is_long=True,
    )


def _finding_row(row: Finding, seen_at: str | None) -> list[Shown]:
    advice = remedy(row, seen_at)
    helps = join((el("p", advice.does), None if advice.command is None else command(advice.command)))
    return [
        code(row.what),
        _standing(row.standing),
        cut(reason_words(row.reason) + (f" ({row.detail})" if row.detail else "")),
        helps,
        bytes_cell(row.size_bytes or None),
        Cell(None if row.broker is None else str(row.broker), row.broker),
        row.place,
    ]


def _standing(code_: str | None) -> Cell:
    standing = _STANDINGS.get(code_ or "")
    if standing is None:
        return Cell(code_)
    return Cell(labelled(standing.value, _CLASSES[standing]), code_)


def reason_words(code_: str | None) -> str:
    """The sentence of a reason; a code that this version does not know is shown as it is."""
    reason = _REASONS.get(code_ or "")
    return (code_ or "") if reason is None else reason.value


def _unseen(newest: SurveyRow) -> Markup | None:
    problems = newest.problems or ()
    notes = [f"{each.get('where') or ''}: {each.get('what') or ''}" for each in problems]
    moving = newest.in_motion or ()
    if moving:
        shown = ", ".join(moving[:10]) + (f" and {number(len(moving) - 10)} more" if len(moving) > 10 else "")
        notes.append(f"changing meanwhile, so that nothing is said of them: {shown}")
    if not notes:
        return None
    return el("div", el("p", "Could not be seen, or not whole:"), sentences(notes, 10), class_="unseen")


def _only_told(disks: Disks | None) -> Markup | None:
    if disks is None:
        text = "Which disks were looked into is not known: this lake has no silver/directories."
        return el("div", el("p", text), class_="unseen")
    if not disks.unread:
        return None
    text = (
        f"{disks_read(disks)} read whole. What brokers tell "
        "of the others leaves out what was set aside, what waits for its removal and whose an old directory is; lethe "
        "survey --out on each broker host looks into them:"
    )
    notes = [f"broker {NONE if where.broker is None else where.broker}, {where.path or ''}" for where in disks.unread]
    return el("div", el("p", text), sentences(notes, 10), class_="unseen")


def _ahead(surveys: Rows[SurveyRow]) -> Markup | None:
    if not surveys.total:
        return None
    text = (
        "Of the future, and therefore not looked at: they say that they were taken after the pipeline took them in. "
        "Is the clock of their host ahead?"
    )
    notes = [f"survey {survey.survey_id or ''}, taken at {minute(survey.taken_at)} UTC" for survey in surveys.shown]
    if more := surveys.total - len(notes):
        notes[-1] += f", and {number(more)} more"
    return el("div", el("p", text), sentences(notes), class_="unseen")


def _by_place(counts: Sequence[FindingCount], newest: SurveyRow, total: int) -> Markup | None:
    rows = [row for row in counts if row.survey_id == newest.survey_id]
    if not rows or len(rows) >= total:
        return None
    shown = rows[:200]
    most = max(row.size_bytes or 0 for row in rows)
    cells: list[list[Shown]] = [
        [
            reason_words(row.reason),
            _standing(row.standing),
            row.place,
            Cell(None if row.broker is None else str(row.broker), row.broker),
            amount(row.findings),
            Cell(share(row.size_bytes or 0, most, size(row.size_bytes or 0))),
            bytes_cell(row.size_bytes or None),
        ]
        for row in shown
    ]
    columns = [
        Column("Reason", "name"),
        Column("Standing"),
        Column("Place"),
        Column("Broker", "number"),
        Column("Findings", "number"),
        Column("", "plot"),
        Column("Bytes", "number"),
    ]
    note = left_out(len(shown), len(rows), "line", "what is left over first")
    return table("The same, counted by reason and broker", columns, cells, left_out=note, is_long=True)


def _surveys(report: Report) -> Markup | None:
    if report.surveys.total < 2:
        return None
    by_survey: dict[str | None, dict[str, int]] = {}
    sizes: dict[str | None, int] = {}
    for row in report.counts:
        found = by_survey.setdefault(row.survey_id, {})
        found[row.standing or ""] = found.get(row.standing or "", 0) + (row.findings or 0)
        sizes[row.survey_id] = sizes.get(row.survey_id, 0) + (row.size_bytes or 0)
    shown = {survey.survey_id for survey in report.surveys.shown}
    most = max((sum(each.values()) for survey_id, each in by_survey.items() if survey_id in shown), default=0)
    cells: list[list[Shown]] = []
    for survey in report.surveys.shown:
        found = by_survey.get(survey.survey_id, {})
        total = sum(found.values())
        seen = labelled("all", "good") if survey.complete else labelled("not all", "attention")
        cells.append(
            [
                when(survey.taken_at),
                Cell(share(total, most, count(total, "finding"))),
                *(amount(found.get(standing.code, 0)) for standing in Standing),
                bytes_cell(sizes.get(survey.survey_id)),
                Cell(seen, str(survey.complete)),
                took(survey.took_ms),
            ]
        )
    columns = [
        Column("Taken (UTC)", "name"),
        Column("", "plot"),
        *(Column(standing.value.capitalize(), "number") for standing in Standing),
        Column("Bytes", "number"),
        Column("Seen"),
        Column("Took", "number"),
    ]
    note = left_out(len(cells), report.surveys.total, "survey", "the newest")
    return table("From survey to survey, newest first", columns, cells, left_out=note)


# --- candidates ---------------------------------------------------------------------------------------------------


def candidates(report: Report) -> Section:
    rows = report.candidates
    title = "Stale topics"
    if not rows.total:
        text = "No topic has been unwritten for so long that it is a candidate for deletion."
        return Section("candidates", title, None, calm(text), number(0))
    most = max((row.size_bytes or 0 for row in rows.shown), default=0)
    columns = [
        Column("Topic", "name"),
        Column("", "plot"),
        Column("Bytes", "number", "of all replicas"),
        Column("Unwritten", "number", "whole days"),
        Column("Last write (UTC)", "time"),
        Column("Evidence"),
        Column("Partitions", "number"),
        Column("Replicas", "number"),
        Column("Created (UTC)", "time"),
        Column("Topic id", "code"),
    ]
    shown = table(
        "Topics that nobody has written to for long; that one is empty does not count",
        columns,
        [_candidate_row(row, most) for row in rows.shown],
        left_out=left_out(len(rows.shown), rows.total, "topic", "the largest"),
        is_long=True,
    )
    lead = "Nobody seems to use these. This shows what would be deleted, and who would notice:"
    return Section(
        "candidates",
        title,
        lead,
        stack(command(f"lethe topics delete {option('--from-candidates', report.lake)} --dry-run"), shown),
        number(rows.total),
    )


def _candidate_row(row: Candidate, most: int) -> list[Shown]:
    held = "empty" if row.is_empty else size(row.size_bytes)
    return [
        topic_cell(row.topic),
        Cell(share(row.size_bytes or 0, most, held)),
        Cell(labelled("empty", "quiet"), 0) if row.is_empty else bytes_cell(row.size_bytes),
        Cell(None if row.unwritten_days is None else count(row.unwritten_days, "day"), row.unwritten_days),
        when(row.last_write),
        _evidence(row.evidence),
        amount(row.partitions),
        amount(row.replicas),
        when(row.created_at),
        code(row.topic_id),
    ]


def _evidence(evidence: str | None) -> Cell:
    words = {"mtime": "files' times", "sizes": "sizes over surveys"}
    return Cell(words.get(evidence or "", evidence), evidence)
