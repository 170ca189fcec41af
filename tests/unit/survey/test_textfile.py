"""A survey as a textfile of the node exporter: read back with Prometheus' own parser."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from lethe.protocol.findings import Place, Reason
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.leftovers import Leftover
from lethe.survey.textfile import GAUGES, format_textfile
from lethe.survey.views import Problem, Survey, ZooKeeperTree

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Found:
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def directory(number: int, broker: int, size_bytes: int) -> Leftover:
    reason = Reason.DIRECTORY_WITHOUT_TOPIC
    return Leftover(Place.DISK, reason, f"/d/t-{number}", "t", BrokerId(broker), number, size_bytes)


def taken() -> Survey:
    return Survey(1_700_000_000_500, 250, ZooKeeperTree())


def labels(reason: Reason) -> tuple[tuple[str, str], ...]:
    return (("reason", reason.code), ("standing", reason.standing.code))


def test_counts_by_reason_and_by_broker() -> None:
    found = parsed(format_textfile(taken(), [directory(0, 1, 10), directory(1, 1, 20), directory(0, 2, 5)]))
    assert found["lethe_survey_findings", labels(Reason.DIRECTORY_WITHOUT_TOPIC)] == 3
    assert found["lethe_survey_finding_bytes", labels(Reason.DIRECTORY_WITHOUT_TOPIC)] == 35
    assert found["lethe_survey_broker_findings", (("broker_id", "1"), ("standing", "left_over"))] == 2
    assert found["lethe_survey_timestamp_seconds", ()] == 1_700_000_000.5
    assert found["lethe_survey_duration_seconds", ()] == 0.25
    assert found["lethe_survey_problems", ()] == 0


def test_what_was_not_found_where_something_is_unseen_has_no_count() -> None:
    blind = replace(taken(), zookeeper=ZooKeeperTree(problems=(Problem("/brokers/topics", "NO_AUTH"),)))
    found = parsed(format_textfile(blind, [directory(0, 1, 10)]))
    counted = {name_of for name, name_of in found if name == "lethe_survey_findings"}
    assert counted == {labels(Reason.DIRECTORY_WITHOUT_TOPIC)}, "this one was found"
    assert {name_of for name, name_of in found if name == "lethe_survey_finding_bytes"} == counted
    assert found["lethe_survey_problems", ()] == 1


def test_what_was_not_found_is_there_with_nought_and_nothing_depends_on_how_much_there_is() -> None:
    none, many = format_textfile(taken(), []), format_textfile(taken(), [directory(n, 1, 1) for n in range(5_000)])
    for reason in Reason:
        assert parsed(none)["lethe_survey_findings", labels(reason)] == 0
    assert len(parsed(many)) == len(parsed(none)) + 1
    assert {name for name, _ in parsed(many)} == {gauge.name for gauge in GAUGES}
