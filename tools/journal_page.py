"""docs/journal.md: what each line of the journal holds, from the schema of its facts."""

from __future__ import annotations

from typing import Final

from lethe.protocol.journal import FactType
from lethe.protocol.journal_schema import SCHEMAS

_INTRODUCTION: Final = """\
# The journal

Generated from `protocol/journal_schema.py`; `make docs` writes it.

Controllers and agents write what they decide, do and learn as one line of JSON per fact, where `lethe.journal.dir` is
set. A line is a CloudEvents 1.0 object:

    {"specversion":"1.0","id":"19b1f2c3a4b-17","source":"/lethe/controller/1001","type":"lethe.election",
     "subject":"controller/1001","time":"2026-01-02T03:04:05.678Z","datacontenttype":"application/json",
     "data":{"what":"elected","epoch":7,"version":6}}

(on one line). `id` is unique for its `source`: the start of the process in hexadecimal milliseconds, and a number that
rises by one per line. `subject` says what the fact is about. `time` never goes back within one process: its clock is
read once, when it starts, and goes on evenly. So what is set on the machine's clock later shows after a restart.

Files are `<daemon>-<id>-00000001.jsonl` and so on; the one with the highest number is being written. A file that has
`lethe.journal.max.bytes` is closed, and the oldest ones are removed beyond `lethe.journal.max.files`, so the journal
has a known upper limit. A process that starts goes on in the newest file.

Writing never holds a daemon up: facts go through a bounded queue to a thread of their own. What a full or stalled disk
did not take is counted, and a `lethe.gap` line at that place says how much is missing, from when to when, and why.
Each batch is handed to the operating system at once, so it survives the death of the process; files are synced to disk
when they are closed, so a power failure may cost the last lines. Where the last line was cut off, the next process
begins on a fresh one: readers pass over a line that is not JSON.

With `lethe.journal.kafka.bootstrap.servers` the same lines, byte for byte, also go into the topic
`lethe.journal.kafka.topic` (somebody has to create it; the cluster may be the one that is controlled). They are keyed
by their source, so that those of one daemon lie in one partition, in order; after a lost answer of a broker a line
can be there twice, with the same `id`. A queue and a thread of their own keep brokers that are away from holding up
the daemon or the files. An outage of half a minute costs nothing while the queue has room; what is lost beyond that
is counted and told by `lethe.gap` lines in the topic alone, whose numbers (`…-t1`) are none of the files'. A disk
that stalls holds up the topic too; one that is full does not.

Where many partitions do the same, one line names them as ranges (`"0-3,7"`). Readers pass over keys and types that
they do not know.
"""


def page() -> str:
    """The text of `docs/journal.md`."""
    lines = [_INTRODUCTION]
    for fact_type in FactType:
        schema = SCHEMAS[fact_type]
        lines += [f"## lethe.{fact_type.value}", "", schema.meaning, ""]
        for form in schema.forms:
            lines += [f"Written by: {form.writer}. Subject: `{form.subject}`.", ""]
            lines += ["| Key | Value | Meaning |", "|---|---|---|"]
            for key in form.keys:
                name = f"`{key.name}`" + (" (not always)" if key.optional else "")
                lines.append(f"| {name} | {key.kind.value} | {key.meaning} |")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"
