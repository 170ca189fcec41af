"""docs/journal.md: what each line of the journal holds, from the schema of its event records."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lethe.protocol.journal import EventRecordType
from lethe.protocol.journal_forms import Key, KeyKind
from lethe.protocol.journal_schema import SCHEMAS

_INTRODUCTION: Final = """\
# The journal

Generated from `protocol/journal_schema.py`; `make docs` writes it.

If `lethe.journal.dir` is set, controllers and agents write each event record as a line of JSON (CloudEvents 1.0):

    {"specversion":"1.0","id":"19b1f2c3a4b-17","source":"/lethe/controller/1001","type":"lethe.election",
     "subject":"controller/1001","time":"2026-01-02T03:04:05.678Z","datacontenttype":"application/json",
     "data":{"what":"elected","epoch":7,"version":6}}

(on one line). `id` is unique for its `source`. `subject` names what the record is about. `time` never goes back within
a process, which reads the clock once, at its start.

Files are `<daemon>-<id>-00000001.jsonl` and so on; the highest number is being written. A file is closed at
`lethe.journal.max.bytes`; beyond `lethe.journal.max.files` the oldest are removed.

The daemon never waits for the disk. A `lethe.gap` line says how many lines a full or stalled disk did not take, from
when to when, and why. The death of the process loses nothing, a power failure the last lines.

`lethe.journal.kafka.bootstrap.servers` sends the same lines into the topic `lethe.journal.kafka.topic` too, which you
create; the cluster may be the controlled one. The key is the source, so a daemon's lines lie in one partition, in
order. After a lost answer a line can be there twice, with the same `id`. Absent brokers delay neither daemon nor files.
Half a minute of outage loses nothing while the queue has room; `lethe.gap` lines in the topic report later losses.

Readers pass over unknown keys and types, and over lines that are not JSON. *Ranges* are partitions as `"0-3,7"`, *id*
is a whole number from -1 on, *count* one from 0 on, and *?* marks a key that is not always there. Keys that several
forms share:
"""
_KINDS: Final = {KeyKind.ID: "id", KeyKind.COUNT: "count", KeyKind.RANGES: "ranges", KeyKind.NUMBER: "number"}
_SEVERAL: Final = 3
_TALLY: Final = Counter(key for schema in SCHEMAS.values() for form in schema.forms for key in form.keys)
_SHARED: Final = tuple(key for key, times in _TALLY.items() if times >= _SEVERAL)


def page() -> str:
    """The text of `docs/journal.md`."""
    lines = [_INTRODUCTION, *map(_entry, _SHARED), ""]
    for record_type in EventRecordType:
        schema = SCHEMAS[record_type]
        lines += [f"## lethe.{record_type.value}", "", schema.meaning, ""]
        for form in schema.forms:
            lines += [f"Written by: {form.writer}. Subject: `{form.subject}`.", ""]
            if shared := ", ".join(_name(key) for key in form.keys if key in _SHARED):
                lines.append(f"* Shared: {shared}")
            lines += [*(_entry(key) for key in form.keys if key not in _SHARED), ""]
    return "\n".join(lines).rstrip() + "\n"


def _name(key: Key) -> str:
    kind = _KINDS.get(key.kind, key.kind.value) + ("?" if key.optional else "")
    return f"`{key.name}` ({kind})"


def _entry(key: Key) -> str:
    return f"* {_name(key)}: {key.meaning}"
