"""What the report comes to: one sentence, a level, and a few figures."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final, NamedTuple

from lethe.pipeline.outcomes import LET_GO, VANISHED
from lethe.pipeline.report.values import Disks, Latency, Report
from lethe.pipeline.report.words import NONE, count, duration, number, size
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.counting import plural
from lethe.protocol.findings import Standing

FINDINGS: Final = {
    Standing.LEFT_OVER: ("left over", "left over"),
    Standing.SET_ASIDE: ("set aside", "set aside"),
    Standing.MISSING: ("missing", "missing"),
    Standing.INCOMPLETE: ("incomplete", "incomplete"),
}
"""Standings that ask for somebody; what is pending goes by itself."""
OLD_SURVEY_MS: Final = 48 * 3_600_000
"""A survey that is older than that, against the newest that the lake knows of, says little of how things are."""


class Level(enum.Enum):
    """How things stand; the value is the word for it."""

    GOOD = "All clear"
    ATTENTION = "Needs a look"
    BAD = "Broken rules"
    EMPTY = "Nothing yet"


class Verdict(NamedTuple):
    level: Level
    sentence: str


class Figure(NamedTuple):
    """A key figure: its name, the value, what is to be known besides, and the section that has more."""

    name: str
    value: str
    note: str
    section: str


def verdict(report: Report) -> Verdict:
    """The sentence at the head of the page and of the command's answer."""
    if is_empty(report):
        return Verdict(
            Level.EMPTY, "Nothing is recorded in this lake" + (" for these days." if asked(report) else " yet.")
        )
    parts = [_deletions(report)]
    if report.stuck.total and report.stuck.total != report.deletions.open:
        parts.append(f"{count(report.stuck.total, 'topic')} stuck")
    parts += _found(report)
    sentence = ", ".join(parts)
    errors = _errors(report)
    warnings = report.violations.total - errors
    rules = "no audit violations" if report.audited_days else "not audited"
    if errors:
        rules = f"the audit found {count(errors, 'error')}"
    elif warnings:
        rules = f"the audit found {count(warnings, 'warning')}"
    if report.audited_days and not is_audited(report):
        rules += f", {audited(report)}"
    sentence = f"{sentence}; {_reclaimed(report)}{rules}."
    needs = report.stuck.total or report.deletions.open or warnings or _count_found(report) or report.bad_by_reason
    needs = needs or not is_audited(report) or not _is_well_surveyed(report) or _is_left_unseen(report)
    level = Level.BAD if errors else Level.ATTENTION if needs else Level.GOOD
    return Verdict(level, sentence[0].upper() + sentence[1:])


def figures(report: Report) -> tuple[Figure, ...]:
    """The strip of key figures."""
    deletions = report.deletions
    errors = _errors(report)
    warnings = report.violations.total - errors
    found = _count_found(report)
    pending = _counts(report)[Standing.PENDING]
    return (
        Figure("Deletions", number(deletions.total), _outcomes(report), "timelines"),
        Figure("Stuck", number(report.stuck.total), _brokers_to_blame(report), "stuck"),
        _latency_figure(report, "deleted", "Mark to deleted"),
        _latency_figure(report, "reclaimed", "Mark to last byte"),
        Figure("Reclaimed", size(reclaimed_bytes(report)), _reclaimed_note(report), "reclaimed"),
        Figure(
            "Left over",
            NONE if report.newest is None else number(found),
            f"{number(pending)} pending{_unread(report)}" if report.newest is not None else "no survey yet",
            "leftovers",
        ),
        _audit_figure(report, errors, warnings),
    )


def _audit_figure(report: Report, errors: int, warnings: int) -> Figure:
    if not (report.audited_days or report.violations.total):
        return Figure("Audit", NONE, "not audited", "audit")
    note = f"{plural(errors, 'error')}, {count(warnings, 'warning')}"
    note += "" if is_audited(report) else f"; {audited(report)}"
    return Figure("Audit", number(errors), note, "audit")


def is_audited(report: Report) -> bool:
    """Every day of which there is anything to audit was audited, and not written to since."""
    return 0 < report.audited_days == report.recorded_days


def audited(report: Report) -> str:
    """Of how many days the audit speaks."""
    return f"{number(report.audited_days)} of {count(report.recorded_days, 'day')} audited"


def latency(report: Report, measure: str, size_class: str = "all") -> Latency | None:
    """The distribution of that measure, if there is one."""
    wanted = (each for each in report.deletions.latencies if (each.measure, each.size_class) == (measure, size_class))
    return next(wanted, None)


def reclaimed_bytes(report: Report) -> int:
    """As the brokers told; of deletions where no broker's word was gathered by day."""
    by_broker = sum(row.size_bytes for row in report.reclaim_by_broker.shown)
    return by_broker or report.deletions.freed_bytes


