"""For which brokers an open deletion waits by now, and why, in plain Python: by what came last of each replica; and
whether all wait because deletions are paused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from lethe.protocol.causes import CauseKind, sentence
from tests.pipeline.journals import Line
from tests.pipeline.reference import Row, Span, in_order

Told = list[tuple[int, str, str | None]]
_ORDER = {"asked": 0, "ineligible": 1, "refused": 1, "acked": 2}
"""What counts of lines of one millisecond."""


def waited_for(spans: Iterable[Span], lines: Iterable[Line]) -> dict[tuple[str, str | None, int], set[str]]:
    """The sentences, by topic, id and number of each span that is open."""
    told = last_told(lines)
    return {
        (span.topic, span.topic_id, span.number): set(_sentences(span, told))
        for span in spans
        if not {"done", "let go", "vanished", "removed"} & span.first.keys()
    }


def is_paused(tenures: Iterable[Row]) -> bool:
    """Whether the controller that became active last leads, and has deletions paused."""
    newest = max((row for row in tenures if row["active_at"]), key=lambda row: (row["epoch"], row["active_at"]))
    return newest["paused_at"] is not None and newest["resigned_at"] is None


def last_told(lines: Iterable[Line]) -> dict[int, tuple[int, str]]:
    """Of each broker what a controller said of it last."""
    return {
        int(line.subject.rpartition("/")[2]): (line.time_ms, said["what"])
        for line, said in sorted(in_order(lines), key=lambda each: (each[0].time_ms, str(each[1].get("what"))))
        if line.type == "broker" and said.get("what") in ("failed", "started", "log directory failed")
    }


def _sentences(span: Span, told: dict[int, tuple[int, str]]) -> Iterator[str]:
    by_broker: dict[int, list[Told]] = defaultdict(list)
    for (_, broker), lines in span.replicas.items():
        by_broker[broker].append(lines)
    for broker, replicas in by_broker.items():
        for cause, detail in _causes(replicas, told.get(broker, (0, "started"))):
            yield sentence(cause, "", broker=broker, detail=detail)


def _causes(replicas: list[Told], told: tuple[int, str]) -> Iterator[tuple[CauseKind, str]]:
    owing = [(lines, last) for lines in replicas if (last := _last(lines))[1] != "acked"]
    unable = [(lines, last) for lines, last in owing if _lasts(lines)]
    if any(not _lasts(lines) for lines, _ in owing):
        yield CauseKind.ANSWER, ""
    if not unable:
        return
    told_at, what = told
    if all(kind == "asked" for _, (_, kind) in unable) and (
        what == "started" or all(at > told_at for _, (at, _) in unable)
    ):
        yield CauseKind.ANSWER, ""
    elif what != "started":
        yield {"failed": CauseKind.BROKER_TO_RETURN, "log directory failed": CauseKind.LOG_DIRECTORY}[what], ""
    elif refusals := [
        max((at, said) for at, kind, said in lines if kind == "refused") for lines in _refusing(replicas)
    ]:
        yield CauseKind.BROKER_ERROR, max(said or "" for _, said in refusals)
    else:
        yield CauseKind.BROKER_NOT_ASKED, ""


def _last(lines: Told) -> tuple[int, str]:
    return max(((at, kind) for at, kind, _ in lines), key=lambda each: (each[0], _ORDER[each[1]]))


def _lasts(lines: Told) -> bool:
    """It could not be deleted, and has not been acknowledged since."""
    known = [each for each in lines if each[1] != "asked"]
    return bool(known) and _last(known)[1] != "acked"


def _refusing(replicas: list[Told]) -> list[Told]:
    return [lines for lines in replicas if any(kind == "refused" for _, kind, _ in lines)]
