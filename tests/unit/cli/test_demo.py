"""What `lethe demo --brokers` takes, and what it says where the Kafka that is wanted cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.demo import demo, run, wanted_brokers
from lethe.cluster.demo_plan import DemoOptions, require_memory
from lethe.cluster.kafka_fetch import KafkaVersion


@pytest.mark.parametrize(
    "text, kafka, count",
    [
        ("3", None, 3),
        ("12", None, 12),
        ("kafka:3.9.1", "3.9.1", 3),
        ("kafka:2.5.1:5", "2.5.1", 5),
    ],
)
def test_agents_or_real_brokers(text: str, kafka: str | None, count: int) -> None:
    assert wanted_brokers(text) == (None if kafka is None else KafkaVersion.parse(kafka), count)


@pytest.mark.parametrize(
    "text, why",
    [
        ("three", "--brokers three: give a number, or kafka:VERSION"),
        ("kafka", "'' is no version"),
        ("kafka:3.9.1:x", "give a number"),
        ("kafka:4.0.0", "has no ZooKeeper mode"),
        ("-1", "give a number"),
        ("²", "give a number"),
    ],
)
def test_others_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        wanted_brokers(text)


def test_no_more_brokers_than_the_machine_has_memory_for() -> None:
    require_memory(DemoOptions(brokers=9, kafka=KafkaVersion(3, 9, 1)), 4_000)
    with pytest.raises(ValueError, match="--brokers 2000 and --controllers 2 need about 800 GB of memory"):
        require_memory(DemoOptions(brokers=2000, kafka=KafkaVersion(3, 9, 1)), 24_000)
    with pytest.raises(ValueError, match="this machine has 8 GB: start fewer"):
        require_memory(DemoOptions(brokers=3, controllers=200), 8_000)


def test_the_command_asks_for_memory_before_it_starts_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr("lethe.cli.demo.run", lambda *given, **_: started.append(given))
    with pytest.raises(typer.Exit) as ended:
        demo(brokers="kafka:3.9.1:1000000")
    assert ended.value.exit_code == Exit.USAGE
    assert not started


def test_a_kafka_that_cannot_be_fetched_is_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LETHE_KAFKA_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    options = DemoOptions(kafka=KafkaVersion(3, 9, 1), work_dir=tmp_path / "work")
    with pytest.raises(Refusal, match="fetching Kafka 3.9.1 needs Java 17") as refused:
        run(options, keep=False, as_json=False)
    assert refused.value.exit is Exit.USAGE
    assert not (tmp_path / "work").exists()
