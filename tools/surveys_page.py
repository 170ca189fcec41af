"""docs/surveys.md: what a kept survey is, from the columns of its files, and what to do about what it finds."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.report.remedies import remedy
from lethe.pipeline.report.values import Finding
from lethe.protocol.findings import Place, Reason
from lethe.protocol.survey_records import FILES, MANIFEST

_INTRODUCTION: Final = """\
# Kept surveys

Generated from `protocol/survey_records.py` and `pipeline/report/remedies.py`; `make docs` writes it.

`lethe survey` looks at the three places where a topic is: ZooKeeper, the brokers' metadata caches, the disks. With
`--out DIR` what it saw is kept as data, for the pipeline and for whoever wants to look again later:

    lethe survey --zookeeper localhost:2181 --out surveys

makes `surveys/20260102T030405.678Z-host/` with the files below, and prints where. It works in front of any cluster that
keeps its metadata in ZooKeeper, with Lethe's brokers and controller or with Kafka's own, and asks no controller.

What brokers tell of their disks leaves out topic ids, times, and all that was set aside or waits for its removal. The
directories themselves are read where they are on the machine that `lethe survey` runs on: those of live brokers are
found by themselves, those of brokers that are down have to be named,

    lethe survey --zookeeper zk:2181 --out surveys --log-dirs /data/kafka-a,/data/kafka-b

where `meta.properties` in each says whose it is and of which cluster; `--log-dirs 3=/data/kafka-a` says so where it is
missing, and never against it. Symbolic links in the place of a replica's directory or of a segment are not followed:
they are a problem of the log directory. Run on each broker host, it makes one kept survey per host, each with its own
directories and the whole rest; the report takes what each host's newest survey read.

A kept survey appears whole or not at all: it is written under a name that begins with a dot, made durable, renamed.
What could not be seen is no reason not to keep the rest: it stands in the manifest, with `complete` false, by the path
of the znode or as `broker 3`, and nothing is concluded from it. Without the list of topics nothing is called left over;
that something is missing takes the markers, the reassignments and every broker's answer that it rests on. Rows are
never more than was seen at that moment, and the places are looked at one after the other: the manifest lists the topics
that came, went, were marked or were changed meanwhile. A controller writes to ZooKeeper first and tells brokers then:
what may be on its way (a topic that a cache lacks or still has, a replica that is not made or not removed yet) is
looked at again two seconds later, and its topic is in motion too where it is settled by then. A broker that
does not let clients without a name `DESCRIBE` a topic leaves it out of its list without a word; the second look asks
by name, and then that is a problem of the broker and no finding.

A broker that has replicas by the assignments, is not registered and of which no log directory was named is among what
could not be seen: anything may lie on its disks. A log directory that only its broker tells of counts as seen, as far
as its broker tells; the rows' `source` says which those are, and `lethe survey` and the report say how many.

The pipeline takes a survey in whole or not at all: one with a row that cannot be used is refused, because what it does
not name would seem not to exist.

Each file but the manifest has one JSON object per line, with every column in each; all may be null. Readers pass over
columns that they do not know.
"""


_REMEDIES: Final = """\
## What to do about a finding

By `reason`, as the report says it for each finding: TOPIC is its topic, WHAT the path that the survey names.
Brokers are restarted one at a time, and in good order (SIGTERM), so that they hand over what they lead;
none for any reason as long as a `replica_without_directory` is on it and no other live broker is in the ISR.
"""


def page() -> str:
    """The text of `docs/surveys.md`."""
    lines = [_INTRODUCTION]
    for file in FILES:
        lines += [f"## {file.name}", "", file.meaning, ""]
        if file is MANIFEST:
            lines += ["One JSON object, written last.", ""]
        lines += ["| Column | Value | Meaning |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.kind.value} | {column.meaning} |" for column in file.columns]
        lines.append("")
    lines += [_REMEDIES, "| `reason` | What it is | What to do | |", "|---|---|---|---|", *map(_remedy, Reason)]
    return "\n".join(lines).rstrip() + "\n"


def _remedy(reason: Reason) -> str:
    found = Finding(Place.DISK.value, reason.standing.code, reason.code, "WHAT", "TOPIC", None, None, None, None)
    advice = remedy(found)
    command = "" if advice.command is None else f"`{advice.command}`"
    return f"| `{reason.code}` | {reason.value} | {advice.does} | {command} |"
