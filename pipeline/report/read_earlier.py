"""Findings on disks that the newest survey could not read, from earlier surveys.

A broker's description omits quarantined directories, directories that wait for their removal, and topic ids: only a
survey that read a log directory itself has these. If each broker's host takes its own surveys, the newest one covers
one host only. So each log directory counts as in the newest survey that read it, if that is within a round of the
newest.

The state may have changed since. A finding of an earlier survey is kept only if the newest survey does not contradict
it:

    earlier finding                     kept if, in the newest survey
    STRAY_DIRECTORY                     (always)
    DIRECTORY_WITHOUT_TOPIC             the topic still does not exist
    DIRECTORY_OF_OTHER_INCARNATION      the topic still has the other id
    any other                           never: every broker reports its replicas now

The page never advises to move a directory that was not seen lately: it names the time and asks for a new survey.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.report.read_disks import LogDirs
from lethe.pipeline.report.read_surveys import rows_of_surveys
from lethe.pipeline.report.values import EarlierFindings, Finding, LogDir, Rows, SurveyRow
from lethe.protocol.findings import Reason
from lethe.protocol.survey_records import LOCAL
from lethe.protocol.zookeeper import paths

_SHOWN: Final = 200
KEPT_REASONS: Final = (
    Reason.STRAY_DIRECTORY,
    Reason.DIRECTORY_WITHOUT_TOPIC,
    Reason.DIRECTORY_OF_OTHER_INCARNATION,
)
"""Reasons that only a survey sees that read the log directory itself."""


def read_earlier(lake: LakeReader, surveys: Sequence[SurveyRow], log_dirs: LogDirs | None) -> EarlierFindings:
    """Return what the surveys of one round, newest first, found in log directories that no later one has read, without
    the newest survey. `log_dirs` are theirs. Raises as LakeReader."""
    if len(surveys) < 2:
        return EarlierFindings()
    newest = surveys[0]
    claims = _last_read_by(surveys, log_dirs or {})
    if not claims:
        return EarlierFindings()
    found = list(_found(lake, newest, surveys, claims))
    topics = _topics(lake, newest, [each for each in found if each.reason != Reason.STRAY_DIRECTORY.code])
    kept = [each for each in found if _is_still_possible(each, newest, topics)]
    kept.sort(key=lambda each: (each.standing or "", -(each.size_bytes or 0), each.what or "", each.broker or 0))
    by_standing = Counter(each.standing or "" for each in kept)
    return EarlierFindings(Rows.of(kept, _SHOWN), dict(sorted(by_standing.items())))


def _last_read_by(surveys: Sequence[SurveyRow], log_dirs: LogDirs) -> dict[str | None, set[LogDir]]:
    """Return, by survey except the newest, the log directories that it was the last to read."""
    seen: set[LogDir] = set()
    claims: dict[str | None, set[LogDir]] = {}
    for survey in surveys:
        own = {row.where for row in log_dirs.get(survey.survey_id, ()) if row.source == LOCAL} - seen
        seen |= own
        if own and survey is not surveys[0]:
            claims[survey.survey_id] = own
    return claims


def _found(
    lake: LakeReader, newest: SurveyRow, surveys: Sequence[SurveyRow], claims: Mapping[str | None, set[LogDir]]
) -> Iterator[Finding]:
    """Return what these surveys found in their log directories, and the newest survey did not."""
    wanted = [row for row in surveys if row.survey_id in claims or row is newest]
    where = rows_of_surveys(wanted) & (ds.field("place") == "disk")
    where &= ds.field("reason").isin([reason.code for reason in KEPT_REASONS])
    again: set[tuple[int | None, str | None]] = set()
    found: list[Finding] = []
    for survey_id, *values in lake.values(tables.LEFTOVERS, ["survey_id", *Finding._fields], where):
        finding = Finding(*values)
        log_dir = (finding.what or "").rpartition("/")[0]
        if survey_id == newest.survey_id:
            again.add((finding.broker, finding.what))
        elif LogDir(finding.broker, log_dir) in claims[survey_id]:
            found.append(finding)
    return (finding for finding in found if (finding.broker, finding.what) not in again)


def _topics(lake: LakeReader, newest: SurveyRow, findings: list[Finding]) -> dict[str | None, str | None] | None:
    """Return the ids of the findings' topics that exist in the newest survey; None if it could not list topics."""
    if any(problem.get("where") == paths.BROKER_TOPICS for problem in newest.problems or ()):
        return None
    names = sorted({each.topic for each in findings if each.topic is not None})
    if not names:
        return {}
    where = rows_of_surveys([newest]) & (ds.field("kind") == "topic") & ds.field("topic").isin(names)
    return dict(lake.values(tables.ZNODE_SNAPSHOT, ["topic", "topic_id"], where))


def _is_still_possible(finding: Finding, newest: SurveyRow, topics: Mapping[str | None, str | None] | None) -> bool:
    """Return True if the newest survey does not contradict the finding."""
    if finding.reason == Reason.STRAY_DIRECTORY.code:
        return True
    if topics is None or finding.topic in (newest.in_motion or ()):
        return False
    if finding.reason == Reason.DIRECTORY_WITHOUT_TOPIC.code:
        return finding.topic not in topics
    topic_id = topics.get(finding.topic)
    return topic_id is not None and (finding.detail or "").endswith(f"the topic's is {topic_id}")
