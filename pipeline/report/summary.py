"""The summary of the report: one sentence, a level, and key figures."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final, NamedTuple

from lethe.pipeline.outcomes import LET_GO, OPEN, VANISHED
from lethe.pipeline.report.formatting import NONE, count, duration, number, size
from lethe.pipeline.report.values import DiskCoverage, Latency, Report
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.counting import listed, plural
from lethe.protocol.findings import Standing

FINDINGS: Final = (Standing.LEFT_OVER, Standing.SET_ASIDE, Standing.MISSING, Standing.INCOMPLETE)
"""Standings that need action; pending findings disappear without help."""
DISKS_DESCRIBED: Final = " as far as brokers describe their disks"
DISKS_PARTLY_READ: Final = " on the {read} that were read (brokers described the others)"
OLD_SURVEY_MS: Final = 48 * 3_600_000
"""A survey that is older than this, relative to the newest instant of the lake, is outdated."""


class ReportLevel(enum.Enum):
    """Overall state; the value is the text for it."""

    GOOD = "All clear"
    ATTENTION = "Needs a look"
    BAD = "Broken rules"
    EMPTY = "Nothing yet"


class ReportSummary(NamedTuple):
    level: ReportLevel
    sentence: str


class KeyFigure(NamedTuple):
    """A key figure: name, value, note, and the section with more."""

    name: str
    value: str
    note: str
    section: str


def summarize(report: Report) -> ReportSummary:
    """Return the sentence for the head of the page and for the command's answer."""
    if is_empty(report):
        return ReportSummary(
            ReportLevel.EMPTY,
            "Nothing is recorded in this lake" + (" for these days." if is_limited_to_days(report) else " yet."),
        )
    parts = [_deletions(report)]
    if report.stuck.total and report.stuck.total != report.deletions.open:
        parts.append(f"{count(report.stuck.total, 'topic')} stuck")
    parts += _found(report)
    sentence = ", ".join(parts)
    errors = audit_errors(report)
    warnings = report.violations.total - errors
    rules = "no audit violations" if report.audited_days else "not audited"
    if errors:
        rules = f"the audit found {count(errors, 'error')}"
    elif warnings:
        rules = f"the audit found {count(warnings, 'warning')}"
    if report.audited_days and not is_audited(report):
        rules += f", {audit_coverage(report)}"
    sentence = f"{sentence}; {_reclaimed(report)}{rules}."
    needs = report.stuck.total or report.deletions.open or warnings or _count_found(report) or report.bad_by_reason
    needs = needs or not is_audited(report) or not _is_well_surveyed(report) or _is_left_unseen(report)
    level = ReportLevel.BAD if errors else ReportLevel.ATTENTION if needs else ReportLevel.GOOD
    return ReportSummary(level, sentence[0].upper() + sentence[1:])


def figures(report: Report) -> tuple[KeyFigure, ...]:
    """Return the row of key figures."""
    deletions = report.deletions
    errors = audit_errors(report)
    warnings = report.violations.total - errors
    found = _count_found(report)
    pending = _counts(report)[Standing.PENDING]
    return (
        KeyFigure("Deletions", number(deletions.total), _outcomes(report, OPEN), "timelines"),
        KeyFigure("Stuck", number(report.stuck.total), _stuck_note(report), "stuck"),
        _latency_figure(report, "deleted", "Mark to deleted"),
        _latency_figure(report, "reclaimed", "Mark to last byte"),
        KeyFigure("Reclaimed", size(reclaimed_bytes(report)), _reclaimed_note(report), "reclaimed"),
        KeyFigure(
            "Left over",
            NONE if report.newest is None else number(found),
            f"{number(pending)} pending{_unread(report)}" if report.newest is not None else "no survey yet",
            "leftovers",
        ),
        _audit_figure(report, errors, warnings),
    )


def _audit_figure(report: Report, errors: int, warnings: int) -> KeyFigure:
    if not (report.audited_days or report.violations.total):
        return KeyFigure("Audit", NONE, "not audited", "audit")
    note = f"{plural(errors, 'error')}, {count(warnings, 'warning')}"
    note += "" if is_audited(report) else f"; {audit_coverage(report)}"
    return KeyFigure("Audit", number(errors), note, "audit")


def is_audited(report: Report) -> bool:
    """Return True if every day that can be audited was audited since it was last written."""
    return 0 < report.audited_days == report.recorded_days


def audit_coverage(report: Report) -> str:
    """Return how many days were audited, as text."""
    return f"{number(report.audited_days)} of {count(report.recorded_days, 'day')} audited"


def latency(report: Report, measure: str) -> Latency | None:
    """Return the distribution of that measure over deletions of all sizes, or None."""
    wanted = (each for each in report.deletions.latencies if (each.measure, each.size_class) == (measure, "all"))
    return next(wanted, None)


def reclaimed_bytes(report: Report) -> int:
    """Return the bytes that brokers reported by day, or else the sum over deletions."""
    by_broker = sum(row.size_bytes for row in report.reclaim_by_broker.shown)
    return by_broker or report.deletions.freed_bytes


def is_empty(report: Report) -> bool:
    """Return True if the lake has no deletion, no survey and no journal line."""
    rows = (
        report.stuck,
        report.surveys,
        report.ahead,
        report.tenures,
        report.violations,
        report.bad_lines,
        report.candidates,
        report.promises.brokers,
        report.promises.trash,
    )
    return not report.deletions.total and report.newest is None and not any(each.total for each in rows)


def is_limited_to_days(report: Report) -> bool:
    """Return True if the report is about certain days only."""
    return report.first_day is not None or report.last_day is not None


