"""docs/journal.md: what each line of the journal holds, from the schema of its facts."""

from __future__ import annotations

from typing import Final

from lethe.protocol.journal import FactType
from lethe.protocol.journal_forms import KeyKind
from lethe.protocol.journal_schema import SCHEMAS

_INTRODUCTION: Final = """\
# The journal

Generated from `protocol/journal_schema.py`; `make docs` writes it.

Controllers and agents write what they decide, do and learn as one line of JSON per fact, where `lethe.journal.dir` is
set. A line is a CloudEvents 1.0 object:

    {"specversion":"1.0","id":"19b1f2c3a4b-17","source":"/lethe/controller/1001","type":"lethe.election",
     "subject":"controller/1001","time":"2026-01-02T03:04:05.678Z","datacontenttype":"application/json",
     "data":{"what":"elected","epoch":7,"version":6}}

(on one line). `id` is unique for its `source`: the start of the process in hexadecimal milliseconds, and a counter.
`subject` names what the fact is about. `time` never goes back within one process: the process reads the machine's clock
once, at its start.

Files are `<daemon>-<id>-00000001.jsonl` and so on; the highest number is being written, and a process that starts
appends to it. A file is closed at `lethe.journal.max.bytes`, and the oldest files are removed beyond
`lethe.journal.max.files`.

A thread of its own writes the lines, so the daemon never waits for the disk. Lines that a full or stalled disk does not
take are counted: a `lethe.gap` line says how many are missing, from when to when, and why. Each batch is handed to the
operating system at once, and files are synced when they are closed: the death of the process loses nothing, a power
failure the last lines. A last line that was cut off stays; readers pass over a line that is not JSON.

With `lethe.journal.kafka.bootstrap.servers` the same lines also go into the topic `lethe.journal.kafka.topic`, which
you have to create; the cluster may be the controlled one. They are keyed by source, so those of one daemon lie in one
partition, in order. After a lost answer a line can be there twice, with the same `id`. Brokers that are away hold up
neither the daemon nor the files. An outage of half a minute costs nothing while the queue has room; what is lost beyond
that is told by `lethe.gap` lines in the topic alone, with ids of their own (`…-t1`). A stalled disk holds up the topic
too; a full disk does not.

Where many partitions do the same, one line names them as ranges (`"0-3,7"`). Readers pass over unknown keys and types.
Below, *id* is a whole number from -1 on, *count* one from 0 on, and *?* marks a key that is not always there.
"""
_KINDS: Final = {KeyKind.ID: "id", KeyKind.COUNT: "count", KeyKind.RANGES: "ranges", KeyKind.NUMBER: "number"}


def page() -> str:
    """The text of `docs/journal.md`."""
    lines = [_INTRODUCTION]
    for fact_type in FactType:
        schema = SCHEMAS[fact_type]
        lines += [f"## lethe.{fact_type.value}", "", schema.meaning, ""]
        for form in schema.forms:
            lines += [f"Written by: {form.writer}. Subject: `{form.subject}`.", ""]
            for key in form.keys:
                kind = _KINDS.get(key.kind, key.kind.value) + ("?" if key.optional else "")
                lines.append(f"* `{key.name}` ({kind}): {key.meaning}")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"
