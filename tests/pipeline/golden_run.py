"""A recorded run, `lethe demo --chaos` with few topics: its journals, and the tables that are made of them.

    python -m tests.pipeline.golden_run [--only-tables]

records it again (`make golden-pipeline`): journals into golden/journal, tables into golden/tables, a row a line. Look
at what has changed before you keep it. `--only-tables` makes the tables of the journals that are there.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import session
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.slow_brokers import slow_brokers
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.journal import JournalEntry, decode_lines
from tests.pipeline.journals import Line, events, rows_of, stuck_table

JOURNALS: Final = Path(__file__).with_name("golden") / "journal"
TABLES: Final = Path(__file__).with_name("golden") / "tables"
TOPICS: Final = 9
STUCK_BEFORE_END_MS: Final = 3_000
"""The golden table of what is stuck is of this moment: so long before the last deletion was done. A controller
that was killed is replaced only after its session of six seconds."""
_PLACE: Final = "/var/lib/lethe"


def journal_lines() -> list[Line]:
    """All lines of the recorded journals."""
    found = []
    for path in sorted(JOURNALS.glob("*.jsonl")):
        for entry in decode_lines(path.read_bytes().splitlines(keepends=True)):
            assert isinstance(entry, JournalEntry), f"{path}: {entry}"
            fact = entry.record
            said = (fact.type.value, fact.subject, json.dumps(dict(fact.data)))
            found.append(Line(entry.source, entry.id, entry.time_ms, *said))
    return found


def tables(spark: SparkSession, lines: list[Line]) -> dict[str, list[dict[str, Any]]]:
    """Every table that is made of the journal alone, by name; rows in an order of their own.

    `stuck_now` is of the lines up to a moment in the middle of the chaos.
    """
    bronze, replicas, spans = _silver(spark, lines)
    moment_ms = max(line.time_ms for line in lines if '"done"' in line.data) - STUCK_BEFORE_END_MS
    bronze_then, replicas_then, spans_then = _silver(spark, [line for line in lines if line.time_ms <= moment_ms])
    now = datetime.datetime.fromtimestamp(moment_ms / 1000, datetime.UTC)
    frames: Mapping[str, DataFrame] = {
        "deletion_spans": spans,
        "replica_deletions": replicas,
        "controller_tenures": controller_tenures(bronze),
        "deletion_slo": deletion_slo(spans),
        "slow_brokers": slow_brokers(replicas),
        "daily_reclaim": daily_reclaim(bronze),
        "stuck_now": stuck_table(
            spans_then, replicas_then, controller_tenures(bronze_then), now=now, threshold_ms=1_000
        ),
    }
    return {name: sorted(rows_of(frame), key=lambda row: json.dumps(row)) for name, frame in frames.items()}


def _silver(spark: SparkSession, lines: list[Line]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Bronze, replicas and spans."""
    bronze = events(spark, lines)
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    return bronze, replicas, deletion_spans(bronze, heads, replicas).cache()


def golden(table: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLES / f"{table}.jsonl").read_text(encoding="utf-8").splitlines()]


def _record() -> None:
    with tempfile.TemporaryDirectory(prefix="lethe-golden-") as directory:
        work_dir = Path(directory) / "demo"
        demo = ("demo", "--chaos", "--topics", str(TOPICS), "--work-dir", str(work_dir))
        subprocess.run((sys.executable, "-m", "lethe", *demo), check=True)
        JOURNALS.mkdir(parents=True, exist_ok=True)
        for old in JOURNALS.glob("*.jsonl"):
            old.unlink()
        for path in sorted(work_dir.glob("*/journal/*.jsonl")):
            text = path.read_text(encoding="utf-8").replace(str(work_dir), _PLACE)
            (JOURNALS / path.name).write_text(text, encoding="utf-8")


def _make_tables() -> None:
    with tempfile.TemporaryDirectory(prefix="lethe-golden-") as directory:
        spark = session.build_session(
            "local[2]", {"spark.sql.shuffle.partitions": "2"}, log=Path(directory) / "spark.log"
        )
        made = tables(spark, journal_lines())
        spark.stop()
    TABLES.mkdir(parents=True, exist_ok=True)
    for name, rows in made.items():
        lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        (TABLES / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if "--only-tables" not in sys.argv[1:]:
        _record()
    _make_tables()
