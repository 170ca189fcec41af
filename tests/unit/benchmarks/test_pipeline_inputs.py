"""What the pipeline's benchmark generates is what daemons and surveys write, and is counted rightly."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import orjson

from benchmarks.pipeline.journal import DAY_MS, FIRST_DAY_MS, write_journal
from benchmarks.pipeline.planted import Planted
from benchmarks.pipeline.survey import PARTITIONS, REPLICAS, write_survey
from lethe.protocol.journal import EventRecordType, JournalEntry, decode, time_to_text
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.survey_records import DIRECTORIES, MANIFEST, ROW_FILES, row_problems

LINES: Final = 12_000


def _journal(directory: Path) -> tuple[Planted, list[bytes]]:
    planted = write_journal(directory, LINES, lines_per_day=LINES // 2, seed=1, processes=1)
    return planted, [line for file in sorted(directory.iterdir()) for line in file.read_bytes().splitlines()]


def test_the_journal_holds_what_was_counted(tmp_path: Path) -> None:
    planted, lines = _journal(tmp_path)
    entries = [entry for line in lines if isinstance(entry := decode(line), JournalEntry)]
    assert abs(len(lines) - LINES) < LINES / 3
    assert len(lines) - len(entries) == planted.bad
    keys = Counter((entry.source, entry.id) for entry in entries)
    assert len(keys) == planted.lines
    assert keys.total() - len(keys) == planted.repeated
    entries = list({(entry.source, entry.id): entry for entry in entries}.values())
    misfits = [entry for entry in entries if schema_problems(entry.record)]
    assert len(misfits) == planted.violations["known-form"]
    phases = Counter(
        str(entry.record.data["phase"]) for entry in entries if entry.record.type is EventRecordType.DELETION_PHASE
    )
    assert phases["done"] == planted.done
    assert phases["let go"] == planted.let_go
    assert phases["vanished"] == planted.vanished > 0
    freed = [entry.record.data["size_bytes"] for entry in entries if entry.record.type is EventRecordType.BYTES_FREED]
    assert sum(int(str(size)) for size in freed) == planted.freed_bytes
    assert planted.size_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_the_same_seed_gives_the_same_journal(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert _journal(tmp_path / "a") == _journal(tmp_path / "b")


def test_a_daemon_goes_forward_in_time(tmp_path: Path) -> None:
    _, lines = _journal(tmp_path)
    times: dict[str, dict[int, int]] = defaultdict(dict)
    for line in lines:
        entry = decode(line)
        if isinstance(entry, JournalEntry):
            run, number = entry.id.split("-")
            times[f"{entry.source} {run}"][int(number)] = entry.time_ms
    for process, by_number in times.items():
        in_order = [by_number[number] for number in sorted(by_number)]
        assert in_order == sorted(in_order), process


def test_the_survey_holds_what_was_counted(tmp_path: Path) -> None:
    planted = write_survey(tmp_path, 40_000, taken_at_ms=FIRST_DAY_MS, seed=1, processes=1)
    (kept,) = tmp_path.iterdir()
    manifest = orjson.loads((kept / MANIFEST.name).read_bytes())
    assert not row_problems(MANIFEST, manifest)
    for file in ROW_FILES:
        rows = [orjson.loads(line) for line in (kept / file.name).read_bytes().splitlines()]
        assert len(rows) == manifest["rows"][file.name]
        for row in rows:
            # What a row does not name is null.
            assert not row_problems(file, {**dict.fromkeys(file.column_names), **row}), row
        if file is DIRECTORIES:
            kinds = Counter(row["kind"] for row in rows)
            assert sum(kinds.values()) - kinds["log-dir"] == planted.directories
            assert kinds["deleted"] == planted.leftovers["not_reclaimed_yet"]
            month_ago = time_to_text(FIRST_DAY_MS - 30 * DAY_MS)
            unwritten = [row["topic"] for row in rows if (row.get("newest_segment_write") or month_ago) < month_ago]
            per_topic = set(Counter(unwritten).values())
            assert (len(set(unwritten)), per_topic) == (planted.unused, {PARTITIONS * REPLICAS})
    assert len(planted.leftovers) == 12
    assert planted.directories >= 40_000 - PARTITIONS
