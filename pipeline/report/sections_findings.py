"""Sections that ask for action: stuck deletions, leftovers, candidates for deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from lethe.pipeline.report import cells
from lethe.pipeline.report.charts import share_bar
from lethe.pipeline.report.components import Section, badge, code, command, empty_note, sentences, stack, unseen
from lethe.pipeline.report.formatting import NONE, count, cut, minute, number, size
from lethe.pipeline.report.html_table import Cell, Column, table
from lethe.pipeline.report.markup import Markup, el, join
from lethe.pipeline.report.remedies import remedy
from lethe.pipeline.report.summary import (
    disk_coverage,
    findings_by_standing,
    is_limited_to_days,
    read_everything,
    saw_everything,
)
from lethe.pipeline.report.values import (
    DiskCoverage,
    Finding,
    FindingCount,
    Report,
    Rows,
    StaleTopic,
    StuckDeletion,
    SurveyRow,
)
from lethe.protocol.findings import Reason, Standing
from lethe.protocol.shell_words import option

_STANDINGS: Final = {each.code: each for each in Standing}
_REASONS: Final = {each.code: each for each in Reason}
NEWEST_OF_ALL: Final = ", the newest of all days,"
NO_DIRECTORIES: Final = "It is unknown which disks were read: this lake has no bronze/agent_inventory."
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
        return Section("stuck", "Stuck", None, empty_note(text), tally)
    columns: list[Column[StuckDeletion]] = [
        Column("Topic", "name", lambda row: cells.topic(row.topic)),
        Column("Waits for", "wide", lambda row: sentences(row.reasons or ())),
        Column("What helps", "wide", lambda row: remedy_cell(row.remedy or "")),
        Column("Waiting", "number", lambda row: cells.duration(row.waiting_ms)),
        Column("Marked (UTC)", "time", lambda row: cells.instant(row.since)),
        Column("Phase", "text", lambda row: row.phase),
        Column("Seen in", "text", lambda row: row.seen_in),
    ]
    caption = "Topics whose deletion is not finished"
    body = table(caption, columns, rows, "topic", "those that wait longest", is_long=True)
    lead = join(("Deletions that wait, the causes, and the remedies. ", _ENVIRONMENT))
    return Section("stuck", "Stuck", lead, body, tally, is_loud=True)


def remedy_cell(text: str) -> Markup | None:
    """Return a remedy from a table: a `lethe` command, or words."""
    if not text:
        return None
    return command(text) if text.startswith("lethe ") else el("p", cut(text))


# --- left over ----------------------------------------------------------------------------------------------------


def leftovers(report: Report) -> Section:
    newest = report.newest
    if newest is None:
        text = "No survey was taken: lethe survey --out keeps one for the pipeline."
        body = _ahead(report.ahead) or empty_note(text)
        return Section("leftovers", "Left over", None, body, NONE)
    found = findings_by_standing(report)
    asks = sum(many for standing, many in found.items() if standing is not Standing.PENDING)
    parts: list[Markup | None] = []
    if report.findings.total:
        parts.append(_findings(report.findings))
    elif read_everything(report):
        parts.append(empty_note("Nothing is left over in ZooKeeper, in any cache or on any disk."))
    elif saw_everything(report):
        told = "Nothing is left over in ZooKeeper and in any cache, nor on disks as far as brokers describe them."
        parts.append(el("p", told))
    else:
        parts.append(el("p", "Nothing is left over in what could be seen; the survey could not see everything."))
    if report.earlier.findings.total:
        parts.append(el("p", "On disks that only earlier surveys have read:"))
        parts.append(_findings(report.earlier.findings, are_earlier=True))
    parts.append(_unseen_places(newest))
    parts.append(_unread_disks(report.disks))
    parts.append(_ahead(report.ahead))
    parts.append(_by_place(report.counts, newest, report.findings.total))
    parts.append(_surveys(report))
    which = NEWEST_OF_ALL if is_limited_to_days(report) else ""
    said = f"As the survey of {minute(newest.taken_at)} UTC{which} found the three places. "
    lead = join((said, None if report.stuck.total else _ENVIRONMENT))
    return Section("leftovers", "Left over", lead, stack(*parts), number(asks), is_loud=bool(asks))


def _findings(rows: Rows[Finding], *, are_earlier: bool = False) -> Markup:
    columns: list[Column[Finding]] = [
        Column("What", "name", lambda row: code(row.what)),
        Column("Standing", "text", lambda row: _standing(row.standing)),
        Column("Why", "wide", _why),
        Column("What helps", "wide", lambda row: _what_helps(row, are_earlier)),
        Column("Bytes", "number", lambda row: cells.size(row.size_bytes or None)),
        Column("Broker", "number", lambda row: _broker(row.broker)),
        Column("Place", "text", lambda row: row.place),
    ]
    caption = "What should not have been there" if are_earlier else "What should not be there, or should be and is not"
    return table(caption, columns, rows, "finding", "leftovers before pending ones, the largest first", is_long=True)


def _why(row: Finding) -> str:
    return cut(reason_words(row.reason) + (f" ({row.detail})" if row.detail else ""))


def _what_helps(row: Finding, is_earlier: bool) -> Markup:
    advice = remedy(row, f"{minute(row.taken_at)} UTC" if is_earlier else None)
    return join((el("p", advice.does), None if advice.command is None else command(advice.command)))


def _broker(broker: int | None) -> Cell:
    return Cell(None if broker is None else str(broker), broker)


def _standing(code_: str | None) -> Cell:
    standing = _STANDINGS.get(code_ or "")
    if standing is None:
        return Cell(code_)
    return Cell(badge(standing.value, "quiet" if standing is Standing.PENDING else "attention"), code_)


def reason_words(code_: str | None) -> str:
    """Return the sentence of a reason; an unknown code is shown as it is."""
    reason = _REASONS.get(code_ or "")
    return (code_ or "") if reason is None else reason.value


def _unseen_places(newest: SurveyRow) -> Markup | None:
    problems = newest.problems or ()
    notes = [f"{each.get('where') or ''}: {each.get('what') or ''}" for each in problems]
    moving = newest.in_motion or ()
    if moving:
        shown = ", ".join(moving[:10]) + (f" and {number(len(moving) - 10)} more" if len(moving) > 10 else "")
        notes.append(f"changed during the survey, so they have no findings: {shown}")
    return unseen("Could not be seen, or only in part:", notes, 10) if notes else None


def _unread_disks(disks: DiskCoverage | None) -> Markup | None:
    if disks is None:
        return unseen(NO_DIRECTORIES)
    if not disks.unread:
        return None
    text = (
        f"{disk_coverage(disks)} read completely. A broker's description of the others omits quarantined directories, "
        "directories that wait for their removal, and topic ids; lethe survey --out on each broker host reads them:"
    )
    notes = [f"broker {NONE if where.broker is None else where.broker}, {where.path or ''}" for where in disks.unread]
    return unseen(text, notes, 10)


def _ahead(surveys: Rows[SurveyRow]) -> Markup | None:
    if not surveys.total:
        return None
    text = (
        "Ignored, because they are in the future: they were taken after the pipeline ingested them. "
        "Is the clock of their host ahead?"
    )
    notes = [f"survey {survey.survey_id or ''}, taken at {minute(survey.taken_at)} UTC" for survey in surveys.shown]
    if more := surveys.total - len(notes):
        notes[-1] += f", and {number(more)} more"
    return unseen(text, notes)


def _by_place(counts: Sequence[FindingCount], newest: SurveyRow, total: int) -> Markup | None:
    rows = [row for row in counts if row.survey_id == newest.survey_id]
    if not rows or len(rows) >= total:
        return None
    most = max(row.size_bytes or 0 for row in rows)
    columns: list[Column[FindingCount]] = [
        Column("Reason", "name", lambda row: reason_words(row.reason)),
        Column("Standing", "text", lambda row: _standing(row.standing)),
        Column("Place", "text", lambda row: row.place),
        Column("Broker", "number", lambda row: _broker(row.broker)),
        Column("Findings", "number", lambda row: cells.number(row.findings)),
        Column("", "plot", lambda row: share_bar(row.size_bytes or 0, most, size(row.size_bytes or 0))),
        Column("Bytes", "number", lambda row: cells.size(row.size_bytes or None)),
    ]
    caption, shown = "The same, counted by reason and broker", Rows.of(rows, 200)
    return table(caption, columns, shown, "line", "what is left over first", is_long=True)


def _surveys(report: Report) -> Markup | None:
    if report.surveys.total < 2:
        return None
    found: Counter[tuple[str | None, str]] = Counter()
    totals: Counter[str | None] = Counter()
    sizes: Counter[str | None] = Counter()
    for row in report.counts:
        found[row.survey_id, row.standing or ""] += row.findings or 0
        totals[row.survey_id] += row.findings or 0
        sizes[row.survey_id] += row.size_bytes or 0
    most = max(totals[survey.survey_id] for survey in report.surveys.shown)

    def findings(standing: Standing, row: SurveyRow) -> Cell:
        return cells.number(found[row.survey_id, standing.code])

    def bar(row: SurveyRow) -> Markup:
        return share_bar(totals[row.survey_id], most, count(totals[row.survey_id], "finding"))

    columns: list[Column[SurveyRow]] = [
        Column("Taken (UTC)", "name", lambda row: cells.instant(row.taken_at)),
        Column("", "plot", bar),
        *(Column(each.value.capitalize(), "number", partial(findings, each)) for each in Standing),
        Column("Bytes", "number", lambda row: cells.size(sizes.get(row.survey_id))),
        Column("Seen", "text", lambda row: Cell(_seen(row), str(row.complete))),
        Column("Took", "number", lambda row: cells.duration(row.took_ms)),
    ]
    return table("From survey to survey, newest first", columns, report.surveys, "survey", "the newest")


def _seen(survey: SurveyRow) -> Markup:
    return badge("all", "good") if survey.complete else badge("not all", "attention")


# --- candidates ---------------------------------------------------------------------------------------------------


def candidates(report: Report) -> Section:
    rows = report.candidates
    title = "Stale topics"
    if not rows.total:
        text = "No topic is a candidate for deletion: each was written to recently."
        return Section("candidates", title, None, empty_note(text), number(0))
    most = max((row.size_bytes or 0 for row in rows.shown), default=0)
    columns: list[Column[StaleTopic]] = [
        Column("Topic", "name", lambda row: cells.topic(row.topic)),
        Column(
            "",
            "plot",
            lambda row: share_bar(row.size_bytes or 0, most, "empty" if row.is_empty else size(row.size_bytes)),
        ),
        Column("Bytes", "number", _stored, "of all replicas"),
        Column("Unwritten", "number", _unwritten, "whole days"),
        Column("Last write (UTC)", "time", lambda row: cells.instant(row.last_write)),
        Column("Evidence", "text", lambda row: _evidence(row.evidence)),
        Column("Partitions", "number", lambda row: cells.number(row.partitions)),
        Column("Replicas", "number", lambda row: cells.number(row.replicas)),
        Column("Created (UTC)", "time", lambda row: cells.instant(row.created_at)),
        Column("Topic id", "code", lambda row: code(row.topic_id)),
    ]
    caption = "Topics without a write for long; an empty topic is not listed for that alone"
    shown = table(caption, columns, rows, "topic", "the largest", is_long=True)
    lead = "These topics seem unused. This command shows what would be deleted, and which consumers would notice:"
    return Section(
        "candidates",
        title,
        lead,
        stack(command(f"lethe topics delete {option('--from-candidates', report.lake)} --dry-run"), shown),
        number(rows.total),
    )


def _stored(row: StaleTopic) -> Cell:
    return Cell(badge("empty", "quiet"), 0) if row.is_empty else cells.size(row.size_bytes)


def _unwritten(row: StaleTopic) -> Cell:
    return Cell(None if row.unwritten_days is None else count(row.unwritten_days, "day"), row.unwritten_days)


def _evidence(evidence: str | None) -> Cell:
    words = {"mtime": "files' times", "sizes": "sizes over surveys"}
    return Cell(words.get(evidence or "", evidence), evidence)
