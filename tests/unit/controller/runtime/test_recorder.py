import logging

import pytest

from lethe.controller.runtime.metrics import ControllerMetrics
from lethe.controller.runtime.recorder import LEVELS, Recorder
from lethe.protocol.journal import EventRecord, EventRecordType
from tests.fakes.runtime import Facts


def refusal(topic: int) -> EventRecord:
    return EventRecord(EventRecordType.REFUSAL, f"topic/{topic}", {"what": "NEW to ONLINE", "why": "no live replica"})


def test_every_type_has_a_level() -> None:
    assert set(LEVELS) == set(EventRecordType)


def test_journal_metrics_and_log_get_the_same_fact(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal, metrics = Facts(), ControllerMetrics()
    record = EventRecord(EventRecordType.ELECTION, "controller/1", {"what": "elected", "epoch": 3})
    Recorder(journal, metrics).record(record)
    assert journal.seen == [record]
    assert 'lethe_controller_facts_total{type="election"} 1.0' in metrics.text().decode()
    assert caplog.messages == ["election of controller/1"]


def test_a_flood_of_equal_refusals_is_cut_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = Facts()
    recorder = Recorder(journal, ControllerMetrics())
    for number in range(1000):
        recorder.record(refusal(number))
    recorder.record(EventRecord(EventRecordType.REFUSAL, "topic/x", {"what": "another", "why": "kind"}))
    assert len(journal.seen) == 1001
    assert len(caplog.messages) == 21


def test_the_rest_of_a_flood_is_counted_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    recorder = Recorder(None, ControllerMetrics())
    for number in range(50):
        recorder.record(refusal(number))
    monkeypatch.setattr("lethe.controller.runtime.recorder._BURST_S", -1.0)
    recorder.record(refusal(51))
    assert "30 more refusals of this kind: NEW to ONLINE: no live replica" in caplog.messages


def test_without_a_journal_the_rest_still_works() -> None:
    metrics = ControllerMetrics()
    Recorder(None, metrics).record(refusal(1))
    assert 'lethe_controller_facts_total{type="refusal"} 1.0' in metrics.text().decode()
