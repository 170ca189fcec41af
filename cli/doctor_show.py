"""Output of `lethe doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from lethe.admin.doctor_backup import BackupFile
from lethe.admin.doctor_fix import RepairOutcome, RepairResult
from lethe.admin.doctor_ills import Ill, IllKind, RepairWay, Severity
from lethe.admin.doctor_look import DoctorView
from lethe.admin.doctor_restore import RestorePlan
from lethe.admin.doctor_rules import Diagnosis
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.protocol.counting import counted, plural
from lethe.protocol.journal import JsonValue
from lethe.protocol.shell_words import option
from lethe.survey.views import printable

_COLUMNS = ("severity", "kind", "where", "what is wrong", "what to do")


def found(view: DoctorView, diagnosis: Diagnosis) -> Answer:
    """Return what is wrong and what could not be seen."""
    data: dict[str, JsonValue] = {"version": 1, **to_json(view, diagnosis)}
    return Answer(data, tuple(_lines(view, diagnosis)), tuple(_tables(view, diagnosis)), exit_code(diagnosis))


def exit_code(diagnosis: Diagnosis) -> Exit:
    """Return 1 where there is more than notes, 3 where something was not seen, else 0."""
    if any(ill.kind.severity is not Severity.NOTE for ill in diagnosis.ills):
        return Exit.NO
    return Exit.UNREACHABLE if diagnosis.unseen else Exit.OK


def _lines(view: DoctorView, diagnosis: Diagnosis) -> Iterator[str]:
    counts = dict.fromkeys(Severity, 0)
    for ill in diagnosis.ills:
        counts[ill.kind.severity] += 1
    summary = ", ".join(counted(number, severity.value) for severity, number in counts.items() if number)
    seen = ", as far as could be seen" if diagnosis.unseen else ""
    yield f"{summary or 'Nothing is wrong'}{seen}."
    if view.survey.in_motion:
        yield f"Changing meanwhile, so nothing is said of them: {', '.join(view.survey.in_motion)}"
    mendable = sum(ill.way is not RepairWay.PERSON for ill in diagnosis.ills)
    if mendable:
        yield f"lethe doctor --fix can repair {mendable} of {counted(len(diagnosis.ills), 'ill')}."


def where(ill: Ill) -> str:
    """Return where the ill is: a path, a topic, or either on a broker."""
    named = f"broker {ill.broker}"
    what = printable(ill.what)
    is_on_broker = ill.broker is not None and named not in what and not what.startswith("/")
    is_directory = ill.kind.reason is not None and ill.broker is not None and what.startswith("/")
    return f"{named}: {what}" if is_on_broker or is_directory else what


def _tables(view: DoctorView, diagnosis: Diagnosis) -> Iterator[Table]:
    if diagnosis.ills:
        rows = tuple(
            (
                ill.kind.severity.value,
                ill.kind.code,
                where(ill),
                printable(ill.sentence(view.survey.taken_at_ms)),
                printable(ill.remedy),
            )
            for ill in diagnosis.ills
        )
        yield Table(_COLUMNS, rows, "What is wrong")
    if diagnosis.unseen:
        yield Table(("where", "why"), diagnosis.unseen, "Could not be seen")


def to_json(view: DoctorView, diagnosis: Diagnosis) -> dict[str, JsonValue]:
    """Return the ills and the unseen places."""
    return {
        "healthy": exit_code(diagnosis) is Exit.OK,
        "complete": not diagnosis.unseen,
        "ills": [ill_to_json(ill, view.survey.taken_at_ms) for ill in diagnosis.ills],
        "unseen": [{"where": printable(each.where), "why": printable(each.what)} for each in diagnosis.unseen],
        "in_motion": [*view.survey.in_motion],
    }


def ill_to_json(ill: Ill, now_ms: int) -> dict[str, JsonValue]:
    """Return one ill."""
    return {
        "kind": ill.kind.code,
        "severity": ill.kind.severity.value,
        "where": printable(ill.what),
        "topic": ill.topic,
        "broker": ill.broker,
        "partitions": [*ill.partitions],
        "what": printable(ill.sentence(now_ms)),
        "remedy": printable(ill.remedy),
        "repair": ill.way.value,
    }


# --- repairs ------------------------------------------------------------------------------------------------------


def plan(view: DoctorView, diagnosis: Diagnosis, chosen: Sequence[Ill]) -> Iterator[str]:
    """Yield what is wrong and what is to be repaired, before the questions."""
    yield from _lines(view, diagnosis)
    for ill in chosen:
        yield f"To repair: {where(ill)}: {printable(ill.sentence(view.survey.taken_at_ms))}"


def nothing_to_repair(view: DoctorView, diagnosis: Diagnosis) -> Answer:
    """Return the answer of `--fix` where nothing is chosen."""
    answer = found(view, diagnosis)
    data = {**cast("dict[str, JsonValue]", answer.data), "repairs": [], "backup": None}
    if diagnosis.ills:
        said = "Nothing was repaired: what is wrong is for a person, or --only has to name its kind."
    else:
        said = f"There is nothing to repair{', as far as could be seen' if diagnosis.unseen else ''}."
    return replace(answer, data=data, lines=(*answer.lines, said))


def repaired(done: Sequence[RepairResult], view: DoctorView, after: Diagnosis, backup: BackupFile) -> Answer:
    """Return what became of each repair, and what a second look found."""
    still = {ill.key for ill in after.ills}
    judged = [_judged(each, view, is_there=each.ill.key in still) for each in done]
    rows = tuple((each.outcome.value, each.ill.kind.code, where(each.ill), each.why) for each in judged)
    file = str(backup.path) if backup.repairs else None
    restore = f"lethe doctor {option('--restore', file or '')}"
    kept = () if file is None else (f"Backup: {file}. {restore} takes the repairs back.",)
    data: dict[str, JsonValue] = {"version": 1, **repairs_json(judged, view, backup), **to_json(view, after)}
    tables = (Table(("outcome", "kind", "where", "why"), rows, "Repairs"), *_tables(view, after))
    return Answer(data, (*kept, "Afterwards:", *_lines(view, after)), tables, exit_code(after))


def repairs_json(done: Sequence[RepairResult], view: DoctorView, backup: BackupFile) -> dict[str, JsonValue]:
    """Return the repairs and where their backup is."""
    return {
        "repairs": [
            {**ill_to_json(each.ill, view.survey.taken_at_ms), "outcome": each.outcome.name.lower(), "why": each.why}
            for each in done
        ],
        "backup": str(backup.path) if backup.repairs else None,
    }


def _judged(result: RepairResult, after: DoctorView, *, is_there: bool) -> RepairResult:
    """Return the result, unless the second look found the ill again, or could not see whether it is gone."""
    if result.outcome is RepairOutcome.REPAIRED and is_there:
        return result._replace(outcome=RepairOutcome.REFUSED, why="it was found again afterwards")
    if result.outcome is RepairOutcome.REPAIRED and not _is_cache_seen(result.ill, after):
        return result._replace(outcome=RepairOutcome.UNKNOWN, why="its metadata cache was not seen afterwards")
    return result


def _is_cache_seen(ill: Ill, after: DoctorView) -> bool:
    """Return False for an ill of metadata caches that the second look has not seen."""
    caches = {int(answer.broker): answer.cache for answer in after.survey.answers if answer.cache is not None}
    if ill.kind is IllKind.IN_NO_CACHE:
        return any(ill.topic in cache for cache in caches.values())
    return ill.kind not in (IllKind.CACHED_WITHOUT_TOPIC, IllKind.CACHED_OTHER_INCARNATION) or ill.broker in caches


def restored(plan: RestorePlan, outcomes: Sequence[Outcome]) -> Answer:
    """Return what was restored."""
    lines = [
        f"{each.name}: {'restored' if each.problem is None else f'not restored: {each.problem}'}" for each in outcomes
    ]
    lines += [f"{path} belonged to a session that is over, and stays gone." for path in plan.ephemeral]
    if plan.states and any(each.problem is None or each.is_unknown for each in outcomes):
        lines.append(
            f"Have a controller take over now: it reads the {plural(len(plan.states), 'state')} of partitions."
        )
    data: dict[str, JsonValue] = {
        "version": 1,
        "restored": [each.name for each in outcomes if each.problem is None],
        "failed": [{"what": each.name, "why": each.problem} for each in outcomes if each.problem is not None],
        "not_restorable": [*plan.ephemeral],
    }
    if not outcomes and not plan.ephemeral:
        lines.append("Nothing had to be restored: the znodes are as they were before the repairs.")
    return Answer(data, tuple(lines), exit=exit_of(outcomes))
