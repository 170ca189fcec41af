"""docs/surveys.md: what a kept survey is, from the columns of its files, and what to do about what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lethe.pipeline.report.remedies import Remedy, remedy
from lethe.pipeline.report.values import Finding
from lethe.protocol.findings import Place, Reason
from lethe.protocol.survey_records import FILES, MANIFEST, ColumnKind

_INTRODUCTION: Final = """\
# Kept surveys

Generated from `protocol/survey_records.py` and `pipeline/report/remedies.py`; `make docs` writes it.

    lethe survey --zookeeper zk:2181 --out surveys
    lethe survey --zookeeper zk:2181 --out surveys --log-dirs /data/kafka-a,/data/kafka-b

makes `surveys/20260102T030405.678Z-host/` with the files below, whole or not at all. `lethe survey` looks at ZooKeeper,
the brokers' metadata caches and the disks. It asks no controller, and works under Kafka's too.

**Disks.** Brokers report log directories without topic ids, times, and directories that were quarantined or wait for
removal. So `lethe survey` also reads the directories of live brokers on its own machine; name those of brokers that are
down. Without `meta.properties` name the broker too: `--log-dirs 3=/data/kafka-a`. Symbolic links are problems, and not
followed. Run it on each broker host: the report uses each host's newest survey.

**What could not be seen** is in the manifest (`problems`, with `complete` false), and nothing is concluded from it. A
broker counts as not seen if it has replicas, is not registered, and has no named log directory. A log directory that
only its broker reports counts as seen (column `source`). A broker omits topics that the survey's user may not
`DESCRIBE`, without an error. So it is also asked for a name that no topic has, and in a second look for those that it
omits; what it hides is a problem.

**What changes meanwhile** is in the manifest's `in_motion`. Differences that may be on their way (a topic in a cache, a
replica's directory) are looked at again two seconds later.

Each file but the manifest has one JSON object per line, with every column; all may be null. Each line begins with the
manifest's `survey_id` and `taken_at`. Times are RFC 3339 in UTC, with milliseconds.
"""


_REMEDIES: Final = """\
## What to do about a finding

TOPIC is the finding's topic, WHAT its path. Restart brokers one at a time, with SIGTERM, so that they hand over what
they lead; none with a `replica_without_directory` while no other live broker is in the ISR.
"""
_KINDS: Final = {
    ColumnKind.NUMBER: "int32",
    ColumnKind.LONG: "int64",
    ColumnKind.NUMBERS: "int32 list",
    ColumnKind.INSTANT: "time",
}


def page() -> str:
    """The text of `docs/surveys.md`."""
    lines = [_INTRODUCTION]
    for file in FILES:
        lines += [f"## {file.name}", "", file.meaning, ""]
        if file is MANIFEST:
            lines += ["One JSON object, written last.", ""]
        for column in file.columns:
            if file is MANIFEST or column not in MANIFEST.columns:
                kind = _KINDS.get(column.kind, column.kind.value)
                lines.append(f"* `{column.name}` ({kind}): {column.meaning}")
        lines.append("")
    lines += [_REMEDIES, "| `reason` | What to do | |", "|---|---|---|", *_advised()]
    return "\n".join(lines).rstrip() + "\n"


def _advised() -> Iterator[str]:
    """A row for each advice, with the reasons that it is for."""
    reasons: dict[Remedy, list[Reason]] = {}
    for reason in Reason:
        found = Finding(Place.DISK.value, reason.standing.code, reason.code, "WHAT", "TOPIC", None, None, None, None)
        reasons.setdefault(remedy(found), []).append(reason)
    for advice, those in reasons.items():
        meant = "; ".join(f"`{reason.code}`: {reason.value}" for reason in those)
        yield f"| {meant} | {advice.does} | {f'`{advice.command}`' if advice.command else ''} |"
