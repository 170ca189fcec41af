"""What a bystander's samples say of a phase."""

import json
from dataclasses import asdict

import pytest

from benchmarks.against_kafka import many_page, page, results
from benchmarks.against_kafka.bystander import Latencies, Sample, samples, summary
from benchmarks.against_kafka.measure import PhaseMeasurement, TurnResult
from benchmarks.against_kafka.observer import live_mb
from benchmarks.against_kafka.plan import LARGE, MANY_BROKERS, SMALL, Phase, Workload

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


def turn(
    contestant: str,
    number: int,
    heap_mb: float | None,
    bystander: Latencies | None,
    workload: Workload = SMALL,
    phase: Phase = Phase.DELETION,
) -> TurnResult:
    name = workload.name
    measured = PhaseMeasurement(
        name, str(phase), contestant, number, 1.0, 0.5, 4_000, 1, 2, 3, 4, 0.5, heap_mb, bystander
    )
    return TurnResult(name, contestant, number, 100.0, (measured,), ())


def test_the_page_shows_what_others_felt() -> None:
    turns = [
        turn("lethe", 1, 12.4, Latencies(1.0, 20.0, 400.0, 120)),
        turn("lethe", 2, 30.0, Latencies(3.0, 60.0, 70.0, 100)),
        turn("lethe", 3, None, Latencies(2.0, 40.0, 50.0, 130)),
        turn("kafka", 1, None, None),
    ]
    found = json.loads(json.dumps(results.document(turns, ORIGIN)))
    assert f"| {SMALL.name} | deletion | – | +21 MB | – | – | 2, 40, 400 ms (100) |  |" in page.table(found)
    older = [{k: v for k, v in asdict(each).items() if k not in ("zookeeper_mb", "bystander")} for each in turns[:1]]
    for each in older:
        each["phases"] = [
            {k: v for k, v in p.items() if k not in ("zookeeper_mb", "bystander")} for p in each["phases"]
        ]
    assert "felt by others" not in page.table(found | {"turns": older})


def test_a_round_of_few_reads_has_no_p99() -> None:
    turns = [turn("lethe", number, 12.0, Latencies(1.0, 20.0, 30.0, reads)) for number, reads in ((1, 100), (2, 99))]
    found = results.document(turns, ORIGIN)
    assert "| 1, –, 30 ms (99) |  |" in page.table(json.loads(json.dumps(found)))
    assert "|1/–/30 (99)|" in "\n".join(many_page._table(json.loads(json.dumps(found))))


@pytest.mark.parametrize(
    "kafka_mb, lethe_mb, p99_ms, said",
    [
        (97.0, 136.9, 499.9, "+40 MB | – | 1, 500, 900 ms (200) | < 40 MB reached, p99 < 500 ms reached |"),
        (97.0, 137.0, 500.0, "+40 MB | – | 1, 500, 900 ms (200) | < 40 MB **missed**, p99 < 500 ms **missed** |"),
        (97.0, 90.0, 5.0, "-7 MB | – | 1, 5, 900 ms (200) | < 40 MB reached, p99 < 500 ms reached |"),
        (None, 90.0, 5.0, "– | – | 1, 5, 900 ms (200) | < 40 MB not measured, p99 < 500 ms reached |"),
    ],
)
def test_what_others_feel_of_the_large_deletion_is_judged(
    kafka_mb: float | None, lethe_mb: float, p99_ms: float, said: str
) -> None:
    found = (
        turn("kafka", 1, kafka_mb, None, LARGE),
        turn("lethe", 1, lethe_mb, Latencies(1.0, p99_ms, 900.0, 200), LARGE),
    )
    assert f" | {said}" in page.table(json.loads(json.dumps(results.document(found, ORIGIN))))


def test_a_p99_is_wanted_of_the_deletion_alone_and_a_heap_of_each_phase() -> None:
    found = [
        turn(name, 1, heap_mb, Latencies(1.0, 640.0, 900.0, 200), LARGE, Phase.CREATION)
        for name, heap_mb in (("kafka", 97.3), ("lethe", 138.4))
    ]
    text = page.table(json.loads(json.dumps(results.document(found, ORIGIN))))
    assert "| +97 MB | +138 MB | +41 MB |" in text
    assert "| < 40 MB **missed** |" in text
    assert "p99 <" not in text


def test_too_few_reads_have_no_verdict() -> None:
    found = [turn("lethe", 1, 1.0, Latencies(1.0, 5.0, 9.0, 99), LARGE)]
    assert "p99 < 500 ms not measured |" in page.table(json.loads(json.dumps(results.document(found, ORIGIN))))


@pytest.mark.parametrize(
    "p99_ms, reads, said",
    [
        (37.0, 650, "p99 < 500 ms reached (37 ms)."),
        (500.0, 650, "p99 < 500 ms **missed** (500 ms)."),
        (37.0, 99, "p99 < 500 ms not measured."),
    ],
)
def test_with_many_agents_the_deletion_is_judged_and_a_slower_phase_is_named(
    p99_ms: float, reads: int, said: str
) -> None:
    fifty = MANY_BROKERS["fifty"]
    found = [
        turn("lethe", 1, 140.0, Latencies(1.0, 640.0, 714.0, 463), fifty, Phase.CREATION),
        turn("lethe", 1, 140.0, Latencies(1.0, 37.0, 714.0, 463), fifty, Phase.FAILOVER),
        turn("lethe", 1, 27.0, Latencies(1.0, p99_ms, 714.0, reads), fifty),
    ]
    lines = many_page._wanted(json.loads(json.dumps(results.document(found, ORIGIN))))
    beyond = "It is wanted of the deletion alone; not below it: creation (640 ms)."
    assert lines == [f"Wanted of a bystander in the deletion of {fifty.name}: {said} {beyond}", ""]
    small = [turn("lethe", 1, 1.0, Latencies(1.0, 5.0, 9.0, 100))]
    assert many_page._wanted(results.document(small, ORIGIN)) == []
