"""`lethe pipeline run` as a process of its own, with a session of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.cli import pipeline
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, encode
from tests.pipeline.conftest import SETTINGS


@pytest.mark.slow
def test_a_run_from_the_command_line_makes_tables_that_can_be_shown(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    said: dict[str, JsonValue] = {"phase": "queued", "took_ms": 1, "topic_id": None, "partitions": 1, "replicas": 2}
    fact = EventRecord(EventRecordType.DELETION_PHASE, "topic/orders", said)
    (journal / "a.jsonl").write_bytes(encode(JournalEntry("a-1", "/lethe/controller/1", 1767323045678, fact)) + b"{")
    command = [
        sys.executable,
        "-m",
        "lethe",
        "pipeline",
        "run",
        "--journal",
        str(journal),
        "--lake",
        str(tmp_path / "lake"),
    ]
    command += ["--master", "local[1]"]
    for name, value in {**SETTINGS, "spark.driver.memory": "600m"}.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--as-of", "2026-01-03T00:00:00Z"]
    scratch = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=scratch, timeout=1_500, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    told = json.loads(done.stdout)
    counts = {"table": "controller_events", "read": 2, "new": 1, "duplicate": 0, "late": 0, "quarantined": 1}
    assert told["taken"][0] == counts
    assert told["days"] == ["2026-01-02"]
    assert told["rows"] == {"stuck_now": 1}
    assert not list(tmp_path.glob("lethe-pipeline-*.log")), "a log that nobody needs is removed"
    shown = pipeline.show("deletion_spans", str(tmp_path / "lake"), 5, None, None)
    assert isinstance(shown.data, dict)
    assert [row["topic"] for row in shown.data["rows"]] == ["orders"]  # type: ignore[index,union-attr,call-overload]
    assert pipeline.show("quarantine", str(tmp_path / "lake"), 5, None, None).lines == ("quarantine: 1 of 1 row",)