def is_empty(report: Report) -> bool:
    """Neither a deletion nor a survey nor a line of a journal is known."""
    rows = (
        report.stuck,
        report.surveys,
        report.ahead,
        report.tenures,
        report.violations,
        report.bad_lines,
        report.candidates,
    )
    return not report.deletions.total and report.newest is None and not any(each.total for each in rows)


def asked(report: Report) -> bool:
    """Only certain days were asked for."""
    return report.first_day is not None or report.last_day is not None


def findings_by_standing(report: Report) -> dict[Standing, int]:
    """Of the newest survey, and of earlier ones what lies where it could not look."""
    return dict(_counts(report))


def _deletions(report: Report) -> str:
    deletions = report.deletions
    if not deletions.total:
        return "no deletions"
    said = count(deletions.total, "deletion")
    if deletions.done == deletions.total:
        return f"{said}, {'done' if deletions.total == 1 else 'all done'}"
    parts = [f"{number(deletions.done)} done"]
    if deletions.open:
        stuck = report.stuck.total == deletions.open
        parts.append(f"{number(deletions.open)} {'stuck' if stuck else 'under way'}")
    return f"{said}, {', '.join(parts + _ended_otherwise(report))}"


def _ended_otherwise(report: Report) -> list[str]:
    counts = ((report.deletions.let_go, LET_GO), (report.deletions.vanished, VANISHED))
    return [f"{number(many)} {outcome}" for many, outcome in counts if many]


def _found(report: Report) -> list[str]:
    if report.newest is None:
        return ["not surveyed"]
    found = _counts(report)
    said = [f"{number(found[standing])} {words[0]}" for standing, words in FINDINGS.items() if found[standing]]
    if not said:
        said = [f"nothing left over{_where_nothing(report)}"]
    if _is_left_unseen(report):
        said.append("not surveyed since a topic vanished")
    age_ms = _survey_age_ms(report)
    return [*said, f"last surveyed {duration(age_ms)} before"] if age_ms > OLD_SURVEY_MS else said


def saw_everything(report: Report) -> bool:
    """The newest survey could look at everything."""
    return report.newest is not None and report.newest.complete is True


def read_everything(report: Report) -> bool:
    """And every disk was looked into; of the others there is their brokers' word, which leaves much out."""
    return saw_everything(report) and report.disks is not None and not report.disks.unread


def _where_nothing(report: Report) -> str:
    if not saw_everything(report):
        return " as far as could be seen"
    if read_everything(report):
        return ""
    if report.disks is None or not report.disks.read:
        return " as far as brokers tell of their disks"
    return f" on the {disks_read(report.disks)} that were read (brokers told of the others)"


def _unread(report: Report) -> str:
    if report.disks is None:
        return ""
    return f"; {disks_read(report.disks)} read" if report.disks.unread else ""


def disks_read(disks: Disks) -> str:
    """How many of the disks were looked into."""
    return f"{number(disks.read)} of {count(disks.known, 'log directory', 'log directories')}"


def _survey_age_ms(report: Report) -> int:
    """How much older the newest survey is than the newest that is known at all."""
    taken_at = None if report.newest is None else report.newest.taken_at
    return 0 if taken_at is None or report.as_of is None else report.as_of - taken_at


def _is_well_surveyed(report: Report) -> bool:
    """Lately, and whole: so that nothing found is nothing there."""
    return read_everything(report) and _survey_age_ms(report) <= OLD_SURVEY_MS


def is_surveyed_since(report: Report, moment: int | None) -> bool:
    """The newest survey began after that instant, by any clock."""
    taken_at = None if report.newest is None else report.newest.taken_at
    return taken_at is not None and moment is not None and taken_at - moment > CLOCKS_DIFFER_MS


def _is_left_unseen(report: Report) -> bool:
    """A topic vanished of which nobody has looked yet what it left behind."""
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


def _errors(report: Report) -> int:
    return sum(many for (severity, _), many in report.violations_by_rule.items() if severity != "warning")


def _outcomes(report: Report) -> str:
    deletions = report.deletions
    parts = [f"{number(deletions.done)} done"]
    parts += [f"{number(deletions.open)} open"] if deletions.open else []
    return ", ".join(parts + _ended_otherwise(report))


def _brokers_to_blame(report: Report) -> str:
    brokers = sorted({broker for row in report.stuck.shown for broker in row.brokers or ()})
    if not report.stuck.total:
        return "nothing waits for long"
    if not brokers:
        return "for other reasons than a broker"
    shown = ", ".join(map(str, brokers[:4])) + (" and more" if len(brokers) > 4 else "")
    return f"{plural(len(brokers), 'broker')} {shown}"


def _latency_figure(report: Report, measure: str, name: str) -> Figure:
    found = latency(report, measure)
    if found is None:
        return Figure(name, NONE, "none yet", "latency")
    return Figure(name, duration(found.p50), f"median; 99 % {duration(found.p99)}", "latency")


def _reclaimed_note(report: Report) -> str:
    directories = sum(row.directories for row in report.reclaim_by_broker.shown)
    return count(directories, "directory", "directories") if directories else "by agents' word"
