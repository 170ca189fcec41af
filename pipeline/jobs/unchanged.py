"""A look at a run's inputs without Spark: where nothing is new, the run is over before a JVM starts.

Nothing is new if all of this holds, while no other process writes to the lake:

    seen                                            otherwise
    lake and inputs lie on local disks              unseen, so the run goes on
    the lake's tables have logs, and no change      it is taken over, or a run died
    of them is staged
    every journal file was read to its end          it is new, grew or was replaced
    the kept surveys are those of the last run      some came, went or changed
    the rules are those in force                    other topics may be unused
    no day waits for its tables or its audit        a run died, or a stream wrote
    the day is that of the last run, and no survey  `stale_topic_candidates` looks back from today
    is of the future

`stuck_now` changes with every moment. Where nothing is new, it is derived from `waiting_deletions`
(`pipeline.jobs.renew_stuck`) and replaced as a run with Spark replaces it.

What this cannot decide, the run with Spark decides.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.io.files import entries, matches
from lethe.pipeline.io.journal import COMPRESSED_ENDING, ENDINGS
from lethe.pipeline.io.known_inputs import KnownInputs, is_known, read_known, survey_key, surveys_identity
from lethe.pipeline.io.lake_state import LakeState, LakeUnusable
from lethe.pipeline.io.local_files import SCHEME, LocalFiles, file_identity, local_path
from lethe.pipeline.io.lock import Locked, acquire_local
from lethe.pipeline.io.staging import WORK
from lethe.pipeline.jobs.ingest import counts_of_known_files, days_of
from lethe.pipeline.jobs.ingest_surveys import counts_of_known_surveys
from lethe.pipeline.jobs.refresh_audit import with_next_days
from lethe.pipeline.jobs.renew_stuck import renew_stuck_now
from lethe.pipeline.jobs.report import DayRange, IngestCounts, RunReport
from lethe.pipeline.jobs.rules import RuleChanges, are_applied, unchanged_rules
from lethe.pipeline.quality.rules import Severity
from lethe.pipeline.report.lake_reader import LakeReader, LakeUnreadable
from lethe.protocol.lake import IDENTITY
from lethe.protocol.lake_rules import LakeRules

_UNCLEAR: Final = frozenset("[]{}\\^")
"""In patterns, Hadoop takes these otherwise than Python."""
_COMPRESSION: Final = {COMPRESSED_ENDING: 10, ".parquet": 20}
"""About how much more text there is than a file of this kind has bytes."""


class RunInputs(NamedTuple):
    """What a run is asked to do. Places are directories, files and patterns."""

    lake: str
    journals: Sequence[str]
    surveys: Sequence[str]
    days: DayRange
    rule_changes: RuleChanges


class Look(NamedTuple):
    """`report`: the result of the run, if nothing is new. `unread_bytes`: about the size of what Spark is to read, as
    text; None if unknown."""

    report: RunReport | None = None
    unread_bytes: int | None = None


def look(asked: RunInputs, now: datetime.datetime, *, batch_id: str) -> Look:
    """Look at the inputs of a run. If nothing is new, bring `stuck_now` to this moment; else change nothing. Raises
    ValueError for rules that are refused, and OSError for a directory of journals that cannot be seen."""
    root, files = local_path(asked.lake), _local_journals(asked.journals)
    if root is None or files is None:
        return Look()
    if not os.path.exists(os.path.join(root, IDENTITY)):
        return Look(None, _text_bytes([*files, *_files_below(asked.surveys)]))
    try:
        with acquire_local(Path(root), batch_id):
            return _look(LakeState(LocalFiles(root)), root, asked, files, now, batch_id)
    except (Locked, LakeUnusable, LakeUnreadable, OSError):
        return Look()


def _look(
    lake: LakeState[LocalFiles], root: str, asked: RunInputs, files: Sequence[str], now: datetime.datetime, name: str
) -> Look:
    noted = read_known(lake)
    known = noted or KnownInputs()
    found = {path: known.files[path] for path in files if is_known(known.files.get(path), file_identity(path))}
    surveyed = known.surveys.get(survey_key(asked.surveys)) if asked.surveys and asked.days == DayRange() else None
    has_surveys = surveyed is not None and surveyed.read and surveyed.fingerprint == surveys_identity(asked.surveys)
    rules = unchanged_rules(lake.files, asked.rule_changes)
    if len(found) < len(files) or bool(asked.surveys) > bool(has_surveys) or rules is None:
        unread = [path for path in files if path not in found]
        kept = _files_below(() if has_surveys else asked.surveys)
        return Look(None, _text_bytes([*unread, *kept]) + _days_bytes(lake, noted))
    if not _is_current(lake, root, known, now):
        return Look(None, _days_bytes(lake, noted))
    counts: list[IngestCounts] = []
    days = set(days_of(found.values(), asked.days))
    if asked.journals:
        counts.append(counts_of_known_files(found.values(), asked.days))
    if asked.surveys and surveyed is not None:
        counts += counts_of_known_surveys(surveyed)
        days.update(map(datetime.date.fromisoformat, surveyed.days))
    report = _report(root, name, counts, sorted(days), rules)
    stuck = renew_stuck_now(lake, known, now=now, threshold_ms=rules.stuck_after_ms, name=name)
    return Look(replace(report, rows={tables.STUCK_NOW.name: stuck}))


def _is_current(lake: LakeState[LocalFiles], root: str, known: KnownInputs, now: datetime.datetime) -> bool:
    """Return whether no table waits for a change, and none but `stuck_now` would be another one now."""
    if (
        not lake.has_logs
        or lake.files.list_directory(f"{lake.root}/{WORK}")
        or lake.pending_days()
        or lake.unaudited_days()
    ):
        return False
    if not (known.as_of and lake.has(tables.WAITING_DELETIONS)):
        return False
    if not lake.days(tables.SURVEYS):
        return True
    before = datetime.datetime.fromisoformat(known.as_of)
    is_applied = not lake.has(tables.STALE_TOPIC_CANDIDATES) or are_applied(lake.files)
    return is_applied and before.date() == now.date() and _newest_survey(root, lake) <= min(before, now)


def _newest_survey(root: str, lake: LakeState[LocalFiles]) -> datetime.datetime:
    of_last_day = ds.field("day") == max(lake.days(tables.SURVEYS))
    times = [
        time
        for batch in LakeReader(root).batches(tables.SURVEYS, ["taken_at"], of_last_day)
        for time in batch["taken_at"].to_pylist()
    ]
    return max(times, default=datetime.datetime.max.replace(tzinfo=datetime.UTC))


def _report(
    root: str, name: str, counts: Sequence[IngestCounts], days: Sequence[datetime.date], rules: LakeRules
) -> RunReport:
    of_days = ds.field("day").isin(with_next_days(days))
    found = Counter(severity for (severity,) in LakeReader(root).values(tables.VIOLATIONS, ["severity"], of_days))
    return RunReport(
        name,
        tuple(counts),
        (),
        tuple(days),
        errors=found[Severity.ERROR.value],
        warnings=found[Severity.WARNING.value],
        rules=rules,
    )


# --- local files --------------------------------------------------------------------------------------------------


def _local_journals(places: Sequence[str]) -> list[str] | None:
    """Return the journal files of these places as `io.journal.journal_files` names them, or more; None if that is
    unknown: a place is on another file system, does not exist or has only other files. Raises OSError."""
    found: set[str] = set()
    for place in places:
        path = local_path(place)
        if path is None or _UNCLEAR.intersection(path):
            return None
        found_here = matches(path)
        below = [each for match in found_here for each in entries(match)]
        journals = [each for each in below if each.endswith(ENDINGS) and not os.path.isdir(each)]
        if not found_here or (below and not journals):
            return None
        found.update(journals)
    return [f"{SCHEME}{path}" for path in sorted(found)]


def _files_below(places: Sequence[str]) -> list[str]:
    found = [match for place in places if (path := local_path(place)) for match in glob(path)]
    return [os.path.join(at, name) for match in found for at, _, names in os.walk(match) for name in names]


def _days_bytes(lake: LakeState[LocalFiles], noted: KnownInputs | None) -> int:
    """Return about how many bytes of text the lake has of the days that are made anew: all of them, if the program has
    noted nothing; else those that are pending, or the largest. Which days the unread lines are about is not known
    before they are read."""
    days: Counter[datetime.date | None] = Counter()
    for file in lake.files_of(tables.CONTROLLER_EVENTS):
        days[file.day] += file.size_bytes
    pending = sum(days[day] for day in lake.pending_days())
    made = days.total() if noted is None else max(pending, *days.values(), 0)
    return made * _COMPRESSION[".parquet"]


def _text_bytes(paths: Iterable[str]) -> int:
    """Return about how many bytes of text these files have."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size = os.stat(path.removeprefix(SCHEME)).st_size
            total += size * _COMPRESSION.get(os.path.splitext(path)[1], 1)
    return total
