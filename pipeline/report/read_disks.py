"""Which disks anybody has looked into, as the surveys of one round tell.

What a broker tells of its log directories leaves out what was set aside, what waits for its removal and whose an old
directory is. Nothing left over there is a broker's word, and not what somebody saw. Where each broker's host takes its
own surveys, a log directory was looked into if the newest survey of the round that read it itself could read all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.columns import LakeReader, column_names, to_rows
from lethe.pipeline.report.read_surveys import rows_of
from lethe.pipeline.report.values import Disks, LogDir, SurveyRow

LOCAL = "local"
"""The `source` of what a survey read itself."""


class LogDirRow(NamedTuple):
    """One log directory as one survey has it."""

    survey_id: str | None
    broker: int | None
    log_dir: str | None
    source: str | None
    problem: str | None

    @property
    def where(self) -> LogDir:
        return LogDir(self.broker, self.log_dir)


def read_log_dirs(lake: LakeReader, surveys: Sequence[SurveyRow]) -> tuple[LogDirRow, ...] | None:
    """The log directories of these surveys; None where the lake has no table of them. Raises as LakeReader."""
    if not surveys or not lake.has(tables.DIRECTORIES):
        return None
    where = rows_of(surveys) & (ds.field("kind") == "log-dir")
    batches = lake.batches(tables.DIRECTORIES, column_names(LogDirRow), where)
    return tuple(row for batch in batches for row in to_rows(batch, LogDirRow))


def disks(log_dirs: Sequence[LogDirRow] | None, surveys: Sequence[SurveyRow]) -> Disks | None:
    """What the surveys of one round, newest first, come to; None where that is not known."""
    if log_dirs is None:
        return None
    age = {survey.survey_id: number for number, survey in enumerate(surveys)}
    last: dict[LogDir, LogDirRow] = {}
    for row in sorted(log_dirs, key=lambda row: age[row.survey_id]):
        if row.source == LOCAL:
            last.setdefault(row.where, row)
    known = {row.where for row in log_dirs if age[row.survey_id] == 0} | last.keys()
    unread = {where for where in known if where not in last or last[where].problem is not None}
    ordered = sorted(unread, key=lambda where: (where.broker or 0, where.path or ""))
    return Disks(len(known), len(known) - len(unread), tuple(ordered))
