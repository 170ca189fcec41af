"""Output of the demo: bars at a terminal, lines in a log, tables or one JSON document at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.cli.render import note
from lethe.cluster.demo_result import DemoResult
from lethe.cluster.demo_watch import ProgressBar, ProgressWatcher, SilentWatcher
from lethe.protocol.counting import counted
from lethe.protocol.findings import Place, Standing
from lethe.protocol.journal import JsonValue
from lethe.survey.as_json import survey_to_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LINE_EVERY_S: Final = 1.0


# --- while it runs ------------------------------------------------------------------------------------------------


class ClosingWatcher(ProgressWatcher, Protocol):
    """A watcher with cleanup at the end."""

    def close(self) -> None:
        """End the display; may be called again."""
        ...


@contextmanager
def watching(*, quiet: bool) -> Iterator[ClosingWatcher]:
    """Return a watcher that shows the progress on standard error."""
    watcher: ClosingWatcher
    if quiet:
        watcher = _SilentWatcher()
    elif sys.stderr.isatty():
        watcher = _Live()
    else:
        watcher = _Lines()
    try:
        yield watcher
    finally:
        watcher.close()


class _SilentWatcher(SilentWatcher):
    def close(self) -> None:
        """Nothing was shown."""


class _Lines:
    """For a log: events, and the progress once a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last_line_s = 0.0
        self._last = ""
        self._pending = ""

    def note(self, text: str) -> None:
        self._settle()
        self._say(text)

    def stage(self, title: str) -> None:
        self._settle()
        note(f"== {title}")

    def bars(self, bars: Sequence[ProgressBar]) -> None:
        self._pending = ", ".join(f"{bar.label} {_fraction(bar)}" for bar in bars)
        if time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._settle()

    def close(self) -> None:
        self._settle()

    def _settle(self) -> None:
        if self._pending and self._pending != self._last:
            self._say(self._pending)
            self._last, self._last_line_s = self._pending, time.monotonic()
        self._pending = ""

    def _say(self, text: str) -> None:
        note(f"{time.monotonic() - self._began:6.1f} s  {text}")


class _Live:
    """For a terminal: a bar per phase and per broker."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:6.1f} s  {text}"
        if self._progress is None:
            note(line)
        else:
            self._progress.console.print(line, highlight=False, markup=False)

    def stage(self, title: str) -> None:
        self.close()
        note(f"== {title}")

    def bars(self, bars: Sequence[ProgressBar]) -> None:
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
        for bar in bars:
            if bar.label not in self._tasks:
                self._tasks[bar.label] = self._progress.add_task(bar.label, total=bar.total, shown="")
            self._progress.update(self._tasks[bar.label], completed=bar.done, shown=_fraction(bar))

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._tasks = None, {}


def _new_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))


def _fraction(bar: ProgressBar) -> str:
    return f"{bar.done / 1e6:.1f}/{bar.total / 1e6:.1f} MB" if bar.is_bytes else f"{bar.done}/{bar.total}"


# --- at the end ---------------------------------------------------------------------------------------------------


def answer(result: DemoResult) -> Answer:
    """Return the demo's result; exit code 0 only where nothing is left over."""
    tables = [_summary(result), _phases(result), _brokers(result), _left(result)]
    if result.waits is not None:
        tables += [_story(result), _waited(result)]
    if result.findings:
        tables.append(_findings(result))
    if result.survey.problems:
        tables.append(Table(("where", "why"), result.survey.problems, "Could not be seen"))
    return Answer(as_json(result), (_verdict(result),), tuple(tables), Exit.OK if result.is_clean else Exit.NO)


def _verdict(result: DemoResult) -> str:
    if result.is_clean:
        return "Clean: nothing is left over in ZooKeeper, in any metadata cache, on any disk."
    reasons = [f"{counted(len(result.findings), 'finding')}"] if result.findings else []
    if result.survey.problems:
        reasons.append(f"{counted(len(result.survey.problems), 'place')} could not be seen")
    if result.limit_passed:
        reasons.append(result.limit_passed)
    return f"NOT clean: {'; '.join(reasons)}."


def _summary(result: DemoResult) -> Table:
    options = result.options
    row = (
        str(options.topics),
        str(options.topics * options.partitions),
        str(options.replicas),
        _megabytes(result.bytes_reclaimed),
        f"{result.started_s:.1f}",
        f"{result.created_s:.1f}",
        f"{result.deleted_s:.1f}",
        f"{result.reclaimed_s:.1f}",
    )
    columns = ("topics", "partitions", "replicas", "reclaimed", "started", "created", "deleted", "bytes gone")
    return Table(columns, (row,), "Topics, bytes, and the seconds that it took")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _phases(result: DemoResult) -> Table:
    rows = tuple(
        (p.name, p.meaning, str(p.reached), f"{p.first_s:.2f}", f"{p.median_s:.2f}", f"{p.last_s:.2f}")
        for p in result.phases
    )
    return Table(("phase", "meaning", "topics", "first", "median", "last"), rows, "Seconds since the marks")


