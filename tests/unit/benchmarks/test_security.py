"""What becomes of measurements of TLS and logins; and that daemons take the properties of every kind."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.against_kafka.measure import PhaseMeasurement, TurnResult
from benchmarks.against_kafka.plan import LARGE
from benchmarks.against_kafka.testbed import BenchmarkFailed
from benchmarks.documents import Document
from benchmarks.rounds import by_turns
from benchmarks.security import page, plot, results
from benchmarks.security.__main__ import listening_at, parse
from benchmarks.security.connections import Accepted, LoggedIn
from benchmarks.security.kinds import CHANNELS, KINDS, Material
from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.broker.runtime.configuration import load_broker_config
from lethe.cluster.daemons import write_properties
from lethe.controller.runtime.configuration import load_controller_config


def turn(contestant: str, seconds: float) -> TurnResult:
    phase = PhaseMeasurement(LARGE.name, "deletion", contestant, 1, seconds, 2.0, 100, 10, 20, 100, 9, 0.5)
    return TurnResult(LARGE.name, contestant, 1, 100.0, (phase,), ())


FOUND: Document = results.document(
    [Accepted("PLAINTEXT", n, 100, 0.1 * n, 0.05, 0.02) for n in (1, 2, 4)] + [Accepted("SSL", 1, 100, 0.4, 0.2, 0.1)],
    [LoggedIn("SSL", 1, 100, 0, 0.5, 0.25), LoggedIn("SSL", 1, 300, 7, 8.0, 2.0)],
    [turn("PLAINTEXT", 4.0), turn("SSL", 5.0)],
    [0.5, 1.5],
    {"when": "2026-01-02", "machine": {"processor": "a", "memory": "b", "disk": "c"}, "versions": {"Lethe": "0123456"}},
)


def test_medians() -> None:
    assert results.per_second(FOUND, "PLAINTEXT") == 500.0
    assert results.processor_ms(FOUND, "SSL", "server_s") == 2.0
    assert results.login(FOUND, "SSL", 300) == (8.0, 2.0, 7)
    assert results.login(FOUND, "SSL", 5) is None


def test_the_page_has_each_part() -> None:
    text = page.page(FOUND)
    assert "| PLAINTEXT | 500 | 0.50 ms | 0.20 ms |" in text
    assert "| SSL | 0.50 s, processor 0.25 s | 8.00 s, processor 2.00 s, **7 unanswered** |" in text
    assert f"| {LARGE.name} | deletion | 4.00 s, processor 2.00 s | 5.00 s, processor 2.00 s | **1.25×** |" in text
    assert page.table({**FOUND, "accepted": [], "logged_in": [], "turns": []}) == ""


def test_bars_are_as_long_as_their_rates_say() -> None:
    picture = ElementTree.fromstring(plot.svg(FOUND))
    bars = [float(each.get("width", "nan")) for each in picture.iter() if each.get("height") == str(plot.BAR)]
    full = plot.WIDTH - plot.LEFT - plot.RIGHT
    assert bars == [pytest.approx(full, abs=0.1), pytest.approx(full / 2, abs=0.1)]


def test_the_order_changes_from_round_to_round() -> None:
    assert [by_turns((1, 2, 3), number) for number in (1, 2, 3)] == [(1, 2, 3), (3, 2, 1), (1, 2, 3)]


def test_the_listeners_of_a_controller_are_read_from_its_log() -> None:
    line = "brokers find the controller at TLS://127.0.0.1:81, BOTH://127.0.0.1:92, among the live brokers; clients"
    assert listening_at(f"before\n{line}\n") == {"TLS": 81, "BOTH": 92}
    with pytest.raises(BenchmarkFailed):
        listening_at("nothing")


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    given = parse([])
    assert given.workloads == (LARGE,)
    assert (given.brokers, [*given.channels]) == ((100, 300), ["PLAINTEXT", "SSL", "SASL_SSL"])
    assert parse(["--quick"]).output is None
    assert [*parse(["--security", "SASL_SSL", "PLAINTEXT"]).channels] == ["PLAINTEXT", "SASL_SSL"]
    for wrong in (["--rounds", "0"], ["--brokers", "0"], ["--output", "/nowhere/at/all"]):
        with pytest.raises(SystemExit):
            parse(wrong)
    assert "there is no such directory" in capsys.readouterr().err


def test_daemons_take_the_properties_of_every_kind(tmp_path: Path) -> None:
    material, file = Material(tmp_path), tmp_path / "server.properties"
    own = {"broker.id": "1", "zookeeper.connect": "127.0.0.1:1"}
    write_properties(file, {**own, "log.dirs": str(tmp_path), **material.server()})
    assert len(load_broker_config(file, {}).listeners) == len(KINDS)
    for kind in CHANNELS.values():
        write_properties(file, {**own, **material.between_brokers(kind)})
        choice = load_controller_config(file, {}).reach.choice
        assert (choice.listener, choice.spoken) == (kind.listener, (kind.protocol,))
    for kind in KINDS:
        write_properties(file, material.client(kind))
        assert load_client_reach(file).choice.spoken == (kind.protocol,)
