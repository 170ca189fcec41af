"""What becomes of measurements: medians, ratios, the page, the plot; and what an agent's journal says was told."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from benchmarks import documents
from benchmarks.against_kafka import many_page, page, plot, results
from benchmarks.against_kafka.__main__ import parse
from benchmarks.against_kafka.measure import PhaseMeasurement, TurnResult
from benchmarks.against_kafka.observer import AppliedRequest, JournalTail, peak_memory_mb, processor_s
from benchmarks.against_kafka.plan import BROKERS, LARGE, MANY_BROKERS, SMALL, WORKLOADS, Phase, Workload
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, encode

ORIGIN: dict[str, Any] = {
    "when": "2026-01-02 03:04 UTC",
    "machine": {"processor": "two cores", "memory": "8 GB", "system": "Linux", "disk": "1 ms"},
    "versions": {"Kafka": "3.9.1", "Lethe": "0123456", "Python": "3.11.2 (GCC 12.2.0, PGO, no LTO)"},
}


def turn(workload: Workload, contestant: str, number: int, peak_mb: float, **seconds: float) -> TurnResult:
    measured = tuple(
        PhaseMeasurement(
            workload.name, phase, contestant, number, each, each / 2, workload.partitions, 10, 20, 100, 9, 0.5
        )
        for phase, each in seconds.items()
    )
    return TurnResult(workload.name, contestant, number, peak_mb, measured, ())


def document(*turns: TurnResult) -> documents.Document:
    return results.document(turns, ORIGIN)


FOUND = document(
    turn(SMALL, "kafka", 1, 300.0, creation=3.0, deletion=12.0),
    turn(SMALL, "lethe", 1, 90.0, creation=1.0, deletion=0.5),
    turn(SMALL, "lethe", 2, 110.0, creation=5.0, deletion=0.75),
    turn(SMALL, "kafka", 2, 310.0, creation=4.0, deletion=30.0),
    turn(SMALL, "kafka", 3, 305.0, creation=9.0, deletion=15.0),
    turn(SMALL, "lethe", 3, 100.0, creation=2.0, deletion=9.0),
)


def test_medians_and_ratios() -> None:
    row = results.row(FOUND, SMALL.name, "deletion", "kafka")
    assert row is not None
    assert (row.seconds, row.fastest, row.slowest, row.rounds) == (15.0, 12.0, 30.0, 3)
    assert row.bytes_per_partition == 100 / 4_000
    assert results.ratio(FOUND, SMALL.name, "deletion") == 15.0 / 0.75
    assert results.ratio(FOUND, SMALL.name, "failover") is None
    assert results.peak_mb(FOUND, SMALL.name, "lethe") == 110.0


def test_the_page_has_times_ratio_and_what_was_wanted() -> None:
    text = page.page(FOUND)
    times = "15.00 s (12.00–30.00, 3 runs) | 0.75 s (0.50–9.00, 3 runs)"
    assert f"| {SMALL.name} | deletion | {times} | **20.0×** | ≤ 0.45 s **missed** |" in text
    assert f"| {SMALL.name} | 310 MB | 110 MB |  |" in text
    assert "Kafka 3.9.1, Lethe 0123456, Python 3.11.2 (GCC 12.2.0, PGO, no LTO)" in text
    assert "2026-01-02" in text
    assert "{" not in text


def test_what_one_controller_alone_has_measured_is_shown_without_ratio() -> None:
    text = page.table(document(turn(LARGE, "lethe", 1, 350.0, failover=2.5)))
    wanted = "≤ 1.5 s **missed**, ≥ 5× not measured"
    assert f"| {LARGE.name} | failover | – | 2.50 s (1 run) | – | {wanted} |" in text
    assert f"| {LARGE.name} | – | 350 MB | ≤ 200 MB **missed** |" in text
    assert "≤ 200 MB reached" in page.table(document(turn(LARGE, "lethe", 1, 200.0, failover=1.5)))


def test_the_page_says_how_many_rounds_each_workload_has() -> None:
    assert f"5 rounds are wanted, and there are, of {SMALL.name}: Kafka 3, Lethe 3." in page.page(FOUND)
    five = [turn(SMALL, name, number, 1.0, deletion=1.0) for name in ("kafka", "lethe") for number in range(5)]
    medians = "Figures are medians of 5 rounds (fastest–slowest), but the most memory and a bystander's greatest wait"
    assert medians in page.page(document(*five))
    assert "Kafka 5, Lethe 4." in page.page(document(*five[:-1]))


def test_a_workload_that_is_measured_replaces_its_turns_and_the_others_keep_their_origin() -> None:
    later = ORIGIN | {"when": "2026-02-03 04:05 UTC", "versions": ORIGIN["versions"] | {"Lethe": "89abcde-dirty"}}
    now = results.document([turn(LARGE, "lethe", 1, 9.0, deletion=4.0)], later)
    both = results.merged(FOUND, now)
    assert both["turns"] == [*FOUND["turns"], *now["turns"]]
    text = page.page(both)
    assert f"* {SMALL.name} (6 turns): measured on 2026-01-02 03:04 UTC: two cores" in text
    assert f"* {LARGE.name} (1 turn): measured on 2026-02-03 04:05 UTC: two cores" in text
    assert "Lethe 89abcde with uncommitted changes" in text
    again = results.merged(both, document(turn(SMALL, "lethe", 1, 9.0, deletion=4.0)))
    assert results.rounds(again, SMALL.name) == {"lethe": 1}
    assert results.rounds(results.merged(FOUND, FOUND, adds=True), SMALL.name) == {"kafka": 6, "lethe": 6}


def test_turns_with_many_agents_are_shown_with_their_rounds_and_origin() -> None:
    fifty = MANY_BROKERS["fifty"]
    found = document(turn(fifty, "lethe", 1, 300.0, deletion=3.0), turn(fifty, "lethe", 2, 330.0, deletion=5.0))
    text = many_page.page(found)
    assert f"|{fifty.name}|deletion|2|4.00|2.00|10|9|0|–|–|" in text
    assert "Lethe 0123456, Python 3.11.2" in text
    assert "Kafka 3.9.1" not in text
    assert f"Most memory of the controller: {fifty.name}: 330 MB." in text


def test_bars_are_as_long_as_their_times_say() -> None:
    picture = ElementTree.fromstring(plot.svg(FOUND))
    bars = [each for each in picture.iter() if each.tag.endswith("rect") and each.get("height") == str(plot.BAR)]
    widths = [float(each.get("width", "nan")) for each in bars]
    full = plot.WIDTH - plot.LEFT - plot.RIGHT
    # 0.1 s to 100 s: three decades. Creation 4 and 2 seconds, deletion 15 and 0.75.
    assert widths == [pytest.approx(full * (math.log10(s) + 1) / 3, abs=0.1) for s in (4.0, 2.0, 15.0, 0.75)]
    assert "20.0×" in [each.text for each in picture.iter()]


def test_results_survive_the_file(tmp_path: Path) -> None:
    documents.write(FOUND, tmp_path / "found.json")
    assert page.page(documents.read(tmp_path / "found.json")) == page.page(FOUND)


def test_a_journal_tells_what_came_since_the_last_look(tmp_path: Path) -> None:
    def line(number: int, api: str, partitions: int) -> bytes:
        fact = EventRecord(
            EventRecordType.REQUEST, "broker/1", {"api": api, "controller_epoch": 5, "partitions": partitions}
        )
        return encode(JournalEntry(str(number), "/lethe/broker/1", 1_000 + number, fact))

    tail = JournalTail(tmp_path)
    assert tail.read() == []
    first, second = tmp_path / "broker-1-00000001.jsonl", tmp_path / "broker-1-00000002.jsonl"
    broker = encode(
        JournalEntry("0", "/lethe/broker/1", 1_000, EventRecord(EventRecordType.BROKER, "broker/1", {"happened": "x"}))
    )
    third = line(3, "STOP_REPLICA", 7)
    first.write_bytes(broker + line(1, "LEADER_AND_ISR", 4) + line(2, "UPDATE_METADATA", 0) + third[:20])
    assert tail.read() == [
        AppliedRequest(1_001, "LEADER_AND_ISR", 5, 4),
        AppliedRequest(1_002, "UPDATE_METADATA", 5, 0),
    ]
    with first.open("ab") as file:
        file.write(third[20:])
    second.write_bytes(line(4, "UPDATE_METADATA", 1))
    assert tail.read() == [AppliedRequest(1_003, "STOP_REPLICA", 5, 7), AppliedRequest(1_004, "UPDATE_METADATA", 5, 1)]
    assert tail.read() == []


def test_a_process_is_measured_from_outside() -> None:
    work = "block = bytearray(64 << 20); block[::4096] = bytes(len(block) // 4096)\nfor _ in range(3_000_000): pass\n"
    command = [sys.executable, "-c", work + "print(flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 64 < peak_memory_mb(process.pid) < 200
        assert processor_s(process.pid) > 0
        process.communicate(b"\n")
    with pytest.raises(OSError, match="No such"):
        peak_memory_mb(process.pid)
    assert processor_s(os.getpid()) > 0


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=str)
def test_workloads_spread_their_replicas_evenly(workload: Workload) -> None:
    plans = tuple(workload.plans("t"))
    assert len({plan.name for plan in plans}) == workload.topics
    leaders = [replicas[0] for plan in plans for replicas in plan.assignment]
    assert len(leaders) == workload.partitions
    assert all(abs(leaders.count(broker) - len(leaders) / len(BROKERS)) < workload.topics for broker in BROKERS)
    assert all(sorted(replicas) == list(BROKERS) for plan in plans for replicas in plan.assignment)
    assert workload.phases[-1] is Phase.DELETION


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = parse(["--workloads", "large", "--only", "lethe", "--large-runs", "2", "--budget-min", "1"])
    assert (list(options.workloads), options.rounds, options.names) == (["large"], {"large": 2}, ("lethe",))
    assert (options.budget_s, options.output) == (60, None)
    there = str(tmp_path)
    assert parse(["--output", there]).output == tmp_path
    assert parse(["--output", there, "--quick"]).output is None
    for wrong, said in (
        (["--workloads", "huge"], "no such workload: huge"),
        (["--kafka", "4.0.0"], "4.0.0 has no ZooKeeper mode"),
        (["--runs", "0"], "must be above 0"),
        (["--budget-min", "-1"], "must be above 0"),
        (["--output", f"{there}/nowhere"], "there is no such directory"),
        (["--output", there, "--add"], "No such file"),
    ):
        with pytest.raises(SystemExit):
            parse(wrong)
        assert said in capsys.readouterr().err


def test_rounds_are_added_to_those_with_the_same_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "benchmarks.json"
    documents.write(FOUND, file)
    given = ["--output", str(tmp_path), "--add"]
    assert parse(given).adds
    assert parse(given).stored == file
    assert parse([*given[:-1], "--workloads", "fifty"]).stored == tmp_path / many_page.JSON_NAME
    with pytest.raises(SystemExit):
        parse([*given, "--kafka", "2.5.1"])
    assert "has rounds with Kafka 3.9.1, not with 2.5.1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["--logs", str(tmp_path)])
    assert "is no empty directory" in capsys.readouterr().err