def _brokers(result: DemoResult) -> Table:
    rows = tuple(
        (
            str(b.broker),
            str(b.replicas),
            _megabytes(b.bytes_before),
            str(b.acknowledged),
            _megabytes(b.bytes_freed),
            f"{b.files_freed:,}",
            _megabytes(b.bytes_after),
        )
        for b in result.brokers
    )
    columns = ("broker", "replicas", "before", "acked", "freed", "files", "after")
    return Table(columns, rows, "Brokers")


def _left(result: DemoResult) -> Table:
    names = {Place.ZOOKEEPER: "ZooKeeper", Place.CACHE: "metadata caches", Place.DISK: "disks"}
    rows = []
    for place, name in names.items():
        counts = [sum(f.place is place and f.standing is standing for f in result.findings) for standing in Standing]
        rows.append((name, *map(str, counts)))
    return Table(("place", *(s.value for s in Standing)), tuple(rows), "What the survey found")


def _findings(result: DemoResult) -> Table:
    rows = tuple(
        (
            finding.place.value,
            "" if finding.broker is None else str(finding.broker),
            finding.standing.value,
            finding.what,
            finding.why,
        )
        for finding in result.findings
    )
    return Table(("place", "broker", "standing", "what", "why"), rows, "Findings")


def _story(result: DemoResult) -> Table:
    rows = tuple(
        (f"{(happening.time_ms - result.began_ms) / 1000:.1f}", happening.text)
        for happening in sorted(result.happenings, key=lambda h: h.time_ms)
    )
    return Table(("s", "what"), rows, "What happened")


def _waited(result: DemoResult) -> Table:
    assert result.waits is not None
    rows = []
    for cause, topics in result.waits.topics_by_cause().items():
        seen = [result.waits.topics[topic][cause] for topic in topics]
        told_by = sorted({controller for each in seen for controller in each.told_by})
        rows.append(
            (
                str(len(topics)),
                cause.waiting_for,
                "" if cause.broker is None else str(cause.broker),
                seen[0].meaning,
                f"{max(each.waited_ms for each in seen) / 1000:.1f}",
                ", ".join(map(str, told_by)),
            )
        )
    columns = ("topics", "waited for", "broker", "which means", "longest s", "told by")
    return Table(columns, tuple(rows), "Why topics waited")


# --- JSON ---------------------------------------------------------------------------------------------------------


def as_json(result: DemoResult) -> dict[str, JsonValue]:
    """Return the same as one document."""
    options = result.options
    document: dict[str, JsonValue] = {
        "clean": result.is_clean,
        "problem": None if result.is_clean else _verdict(result),
        "topics": options.topics,
        "partitions": options.topics * options.partitions,
        "replicas": options.replicas,
        "bytes_reclaimed": result.bytes_reclaimed,
        "seconds": {
            "started": round(result.started_s, 3),
            "created": round(result.created_s, 3),
            "deleted": round(result.deleted_s, 3),
            "reclaimed": round(result.reclaimed_s, 3),
        },
        "phases": [
            {
                "phase": phase.name,
                "reached_by": phase.reached,
                "first_s": phase.first_s,
                "median_s": phase.median_s,
                "last_s": phase.last_s,
            }
            for phase in result.phases
        ],
        "brokers": [broker._asdict() for broker in result.brokers],
        "survey": survey_to_json(result.survey, result.findings),
        "journal_facts_lost": result.lost_records,
        "refusals": dict(result.refusals),
    }
    if result.waits is not None:
        document["chaos"] = _chaos_as_json(result)
    return document


def _chaos_as_json(result: DemoResult) -> dict[str, JsonValue]:
    assert result.waits is not None
    return {
        "topics_without_the_killed_broker": result.untouched,
        "happenings": [
            {"s": (happening.time_ms - result.began_ms) / 1000, "what": happening.text}
            for happening in sorted(result.happenings, key=lambda h: h.time_ms)
        ],
        "waits": {
            topic: [
                {
                    "waited_for": cause.waiting_for,
                    "broker": cause.broker,
                    "meaning": seen.meaning,
                    "replicas": seen.replicas,
                    "first_s": (seen.first_ms - result.began_ms) / 1000,
                    "last_s": (seen.last_ms - result.began_ms) / 1000,
                    "waited_s": seen.waited_ms / 1000,
                    "attempts": seen.attempts,
                    "last_error": seen.last_error,
                    "told_by": [*seen.told_by],
                }
                for cause, seen in causes.items()
            ]
            for topic, causes in result.waits.topics.items()
        },
    }
