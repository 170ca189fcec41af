"""Output of `lethe doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from lethe.admin.doctor_ills import Ill, RepairWay, Severity
from lethe.admin.doctor_look import DoctorView
from lethe.admin.doctor_rules import Diagnosis
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
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
