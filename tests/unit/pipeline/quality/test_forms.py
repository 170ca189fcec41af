"""Records that are recognised without parsing are valid, and nearly all are recognised."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from lethe.pipeline.quality.forms import usual_pattern
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, decode
from lethe.protocol.journal_schema import SCHEMAS, schema_problems

GOLDEN: Final = Path(__file__).parents[3] / "pipeline" / "golden" / "journal"
PHASE: Final[dict[str, JsonValue]] = {"phase": "queued", "took_ms": 0, "topic_id": None, "partitions": 1, "replicas": 2}


def is_usual(kind: EventRecordType, data: str) -> bool:
    return any(re.match(_of_python(usual_pattern(form)), data) for form in SCHEMAS[kind].forms)


def _of_python(pattern: str) -> str:
    """Python before 3.11.5 goes on behind the entry that ended a possessive list (gh-106052)."""
    return pattern.replace(")++", ")+").replace(")*+", ")*").replace(r"\z", r"\Z")


def test_what_is_recognised_is_valid_and_most_records_are() -> None:
    found: Counter[bool] = Counter()
    for file in GOLDEN.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            entry = decode(line)
            assert isinstance(entry, JournalEntry)
            usual = is_usual(entry.record.type, json.dumps(entry.record.data, separators=(",", ":")))
            found[usual] += 1
            assert not usual or not schema_problems(entry.record)
    assert found[True] > 4 * found[False]


@pytest.mark.parametrize(
    "change",
    [
        {"took_ms": -1},
        {"took_ms": "0"},
        {"partitions": 0.5},
        {"topic_id": 7},
        {"phase": None},
        {"phase": 'a "quoted": -1'},
        {"partitions": 10**30},
        {"further": {"phase": "x"}},
    ],
)
def test_other_values_and_keys_are_left_to_their_types(change: dict[str, Any]) -> None:
    kind = EventRecordType.DELETION_PHASE
    assert not schema_problems(EventRecord(kind, "topic/a", PHASE))
    assert is_usual(kind, json.dumps(PHASE))
    assert not is_usual(kind, json.dumps({**PHASE, **change}))


def test_what_is_no_whole_object_is_not_recognised() -> None:
    text = json.dumps(PHASE)
    for wrong in (text[:-1], f"{text}\n", f" {text}", text.replace("}", ",}"), "{}", "", text.replace("0", "00")):
        assert not is_usual(EventRecordType.DELETION_PHASE, wrong), wrong