def findings_by_standing(report: Report) -> dict[Standing, int]:
    """Return the findings of the newest survey, and of earlier ones on disks that it could not read."""
    return dict(_counts(report))


def _deletions(report: Report) -> str:
    deletions = report.deletions
    if not deletions.total:
        return "no deletions"
    said = count(deletions.total, "deletion")
    if deletions.done == deletions.total:
        return ", ".join((said, "done" if deletions.total == 1 else "all done", *_owing(report)))
    return f"{said}, {_outcomes(report, 'stuck' if report.stuck.total == deletions.open else 'under way')}"


def _owing(report: Report) -> list[str]:
    """No leftover, but a promise."""
    return [f"{number(report.deletions.owing)} owed in part"] if report.deletions.owing else []


def _outcomes(report: Report, going_on: str) -> str:
    """Return how many deletions are done, `going_on` and ended otherwise."""
    deletions = report.deletions
    others = ((deletions.open, going_on), (deletions.let_go, LET_GO), (deletions.vanished, VANISHED))
    said = [f"{number(many)} {outcome}" for many, outcome in others if many]
    return ", ".join((f"{number(deletions.done)} done", *_owing(report), *said))


def _found(report: Report) -> list[str]:
    if report.newest is None:
        return ["not surveyed"]
    found = _counts(report)
    said = [f"{number(found[standing])} {standing.value}" for standing in FINDINGS if found[standing]]
    if not said:
        said = [f"nothing left over{_where_nothing(report)}"]
    if _is_left_unseen(report):
        said.append("not surveyed since a topic vanished")
    age_ms = _survey_age_ms(report)
    return [*said, f"last surveyed {duration(age_ms)} before"] if age_ms > OLD_SURVEY_MS else said


def saw_everything(report: Report) -> bool:
    """Return True if the newest survey is complete."""
    return report.newest is not None and report.newest.complete is True


def read_everything(report: Report) -> bool:
    """Return True if the newest survey is complete and every log directory was read. A broker's description of its log
    directories is incomplete."""
    return saw_everything(report) and report.disks is not None and not report.disks.unread


def _where_nothing(report: Report) -> str:
    if not saw_everything(report):
        return " as far as could be seen"
    if read_everything(report):
        return ""
    if report.disks is None or not report.disks.read:
        return DISKS_DESCRIBED
    return DISKS_PARTLY_READ.format(read=disk_coverage(report.disks))


def _unread(report: Report) -> str:
    if report.disks is None:
        return ""
    return f"; {disk_coverage(report.disks)} read" if report.disks.unread else ""


def disk_coverage(disks: DiskCoverage) -> str:
    """Return how many log directories were read, as text."""
    return f"{number(disks.read)} of {count(disks.known, 'log directory', 'log directories')}"


def _survey_age_ms(report: Report) -> int:
    """Return the newest survey's age relative to the newest instant of the lake."""
    taken_at = None if report.newest is None else report.newest.taken_at
    return 0 if taken_at is None or report.as_of is None else report.as_of - taken_at


def _is_well_surveyed(report: Report) -> bool:
    """Return True if no findings mean that nothing is left over: the survey is recent and complete."""
    return read_everything(report) and _survey_age_ms(report) <= OLD_SURVEY_MS


def is_surveyed_since(report: Report, moment: int | None) -> bool:
    """Return True if the newest survey began after that instant, whatever the clock skew."""
    taken_at = None if report.newest is None else report.newest.taken_at
    return taken_at is not None and moment is not None and taken_at - moment > CLOCKS_DIFFER_MS


def _is_left_unseen(report: Report) -> bool:
    """Return True if a topic vanished and no survey was taken since."""
    vanished = report.deletions
    return bool(vanished.vanished) and not is_surveyed_since(report, vanished.last_vanished_at)


def _reclaimed(report: Report) -> str:
    amount = reclaimed_bytes(report)
    return f"{size(amount)} reclaimed, " if amount else ""


def _counts(report: Report) -> Counter[Standing]:
    found: Counter[Standing] = Counter()
    newest = None if report.newest is None else report.newest.survey_id
    by_code = {standing.code: standing for standing in Standing}
    for row in report.counts:
        if row.survey_id == newest and row.standing in by_code:
            found[by_code[row.standing]] += row.findings or 0
    for code, many in report.earlier.by_standing.items():
        if code in by_code:
            found[by_code[code]] += many
    return found


def _count_found(report: Report) -> int:
    found = _counts(report)
    return sum(found[standing] for standing in FINDINGS)


def audit_errors(report: Report) -> int:
    """Return the number of violations with severity error."""
    return sum(many for (severity, _), many in report.violations_by_rule.items() if severity != "warning")


def _stuck_note(report: Report) -> str:
    brokers = sorted({broker for row in report.stuck.shown for broker in row.brokers or ()})
    if not report.stuck.total:
        return "nothing waits for long"
    if not brokers:
        return "not because of a broker"
    return f"{plural(len(brokers), 'broker')} {listed(brokers, 4)}"


def _latency_figure(report: Report, measure: str, name: str) -> KeyFigure:
    found = latency(report, measure)
    if found is None:
        return KeyFigure(name, NONE, "none yet", "latency")
    return KeyFigure(name, duration(found.p50), f"median; 99 % {duration(found.p99)}", "latency")


def _reclaimed_note(report: Report) -> str:
    directories = sum(row.directories for row in report.reclaim_by_broker.shown)
    return count(directories, "directory", "directories") if directories else "reported by agents"
