"""What a bystander's samples say of a phase."""

import json
from dataclasses import asdict

from benchmarks.against_kafka import many_page, page, results
from benchmarks.against_kafka.bystander import Latencies, Sample, samples, summary
from benchmarks.against_kafka.measure import PhaseMeasurement, TurnResult
from benchmarks.against_kafka.observer import live_mb
from benchmarks.against_kafka.plan import SMALL, Phase

ORIGIN = {"when": "2026-01-02", "machine": {}, "versions": {"Kafka": "3.9.1"}}


def test_only_complete_lines_are_samples() -> None:
    assert samples("1000.0 0.500\n1020.0 1") == [Sample(1000.0, 0.5)]
    assert samples("") == []


def test_a_phase_has_the_reads_that_were_due_in_it() -> None:
    found = [Sample(1_000 + 20 * number, float(number)) for number in range(300)]
    # From 1,200 to 3,180: numbers 10 to 109.
    assert summary(found, 1_200, 3_199) == Latencies(59.5, 109.0, 109.0, 100)
    assert summary(found, 1_200, 5_199) == Latencies(109.5, 208.0, 209.0, 200)
    assert summary(found, 9_000, 9_999) is None


def test_the_heap_is_the_total_of_the_histogram() -> None:
    text = "   1:     82087   20344560  [B (java.base@17.0.15)\nTotal        123456       26046704\n"
    assert live_mb(text) == 26.046704
    assert live_mb("123: \nUnable to open socket file") is None


def turn(contestant: str, number: int, heap_mb: float | None, bystander: Latencies | None) -> TurnResult:
    name, phase = SMALL.name, str(Phase.DELETION)
    measured = PhaseMeasurement(name, phase, contestant, number, 1.0, 0.5, 4_000, 1, 2, 3, 4, 0.5, heap_mb, bystander)
    return TurnResult(name, contestant, number, 100.0, (measured,), ())


def test_the_page_shows_what_others_felt() -> None:
    turns = [
        turn("lethe", 1, 12.4, Latencies(1.0, 20.0, 400.0, 120)),
        turn("lethe", 2, 30.0, Latencies(3.0, 60.0, 70.0, 100)),
        turn("lethe", 3, None, Latencies(2.0, 40.0, 50.0, 130)),
        turn("kafka", 1, None, None),
    ]
    found = json.loads(json.dumps(results.document(turns, ORIGIN)))
    assert f"| {SMALL.name} | deletion | – | +21 MB | – | 2, 40, 400 ms (100) |" in page.table(found)
    older = [{k: v for k, v in asdict(each).items() if k not in ("zookeeper_mb", "bystander")} for each in turns[:1]]
    for each in older:
        each["phases"] = [
            {k: v for k, v in p.items() if k not in ("zookeeper_mb", "bystander")} for p in each["phases"]
        ]
    assert "felt by others" not in page.table(found | {"turns": older})


def test_a_round_of_few_reads_has_no_p99() -> None:
    turns = [turn("lethe", number, 12.0, Latencies(1.0, 20.0, 30.0, reads)) for number, reads in ((1, 100), (2, 99))]
    found = results.document(turns, ORIGIN)
    assert "| 1, –, 30 ms (99) |" in page.table(json.loads(json.dumps(found)))
    assert "|1/–/30 (99)|" in "\n".join(many_page._table(json.loads(json.dumps(found))))
