"""Which log directories were read, by the surveys of one round.

A broker's description omits quarantined directories, directories that wait for their removal, and topic ids. So without
findings, a log directory is clean only if a survey read it itself. If each broker's host takes its own surveys, the
newest survey of the round that read a log directory counts, if it could read all of it:

    survey     host of    log directory of broker 1    of broker 2    read
    10:00      broker 1   read                         described
    10:05      broker 2   described                    read           2 of 2 log directories
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.report.read_surveys import rows_of_surveys
from lethe.pipeline.report.values import DiskCoverage, LogDir, SurveyRow
from lethe.protocol.survey_records import LOCAL


class LogDirRow(NamedTuple):
    """One log directory in one survey."""

    survey_id: str | None
    broker: int | None
    log_dir: str | None
    source: str | None
    problem: str | None

    @property
    def where(self) -> LogDir:
        return LogDir(self.broker, self.log_dir)


LogDirs = Mapping[str | None, Sequence[LogDirRow]]
"""By survey."""


def read_log_dirs(lake: LakeReader, surveys: Sequence[SurveyRow]) -> LogDirs | None:
    """Return the log directories of these surveys; None if the lake has no such table. Raises as LakeReader."""
    if not surveys or not lake.has(tables.AGENT_INVENTORY):
        return None
    where = rows_of_surveys(surveys) & (ds.field("kind") == "log-dir")
    found: dict[str | None, list[LogDirRow]] = {}
    for values in lake.values(tables.AGENT_INVENTORY, LogDirRow._fields, where):
        row = LogDirRow(*values)
        found.setdefault(row.survey_id, []).append(row)
    return found


def disk_coverage(log_dirs: LogDirs | None, surveys: Sequence[SurveyRow]) -> DiskCoverage | None:
    """Return how many log directories these surveys of one round, newest first, have read; None if unknown."""
    if log_dirs is None:
        return None
    known = {row.where for survey in surveys[:1] for row in log_dirs.get(survey.survey_id, ())}
    last: dict[LogDir, LogDirRow] = {}
    for survey in surveys:
        for row in log_dirs.get(survey.survey_id, ()):
            if row.source == LOCAL:
                last.setdefault(row.where, row)
    known |= last.keys()
    unread = {where for where in known if where not in last or last[where].problem is not None}
    ordered = sorted(unread, key=lambda where: (where.broker or 0, where.path or ""))
    return DiskCoverage(len(known), len(known) - len(unread), tuple(ordered))
